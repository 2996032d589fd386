"""The uplinks with certificates: who is refused is told why, and a renewed one swaps the link."""

from __future__ import annotations

import random
import shutil
import ssl
import time

import grpc
import pytest

from edgesweep.delivery import Delivery, Policy
from edgesweep.records import Kind
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.settings import GrpcSettings, TlsSettings
from edgesweep_agent.spool.outbox import Outbox
from edgesweep_agent.tls import CertificateTrouble
from edgesweep_agent.uplink.base import Trouble, UplinkDown
from edgesweep_agent.uplink.drain import Drain
from edgesweep_agent.uplink.grpc import GrpcUplink
from edgesweep_agent.uplink.identity import Identity
from mosquitto import needs_mosquitto
from pki import Authority
from uplinks import (
    DEVICE,
    Clock,
    GrpcPeer,
    MqttPeer,
    draining,
    eventually,
    free_port,
    grpc_to,
    mqtt,
    running,
    sealed,
    seqs,
    spool_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]
KINDS = ["grpc", pytest.param("mqtt", marks=needs_mosquitto)]


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("foreign"), "Another CA")


class Site:
    """A collector that asks for certificates of ``ca``, and the files of a device."""

    def __init__(self, kind, folder, ca):
        self.kind, self.folder, self.port = kind, folder, free_port()
        server = ca.server(file=f"server-{kind}-{self.port}")
        if kind == "grpc":
            pair = (server.key.read_bytes(), server.cert.read_bytes())
            credentials = grpc.ssl_server_credentials([pair], ca.file.read_bytes(), True)
            self.peer = GrpcPeer(self.port, credentials=credentials)
        else:
            lines = f"listener {self.port} 127.0.0.1\ncafile {ca.file}\ncertfile {server.cert}\n"
            lines += f"keyfile {server.key}\nrequire_certificate true"
            self.peer = MqttPeer(folder, free_port(), f"allow_anonymous true\n{lines}")
        self.tls = TlsSettings(
            ca_file=folder / "ca.crt", cert_file=folder / "cert", key_file=folder / "key"
        )
        shutil.copy(ca.file, self.tls.ca_file)

    def give(self, pair) -> None:
        """A certificate and its key come to the device, one after the other, as files do."""
        shutil.copy(pair.cert, self.tls.cert_file)
        shutil.copy(pair.key, self.tls.key_file)
        self.tls.key_file.chmod(0o600)

    def uplink(self):
        make = grpc_to if self.kind == "grpc" else mqtt
        return make(self.port, settings={"tls": self.tls})


def drain_of(spool, uplink) -> Drain:
    policy = Policy(backoff_s=0.05, backoff_max_s=0.2)
    delivery = Delivery(random.random, policy)
    return Drain(Outbox(spool), uplink, delivery, time.monotonic, watch_s=0.05, look_s=0.1)


async def refused(uplink) -> str:
    with pytest.raises(UplinkDown) as caught:
        async with uplink.connect():
            pass
    assert caught.value.told.trouble is Trouble.CERTIFICATE
    return caught.value.told.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda ca, foreign: ca.client(DEVICE, days=(-9, -1)), "cert: expired on "),
        (lambda ca, foreign: ca.client("press-07"), "names press-07, but this device is test-1"),
        (
            lambda ca, foreign: foreign.client(DEVICE),
            "does not know the authority|refuses our",
        ),
        (None, "key: No such file"),
    ],
    ids=["expired", "another's", "foreign", "none"],
)
async def test_a_certificate_that_is_of_no_use_is_told_by_name(
    kind, make, text, tmp_path, ca, foreign
):
    site = Site(kind, tmp_path, ca)
    if make is not None:
        site.give(make(ca, foreign))
    async with running(site.peer):
        told = await refused(site.uplink())
    assert any(words in told for words in text.split("|")), told


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_of_another_authority_is_not_talked_to(kind, tmp_path, ca, foreign):
    site = Site(kind, tmp_path, ca)
    site.give(ca.client(DEVICE))
    shutil.copy(foreign.file, site.tls.ca_file)
    async with running(site.peer):
        assert "is ca_file the authority that signed it?" in await refused(site.uplink())


@pytest.mark.parametrize("kind", KINDS)
async def test_another_name_of_the_server_may_be_set(kind, tmp_path, ca):
    site = Site(kind, tmp_path, ca)
    site.give(ca.client(DEVICE))
    files = site.tls
    site.tls = TlsSettings(files.ca_file, files.cert_file, files.key_file, server_name="localhost")
    async with running(site.peer):
        async with site.uplink().connect():
            pass
        site.tls = TlsSettings(files.ca_file, files.cert_file, files.key_file, server_name="other")
        assert "other" in await refused(site.uplink())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_renewed_certificate_is_tried_and_then_the_link_is_swapped(
    kind, tmp_path, ca, foreign
):
    site = Site(kind, tmp_path, ca)
    site.give(ca.client(DEVICE))
    with spool_of(tmp_path, 3) as spool:
        async with running(site.peer), draining(drain_of(spool, site.uplink())) as drain:
            await eventually(lambda: spool.status().rows == 0)
            # One that the other side will not have: the connection that is there stays.
            site.give(foreign.client(DEVICE))
            await eventually(lambda: drain.trouble == "certificate")
            assert drain.detail.startswith("the new certificate is not used: ")
            spool.append([(Kind.LEVEL, sealed)] * 3)
            drain.wake()
            await eventually(lambda: spool.status().rows == 0)
            assert (drain.state, site.peer.streams) == ("connected", 1)
            # And a good one after it.
            site.give(ca.client(DEVICE))
            await eventually(lambda: site.peer.streams == 2)
            await eventually(lambda: drain.told == "")
            spool.append([(Kind.LEVEL, sealed)] * 3)
            drain.wake()
            await eventually(lambda: spool.status().rows == 0)
    assert seqs(site.peer.received) == list(range(1, 10))


