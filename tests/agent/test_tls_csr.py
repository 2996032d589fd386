"""``csr``: a key that is made on the device and stays there, and what comes back for it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from edgesweep_agent import csr, tls
from edgesweep_agent.settings import TlsSettings
from pki import Authority, key_pem

_MAIN = "from edgesweep_agent.cli import main; main()"
_ENV = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
CONFIG = """
[device]
id = "press-07"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
kind = "mqtt"
host = "127.0.0.1"
"""
TLS = """
[uplink.tls]
ca_file = "tls/ca.crt"
cert_file = "tls/device.crt"
key_file = "tls/device.key"
"""


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path / "ca")


@pytest.fixture
def files(tmp_path, ca):
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.crt").write_bytes(ca.file.read_bytes())
    names = ("ca.crt", "device.crt", "device.key")
    return TlsSettings(*(tmp_path / "tls" / name for name in names))


@pytest.fixture
def run(tmp_path):
    (tmp_path / "agent.toml").write_text(CONFIG + TLS)

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-c", _MAIN, "csr", "--config", tmp_path / "agent.toml", *arguments],
            env=_ENV,
            capture_output=True,
            text=True,
            check=False,
            umask=0,
        )

    return command


def test_the_key_is_made_here_for_this_user_alone(files):
    made = csr.request(files, "press-07")
    assert (made.key_file, made.is_new_key) == (files.key_file, True)
    assert stat.S_IMODE(files.key_file.stat().st_mode) == 0o600
    assert isinstance(load_pem_private_key(files.key_file.read_bytes(), None).curve, ec.SECP256R1)
    assert sorted(path.name for path in files.key_file.parent.iterdir()) == ["ca.crt", "device.key"]


def test_the_request_names_the_device(files):
    found = x509.load_pem_x509_csr(csr.request(files, "press-07").pem)
    assert found.is_signature_valid
    assert found.subject.rfc4514_string() == "CN=press-07"
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["press-07"]
    assert b"PRIVATE" not in csr.request(files, "press-07").pem


def test_a_key_is_never_overwritten(files, ca):
    csr.request(files, "press-07")
    before = files.key_file.read_bytes()
    again = csr.request(files, "press-07")
    assert not again.is_new_key
    other = csr.request(files, "press-07", new_key=True)
    assert (other.key_file, other.is_new_key) == (csr.next_key(files), True)
    assert not csr.request(files, "press-07", new_key=True).is_new_key
    assert files.key_file.read_bytes() == before != other.key_file.read_bytes()


def test_of_two_that_make_a_key_at_once_the_first_one_s_stays(files):
    csr._make_key(files.key_file)
    before = files.key_file.read_bytes()
    with pytest.raises(tls.CertificateTrouble, match="File exists"):
        csr._make_key(files.key_file)
    assert files.key_file.read_bytes() == before


def test_what_a_broken_off_attempt_left_is_no_obstacle(files):
    files.key_file.with_name("device.key.part").write_text("half a k")
    assert csr.request(files, "press-07").is_new_key


@pytest.mark.parametrize(
    "make",
    [
        ed25519.Ed25519PrivateKey.generate,
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: rsa.generate_private_key(65537, 2048),
    ],
)
def test_a_key_of_the_operators_own_is_taken(files, make):
    files.key_file.touch(0o600)
    files.key_file.write_bytes(key_pem(make()))
    made = csr.request(files, "press-07")
    assert not made.is_new_key
    assert x509.load_pem_x509_csr(made.pem).is_signature_valid


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        (b"hello", 0o600, "is no private key in PEM; move it away"),
        (b"", 0o600, "is no private key in PEM; move it away"),
        (key_pem(ed25519.Ed25519PrivateKey.generate(), b"secret"), 0o600, "is encrypted"),
        (key_pem(x25519.X25519PrivateKey.generate()), 0o600, "no use for this kind"),
        (key_pem(ed25519.Ed25519PrivateKey.generate()), 0o644, "is open to others"),
    ],
)
def test_a_key_that_is_of_no_use_is_named(files, content, mode, text):
    files.key_file.write_bytes(content)
    files.key_file.chmod(mode)
    with pytest.raises(tls.CertificateTrouble, match=text) as caught:
        csr.request(files, "press-07")
    assert str(caught.value).startswith(f"{files.key_file}: ")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, files):
    (tmp_path / "file").touch()
    key = tmp_path / "file" / "tls" / "device.key"
    with pytest.raises(tls.CertificateTrouble, match=r"file/tls: Not a directory$"):
        csr.request(TlsSettings(files.ca_file, files.cert_file, key), "press-07")


def test_a_certificate_that_came_back_is_put_in_place(files, ca, tmp_path):
    new = tmp_path / "back.crt"
    new.write_bytes(ca.signed_request(csr.request(files, "press-07").pem, "press-07"))
    assert csr.install(new, files, "press-07").common_name == "press-07"
    assert files.cert_file.read_bytes() == new.read_bytes()
    assert tls.ssl_context(files, "press-07")


def test_a_new_key_goes_into_use_with_its_certificate_and_not_before(files, ca, tmp_path):
    new = tmp_path / "back.crt"
    new.write_bytes(ca.signed_request(csr.request(files, "press-07").pem, "press-07"))
    csr.install(new, files, "press-07")
    old_key = files.key_file.read_bytes()
    waiting = csr.request(files, "press-07", new_key=True)
    assert tls.ssl_context(files, "press-07")
    # The old key's certificate may still be renewed meanwhile.
    csr.install(new, files, "press-07")
    assert (files.key_file.read_bytes(), csr.next_key(files).exists()) == (old_key, True)
    new.write_bytes(ca.signed_request(waiting.pem, "press-07"))
    csr.install(new, files, "press-07")
    assert files.key_file.read_bytes() != old_key
    assert not csr.next_key(files).exists()
    assert stat.S_IMODE(files.key_file.stat().st_mode) == 0o600
    assert tls.ssl_context(files, "press-07")


def test_key_and_certificate_go_where_links_lead_and_the_links_stay(files, ca, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    for path in (files.key_file, files.cert_file):
        path.symlink_to(store / path.name)
    new = tmp_path / "back.crt"
    for new_key in (False, True):
        made = csr.request(files, "press-07", new_key=new_key)
        new.write_bytes(ca.signed_request(made.pem, "press-07"))
        csr.install(new, files, "press-07")
        assert (store / "device.crt").read_bytes() == new.read_bytes()
    assert files.key_file.is_symlink()
    assert files.cert_file.is_symlink()
    assert sorted(path.name for path in store.iterdir()) == ["device.crt", "device.key"]
    assert tls.ssl_context(files, "press-07")


def test_a_wrong_certificate_changes_nothing(files, ca, tmp_path):
    new = tmp_path / "back.crt"
    request = csr.request(files, "press-07").pem
    new.write_bytes(ca.signed_request(request, "press-07"))
    csr.install(new, files, "press-07")
    before = {path: path.read_bytes() for path in files.cert_file.parent.iterdir()}
    wrong = {
        "names press-08": ca.signed_request(request, "press-08"),
        "does not belong": ca.client("press-07").cert.read_bytes(),
        "no certificate": request,
    }
    for text, content in wrong.items():
        new.write_bytes(content)
        with pytest.raises(tls.CertificateTrouble, match=text):
            csr.install(new, files, "press-07")
    assert {path: path.read_bytes() for path in files.cert_file.parent.iterdir()} == before


def test_the_command_from_the_key_to_the_certificate(run, files, ca, tmp_path):
    done = run("--check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"edgesweep-agent: {files.key_file}: No such file or directory\n"
    done = run("--out", tmp_path / "press-07.csr")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"key: {files.key_file} (new)" in done.stderr
    assert "--install CERTIFICATE" in done.stderr
    assert stat.S_IMODE(files.key_file.stat().st_mode) == 0o600
    again = run()
    assert again.returncode == 0
    assert x509.load_pem_x509_csr(again.stdout.encode())
    assert "(as it was)" in again.stderr
    back = tmp_path / "press-07.crt"
    request = (tmp_path / "press-07.csr").read_bytes()
    back.write_bytes(ca.signed(x509.load_pem_x509_csr(request).public_key(), "press-07"))
    assert "good until" in run("--install", back).stdout
    done = run("--check")
    assert done.returncode == 0
    assert "device       press-07\nserial       " in done.stdout
    back.write_bytes(ca.client("press-07", days=(-1, 5)).cert.read_bytes())
    assert "does not belong to" in run("--install", back).stderr


def test_what_cannot_be_asked_at_once_is_refused(run, tmp_path):
    for words in (["--check", "--new-key"], ["--install", "x", "--check"], ["--install", "x"]):
        done = run(*words, *(["--out", "y"] if words == ["--install", "x"] else []))
        assert done.returncode == 2
        assert "exclude each other" in done.stderr
    (tmp_path / "agent.toml").write_text(CONFIG)
    done = run()
    assert done.returncode == 78
    assert "uplink.tls: missing" in done.stderr
