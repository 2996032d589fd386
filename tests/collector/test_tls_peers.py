"""Who a certificate names, and the list of those who are refused."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from cryptography import x509

from edgesweep_collector.errors import SettingsError
from edgesweep_collector.peers import Denylist, peer_of_dict, peer_of_pem
from pki import CLIENT, Authority

KEY = "grpc.tls.denylist_file"


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "denied"
    made.write_text("")
    return made


def test_a_serial_is_found_however_it_is_written(path):
    denylist = Denylist(str(path), KEY)
    for text in ("1A2B", "1a:2b", "0x1a2b", "00:1A:2B", "serial=1A2B", "1a2b  # press-07, stolen"):
        path.write_text(f"# a comment\r\n\r\n{text}\r\n")
        assert denylist.denies("press-07", 0x1A2B), text
        assert not denylist.denies("press-07", 0x1A2C)
        path.write_text("")
        assert not denylist.denies("press-07", 0x1A2B)


def test_a_name_is_denied_whatever_its_serial(path):
    path.write_text("press-07\nbeef\n")
    denylist = Denylist(str(path), KEY)
    assert denylist.denies("press-07", 1)
    assert denylist.denies("press-07")
    # A name that could be a number is both.
    assert denylist.denies("beef", 1)
    assert denylist.denies("press-08", 0xBEEF)
    assert not denylist.denies("press-08", 1)
    assert not denylist.denies("press-08")


def test_a_list_that_is_gone_lets_nobody_in_again(path, caplog):
    path.write_text("press-07\n")
    denylist = Denylist(str(path), KEY)
    path.unlink()
    for _ in range(3):
        assert denylist.denies("press-07")
    path.write_bytes(b"\xff\xfe")
    assert denylist.denies("press-07")
    assert caplog.text.count("the denylist stays as it was") == 2
    path.write_text("press-08\n")
    assert not denylist.denies("press-07")


def test_a_list_that_cannot_be_read_at_the_start_is_an_error(tmp_path):
    with pytest.raises(SettingsError, match=rf"^{KEY}: cannot read .*absent: No such file"):
        Denylist(str(tmp_path / "absent"), KEY)
    assert not Denylist(None, KEY).denies("press-07", 1)


def test_both_ways_to_a_peer_tell_the_same(ca):
    pair, server = ca.client("press-07"), ca.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.load_verify_locations(ca.file)
    context.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=ca.file)
    client.load_cert_chain(pair.cert, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def connect():
            with (
                socket.create_connection(listening.getsockname()) as plain,
                client.wrap_socket(plain, server_hostname="localhost") as line,
            ):
                line.recv(1)

        thread = threading.Thread(target=connect)
        thread.start()
        plain, _ = listening.accept()
        with plain, context.wrap_socket(plain, server_side=True) as line:
            told = line.getpeercert()
        thread.join(10)
    peer = peer_of_pem(pair.cert.read_bytes())
    assert peer_of_dict(told) == peer
    assert (peer.common_name, peer.serial) == ("press-07", pair.x509.serial_number)
    assert str(peer) == f"'press-07' (serial {pair.serial})"


def test_a_certificate_with_two_names_names_nobody(ca):
    names = [x509.NameAttribute(x509.NameOID.COMMON_NAME, name) for name in ("a", "b")]
    pair = ca.issue("two", CLIENT, subject=x509.Name(names))
    assert peer_of_pem(pair.cert.read_bytes()).common_name == ""
    subject = tuple((("commonName", name),) for name in ("a", "b"))
    told = {"subject": subject, "serialNumber": "0A", "notAfter": "Jun  1 12:00:00 2030 GMT"}
    assert peer_of_dict(told).common_name == ""