@pytest.mark.parametrize("kind", KINDS)
async def test_while_the_new_certificate_is_bad_the_old_one_makes_connections_too(
    kind, tmp_path, ca, foreign
):
    site = Site(kind, tmp_path, ca)
    site.give(ca.client(DEVICE))
    with spool_of(tmp_path, 3) as spool:
        async with running(site.peer), draining(drain_of(spool, site.uplink())) as drain:
            await eventually(lambda: spool.status().rows == 0)
            site.give(foreign.client(DEVICE))
            await site.peer.stop()
            spool.append([(Kind.LEVEL, sealed)] * 3)
            await site.peer.start()
            await eventually(lambda: spool.status().rows == 0)
            await eventually(lambda: drain.trouble == "certificate")


# -- what is remembered of it ----------------------------------------------------------


class Files:
    """Certificates that are as good as the test says."""

    def __init__(self, folder, ca):
        self.bad, self.made, self.reached = None, 0, []
        self.clock = Clock()
        self.files = TlsSettings(folder / "ca", folder / "cert", folder / "key")
        pair = ca.client(DEVICE)
        shutil.copy(ca.file, self.files.ca_file)
        shutil.copy(pair.cert, self.files.cert_file)
        shutil.copy(pair.key, self.files.key_file)
        self.files.key_file.chmod(0o600)
        self.identity = Identity(self.files, DEVICE, self.make, self.reach, self.clock)

    def make(self, files, device_id):
        if isinstance(self.bad, CertificateTrouble):
            raise self.bad
        self.made += 1
        return self.made

    def reach(self, context):
        assert isinstance(context, ssl.SSLContext)
        self.reached.append(self.clock.now_s)
        if self.bad is not None:
            raise self.bad

    def touch(self):
        text = self.files.cert_file.read_bytes()
        self.files.cert_file.unlink()
        self.files.cert_file.write_bytes(text + b"\n")


@pytest.fixture
def files(tmp_path, ca):
    return Files(tmp_path, ca)


def test_files_that_did_not_change_are_not_read_again(files):
    assert [files.identity.load(), files.identity.load()] == [1, 1]
    assert not files.identity.renewed()
    assert files.reached == []


def test_a_bad_one_is_not_tried_before_it_changes_or_an_hour_is_over(files):
    files.identity.load()
    files.touch()
    files.bad = CertificateTrouble("it refuses our certificate")
    for at_s in (0.0, 10.0, 3599.0, 3600.0, 3700.0):
        files.clock.now_s = at_s
        assert not files.identity.renewed()
        assert files.identity.load() == 1
    assert files.reached == [0.0, 3600.0]
    assert files.identity.trouble.trouble is Trouble.CERTIFICATE
    files.touch()
    assert not files.identity.renewed()
    assert len(files.reached) == 3
    files.bad = None
    files.touch()
    assert files.identity.renewed()
    assert (files.identity.load(), files.identity.trouble) == (2, None)


def test_a_network_that_is_away_says_nothing_about_a_certificate(files):
    files.identity.load()
    files.touch()
    files.bad = ConnectionRefusedError()
    assert not files.identity.renewed()
    assert (files.identity.load(), files.identity.trouble) == (1, None)
    files.bad = None
    assert files.identity.load() == 2


def test_one_that_comes_back_as_it_was_is_no_trouble(files):
    files.identity.load()
    kept = files.files.cert_file.with_suffix(".kept")
    files.files.cert_file.rename(kept)
    assert not files.identity.renewed()
    assert "cert: No such file" in files.identity.trouble.text
    kept.rename(files.files.cert_file)
    assert not files.identity.renewed()
    assert files.identity.trouble is None


def test_the_first_one_has_to_be_good(files):
    files.bad = CertificateTrouble("cert: expired")
    for _ in range(2):
        with pytest.raises(UplinkDown, match="cert: expired"):
            files.identity.load()
    files.bad = None
    assert files.identity.load() == 1


def test_an_address_without_a_port_is_known_at_the_start(tmp_path):
    files = TlsSettings(tmp_path / "ca", tmp_path / "cert", tmp_path / "key")
    with pytest.raises(SettingsError, match=r"'plant\.example' is to be host:port"):
        GrpcUplink(GrpcSettings(address="plant.example", tls=files), DEVICE)


@pytest.mark.parametrize("bad", [None, OSError("nobody")])
def test_who_was_not_refused_for_a_certificate_is_told_nothing_of_one(files, bad):
    files.bad = bad
    assert files.identity.why() is None
