"""A certificate, key or authority that is of no use is named before any transport tries it."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from edgesweep_agent import certificate, tls
from edgesweep_agent.settings import TlsSettings
from pki import CLIENT, SERVER, Authority, key_pem

DAY_S = 86_400


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


def files(ca, pair, **changes):
    fields = {"ca_file": ca.file, "cert_file": pair.cert, "key_file": pair.key} | changes
    return TlsSettings(**fields)


def trouble(given, device_id="press-07", **options):
    with pytest.raises(tls.CertificateTrouble) as caught:
        tls.ssl_context(given, device_id, **options)
    return str(caught.value)


def test_good_files_give_a_context_that_verifies_and_speaks_nothing_old(ca):
    context = tls.ssl_context(files(ca, ca.client("press-07")), "press-07")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_the_certificate_says_who_it_is_and_until_when(ca):
    pair = ca.client("press-07", days=(-1, 10))
    found = tls.check(files(ca, pair), "press-07")
    assert (found.common_name, found.for_clients) == ("press-07", True)
    assert int(found.serial, 16) == pair.x509.serial_number
    assert abs(found.not_after_s - time.time() - 10 * DAY_S) < 60


def test_a_certificate_without_a_purpose_is_for_any(ca):
    assert tls.check(files(ca, ca.issue("press-07", (), file="any")), "press-07").for_clients


def test_grpc_gets_credentials(ca):
    assert tls.grpc_credentials(files(ca, ca.client("press-07")), "press-07") is not None


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"days": (-20, -2)}, r"expired on 20\d\d-\d\d-\d\d \d\d:\d\dZ; get a new one: "),
        ({"days": (2, 20)}, "is not good before 20"),
        ({"name": "press-08"}, "names press-08, but this device is press-07"),
        ({"name": ""}, "names nobody, but this device is press-07"),
        ({"name": "press/07\n"}, r"names 'press/07\\n', but"),
        ({"usage": SERVER}, "is not for clients: .* clientAuth"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(ca, how, text):
    asked = {"name": "press-07", "usage": CLIENT, "file": "bad"} | how
    pair = ca.issue(asked.pop("name"), asked.pop("usage"), **asked)
    said = trouble(files(ca, pair))
    assert said.startswith(f"{pair.cert}: ")
    with pytest.raises(tls.CertificateTrouble, match=text):
        tls.grpc_credentials(files(ca, pair), "press-07")


def test_a_clock_that_was_never_set_is_not_the_certificates_fault(ca):
    said = trouble(files(ca, ca.client("press-07")), now_s=lambda: 3600.0)
    assert "this device's clock says 1970-01-01 01:00Z: is it set?" in said


def test_a_key_of_another_certificate_is_told_apart_from_a_damaged_one(ca):
    pair, other = ca.client("press-07"), ca.client("press-08")
    said = trouble(files(ca, pair, key_file=other.key))
    assert said.startswith(f"{other.key}: does not belong to {pair.cert}")
    other.key.write_text("-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n")
    assert trouble(files(ca, pair, key_file=other.key)) == f"{other.key}: is no private key in PEM"


def test_an_encrypted_key_waits_for_no_password(ca):
    pair = ca.client("press-07", file="encrypted")
    pair.key.write_bytes(key_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    assert "is encrypted, and nobody is there" in trouble(files(ca, pair))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o666])
def test_a_key_that_others_may_read_is_refused(ca, mode):
    pair = ca.client("press-07", file="open")
    pair.key.chmod(mode)
    said = trouble(files(ca, pair))
    assert said.startswith(f"{pair.key}: a private key with mode {mode:04o} is open to others")
    assert f"chmod 600 {pair.key}" in said


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
def test_its_owner_and_a_group_may_read_it(ca, mode):
    pair = ca.client("press-07", file="closed")
    pair.key.chmod(mode)
    assert tls.ssl_context(files(ca, pair), "press-07")


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file"])
def test_a_file_that_is_not_there_is_named(ca, tmp_path, name):
    absent = tmp_path / "absent"
    said = trouble(files(ca, ca.client("press-07"), **{name: absent}))
    assert said == f"{absent}: No such file or directory"


@pytest.mark.parametrize("content", [b"", b"hello", b"\x30\x82\x01\x00"])
def test_a_file_without_a_certificate_is_named(ca, tmp_path, content):
    empty, pair = tmp_path / "empty", ca.client("press-07")
    empty.write_bytes(content)
    assert trouble(files(ca, pair, cert_file=empty)).startswith(f"{empty}: it has no certificate")
    said = trouble(files(ca, pair, ca_file=empty))
    assert said.startswith(f"{empty}: no certificate of an authority in it")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(ca):
    pair = ca.client("press-07", file="unreadable")
    pair.cert.chmod(0)
    assert trouble(files(ca, pair)) == f"{pair.cert}: Permission denied"


def test_it_is_warned_about_two_weeks_before_it_runs_out(ca):
    pair = ca.client("press-07", days=(-1, 20))
    found = tls.check(files(ca, pair), "press-07")
    day = time.time()
    assert tls.warning(found, pair.cert, lambda: day) is None
    said = tls.warning(found, pair.cert, lambda: day + 10.5 * DAY_S)
    assert said.startswith(f"{pair.cert}: runs out in 9.5 days, on 20")
    assert "edgesweep-agent csr" in said
    assert "in 0.0 days" in tls.warning(found, pair.cert, lambda: day + 90 * DAY_S)
    assert tls.warning(None, pair.cert) is None


def test_the_warning_is_logged_whenever_it_is_used(ca, caplog):
    tls.ssl_context(files(ca, ca.client("press-07", days=(-1, 20))), "press-07")
    assert caplog.text == ""
    soon = files(ca, ca.client("press-07", file="soon", days=(-1, 5)))
    tls.ssl_context(soon, "press-07")
    tls.grpc_credentials(soon, "press-07")
    assert caplog.text.count(f"{soon.cert_file}: runs out in 5.0 days") == 2


def test_a_renewed_certificate_is_read_again_and_an_old_one_is_not(ca):
    pair = ca.client("press-07", file="renewed")
    first = certificate.read(pair.cert)
    assert certificate.read(pair.cert) is first
    pair.cert.write_bytes(ca.client("press-07", file="newer").cert.read_bytes())
    assert certificate.read(pair.cert).serial != first.serial


def test_a_reader_that_cannot_run_does_not_keep_a_device_from_delivering(ca, monkeypatch):
    pair = ca.client("press-07", file="unreadable-today")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert tls.check(files(ca, pair), "press-07") is None
    assert tls.ssl_context(files(ca, pair), "press-07")


def test_the_daemon_does_not_carry_the_library_that_reads_certificates(ca):
    pair = ca.client("press-07", file="light")
    code = (
        "import sys; from pathlib import Path; from edgesweep_agent import tls;"
        "from edgesweep_agent.settings import TlsSettings;"
        f"tls.ssl_context(TlsSettings(*map(Path, {[str(ca.file), str(pair.cert), str(pair.key)]})),"
        "'press-07'); sys.exit('cryptography' in sys.modules or 'grpc' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )
