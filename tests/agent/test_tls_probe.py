"""What the other side thinks of our certificate, learnt from real handshakes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest

from edgesweep_agent import tls
from edgesweep_agent.settings import TlsSettings
from mosquitto import free_port, needs_mosquitto, running_mosquitto
from pki import SERVER, Authority


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("foreign"), "Another CA")


@contextlib.contextmanager
def listening(authority, pair, version=None, *, says=b"", answer=True):
    """A server that asks for a certificate of ``authority``; ``version`` is the one it speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    if version is not None:
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT@SECLEVEL=0")

    def serve():
        plain, _ = server.accept()
        with plain, contextlib.suppress(OSError):
            if not answer:
                return
            with context.wrap_socket(plain, server_side=True) as line:
                if says is None:
                    return
                line.sendall(says) if says else line.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(10)


def context_of(pair, authority, device_id="press-07", **more):
    """A context from files that are not judged first: it is the server who is to refuse them."""
    return tls._context(
        TlsSettings(ca_file=authority.file, cert_file=pair.cert, key_file=pair.key, **more)
    )


def told(port, context, host="127.0.0.1", **options):
    with pytest.raises(tls.CertificateTrouble) as caught:
        tls.probe(host, port, context, **options)
    said = str(caught.value)
    assert said.startswith(f"{host}:{port}: ")
    return said.partition(": ")[2]


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("says", [b"", b"welcome"])
def test_whoever_is_let_in_hears_of_nothing(ca, version, says):
    with listening(ca, ca.server(), version, says=says) as port:
        assert tls.probe("127.0.0.1", port, context_of(ca.client("press-07"), ca)) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ca, _: ca.client("press-07", days=(-9, -1)), "our certificate has expired"),
        (lambda _, foreign: foreign.client("press-07"), "does not know the authority"),
        (lambda ca, _: ca.issue("press-07", SERVER), "it refuses our certificate|not for clients"),
    ],
)
def test_a_refusal_is_told_also_after_a_handshake_that_went_well(ca, foreign, version, make, words):
    with listening(ca, ca.server(), version) as port:
        said = told(port, context_of(make(ca, foreign), ca))
    assert any(word in said for word in words.split("|")), said


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_closes_without_a_word_has_let_nobody_in(ca, version):
    with listening(ca, ca.server(), version, says=None) as port:
        said = told(port, context_of(ca.client("press-07"), ca))
    assert said.startswith("it closed the connection without a word: it refuses our certificate")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ca, _: ca.server(names=("broker.example",)), "IP address mismatch.*server_name"),
        (lambda ca, _: ca.server(days=(-9, -1)), "has expired; is this device's clock set"),
        (lambda ca, _: ca.server(days=(1, 9)), "not yet valid; is this device's clock set"),
        (lambda _, foreign: foreign.server(), "is ca_file the authority that signed it"),
        (
            lambda ca, _: ca.client("collector", names=("127.0.0.1",)),
            "purpose.*serverAuth",
        ),
    ],
)
def test_a_server_that_is_not_who_it_should_be_is_refused(ca, foreign, make, words):
    with listening(ca, make(ca, foreign)) as port:
        said = told(port, context_of(ca.client("press-07"), ca))
    assert said.startswith("we refuse its certificate: ")
    for word in words.split(".*"):
        assert word in said


def test_another_name_may_be_asked_for(ca):
    pair = ca.server(names=("broker.example",))
    client = ca.client("press-07")
    with listening(ca, pair) as port:
        assert tls.probe("127.0.0.1", port, context_of(client, ca), "broker.example") is None
    # In the settings: then paho, which knows no such option, asks for it as well.
    with listening(ca, pair) as port:
        named = context_of(client, ca, server_name="broker.example")
        assert tls.probe("127.0.0.1", port, named) is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_not_spoken(ca, version):
    with listening(ca, ca.server(), version) as port:
        assert "no version of TLS that we do" in told(port, context_of(ca.client("press-07"), ca))


def test_a_server_without_tls_is_told(ca):
    with listening(ca, ca.server(), answer=False) as port:
        said = told(port, context_of(ca.client("press-07"), ca))
    assert "without a word" in said

    def plain():
        with server.accept()[0] as line:
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            line.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=plain)
        thread.start()
        said = told(server.getsockname()[1], context_of(ca.client("press-07"), ca))
        thread.join(10)
    assert "speaks no TLS at this port" in said


def test_nobody_there_is_no_matter_of_certificates(ca):
    context = context_of(ca.client("press-07"), ca)
    with pytest.raises(ConnectionRefusedError):
        tls.probe("127.0.0.1", free_port(), context)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        tls.probe("127.0.0.1", silent.getsockname()[1], context, timeout_s=0.3)


@needs_mosquitto
def test_mosquitto_s_refusals_are_told(ca, foreign, tmp_path):
    server = ca.server()
    config = (
        f"allow_anonymous true\ncafile {ca.file}\ncertfile {server.cert}\nkeyfile {server.key}\n"
        "require_certificate true\nuse_identity_as_username true"
    )
    with running_mosquitto(tmp_path, config) as broker:
        port = broker.port
        assert tls.probe("127.0.0.1", port, context_of(ca.client("press-07"), ca)) is None
        refused = {
            "our certificate has expired": ca.client("press-07", days=(-9, -1), file="expired"),
            "does not know the authority": foreign.client("press-07"),
            "our certificate is not for clients": ca.issue("press-07", SERVER, file="wrong"),
        }
        for words, pair in refused.items():
            assert words in told(port, context_of(pair, ca))
