"""Files of a TLS table: judged at the start by their names, taken again when they are renewed."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import TlsSettings
from edgesweep_collector.tls import ClientContext, Renewable, Role, server_context
from pki import Authority, key_pem


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


def settings(ca, pair, **changes):
    files = {"ca_file": ca.file, "cert_file": pair.cert, "key_file": pair.key} | changes
    return TlsSettings(**{key: str(path) for key, path in files.items()})


def refused(tls, role=Role.SERVER):
    with pytest.raises(SettingsError) as caught:
        Renewable(tls, "grpc.tls", role)
    return str(caught.value)


@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file"])
def test_a_file_that_is_of_no_use_is_named_with_its_key(ca, tmp_path, key):
    path = tmp_path / "file"
    said = refused(settings(ca, ca.server(), **{key: path}))
    assert said == f"grpc.tls.{key}: cannot read {path}: No such file or directory"
    path.touch(0o600)
    path.write_bytes(b"hello")
    what = "is no private key" if key == "key_file" else "has no certificate"
    assert refused(settings(ca, ca.server(), **{key: path})) == (
        f"grpc.tls.{key}: {path} {what} in PEM"
    )


def test_a_key_that_others_may_read_is_refused(ca):
    pair = ca.server(file="open")
    pair.key.chmod(0o644)
    assert "has mode 0644 and is open to others: chmod 600 " in refused(settings(ca, pair))


def test_a_key_of_another_certificate_or_with_a_password_is_refused(ca):
    pair, other = ca.server(), ca.server(file="other")
    said = refused(settings(ca, pair, key_file=other.key))
    assert said == f"grpc.tls.key_file: {other.key} does not belong to {pair.cert}"
    other.key.write_bytes(key_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    assert "is encrypted" in refused(settings(ca, pair, key_file=other.key))


def test_a_certificate_for_another_purpose_is_refused(ca):
    server, client = ca.server(), ca.client("collector.1")
    assert "extended key usage serverAuth" in refused(settings(ca, client))
    assert "extended key usage clientAuth" in refused(settings(ca, server), Role.CLIENT)
    assert Renewable(settings(ca, client), "mqtt.tls", Role.CLIENT)


def test_what_runs_out_is_warned_about_and_what_has_is_a_problem(ca, caplog):
    def problem(*days):
        tls = settings(ca, ca.server(days=days))
        return Renewable(tls, "grpc.tls", Role.SERVER).problem()

    assert (problem(-1, 20), caplog.text) == (None, "")
    assert problem(-1, 9) is None
    assert "grpc.tls.cert_file runs out on 20" in caplog.text
    assert problem(-9, -1).startswith("grpc.tls.cert_file expired on 20")
    assert problem(1, 9).startswith("grpc.tls.cert_file is not good before 20")


def test_half_a_renewal_leaves_the_old_one_in_use(ca, caplog):
    pair, new = ca.server(file="kept"), ca.server(file="new")
    files = Renewable(settings(ca, pair), "grpc.tls", Role.SERVER)
    before = files.pems
    assert files.renewed() is None
    pair.cert.write_bytes(new.cert.read_bytes())
    assert files.renewed() is None
    assert files.pems is before
    assert "the old certificate stays in use: grpc.tls.key_file: " in caplog.text
    pair.key.write_bytes(new.key.read_bytes())
    assert files.renewed().chain == new.cert.read_bytes()
    assert files.renewed() is None


def test_no_key_is_in_what_might_be_logged(ca):
    pems = Renewable(settings(ca, ca.server()), "grpc.tls", Role.SERVER).pems
    assert repr(pems).startswith("Pems(good until 20")


def shaken(server, client, host="127.0.0.1"):
    """Shake hands over a socket pair of the loopback; the serial the client was shown."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            plain, _ = listening.accept()
            with plain, server.wrap_socket(plain, server_side=True) as line:
                line.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listening.getsockname()) as plain,
            client.wrap_socket(plain, server_hostname=host) as line,
        ):
            assert line.recv(5) == b"hello"
            serial = line.getpeercert()["serialNumber"]
        thread.join(10)
    return int(serial, 16)


def test_a_server_shows_its_renewed_certificate_at_the_next_handshake(ca):
    pair, new = ca.server(file="http"), ca.server(file="http-new")
    server = server_context(Renewable(settings(ca, pair), "http.tls", Role.SERVER))
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2
    client = ssl.create_default_context(cafile=ca.file)
    assert shaken(server, client) == pair.x509.serial_number
    for path, text in ((pair.cert, new.cert.read_bytes()), (pair.key, new.key.read_bytes())):
        path.write_bytes(text)
    assert shaken(server, client) == new.x509.serial_number
    pair.cert.write_bytes(b"half a")
    assert shaken(server, client) == new.x509.serial_number


def test_a_client_asks_for_the_name_of_the_settings_and_loads_renewals(ca):
    broker = ca.server(names=("broker.example",), file="broker")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(broker.cert, broker.key)
    server.load_verify_locations(ca.file)
    server.verify_mode = ssl.CERT_REQUIRED
    pair, new = ca.client("collector.1"), ca.client("collector.1", file="renewed")
    tls = settings(ca, pair, server_name="broker.example")
    client = ClientContext.of(Renewable(tls, "mqtt.tls", Role.CLIENT))
    assert shaken(server, client) == broker.x509.serial_number
    for path, text in ((pair.cert, new.cert.read_bytes()), (pair.key, new.key.read_bytes())):
        path.write_bytes(text)
    client.renew()
    assert shaken(server, client) == broker.x509.serial_number
