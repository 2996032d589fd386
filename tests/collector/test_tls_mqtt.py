"""The collector's own end of mutual TLS to a broker, and what it says when that fails."""

from __future__ import annotations

import contextlib
import getpass
import ssl

import anyio
import paho.mqtt.client as paho
import pytest

import wire
from edgesweep import topics
from edgesweep.envelope import AckStatus, decode_ack
from edgesweep.records import Kind
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.core.mosquitto import Site, access_list, configuration
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.broker import broker
from edgesweep_collector.ingest.mqtt import MqttIngest
from edgesweep_collector.settings import MqttSettings, TlsSettings
from mosquitto import Mosquitto, needs_mosquitto
from pki import LOOPBACK, SERVER, Authority

pytestmark = [pytest.mark.anyio, needs_mosquitto]


class Plant:
    """An authority, a broker as we configure it, and collectors of one archive each."""

    def __init__(self, folder, names=LOOPBACK):
        self.folder, self.ca = folder, Authority(folder / "ca")
        self.broker = Mosquitto(folder)
        files = self.ca.server(names=names)
        site = Site(
            ca_file=str(self.ca.file),
            cert_file=str(files.cert),
            key_file=str(files.key),
            acl_file=str(folder / "acl"),
            port=self.broker.port,
            collectors=("collector.1", "collector.2"),
        )
        (folder / "acl").write_text(access_list(site))
        text = f"{configuration(site)}\nuser {getpass.getuser()}\nlog_type all\n"
        (folder / "mosquitto.conf").write_text(text)
        self.denied = folder / "denied"
        self.denied.touch()

    def tls(self, pair, **changes):
        files = {"ca_file": self.ca.file, "cert_file": pair.cert, "key_file": pair.key}
        named = {key: str(path) for key, path in (files | changes).items()}
        return TlsSettings(denylist_file=str(self.denied), **named)

    @contextlib.asynccontextmanager
    async def collector(self, tls, host="127.0.0.1", **options):
        archive = Archive.open(f"sqlite:///{self.folder / 'archive.db'}")
        counters = Counters()
        acceptor = Acceptor(archive, counters)
        settings = MqttSettings(host=host, port=self.broker.port, tls=tls, **options)
        ingest = MqttIngest(acceptor, counters, broker(settings))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acceptor.run)
            await ingest.start()
            try:
                yield ingest, counters.registry
            finally:
                await ingest.stop()
                await acceptor.drain()
        archive.close()

    def device(self, name):
        """A device that sends one level and collects what is answered."""
        pair = self.ca.client(name, file=f"device-{name}")
        context = ssl.create_default_context(cafile=self.ca.file)
        context.load_cert_chain(pair.cert, pair.key)
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.tls_set_context(context)
        acks = []
        client.on_message = lambda _c, _u, message: acks.append(decode_ack(message.payload))
        client.on_connect = lambda *_: client.subscribe(topics.ack(name), qos=1)
        raw = wire.raw(wire.level(1), 1, device_id=name)
        client.on_subscribe = lambda *_: client.publish(topics.up(name, Kind.LEVEL), raw, qos=1)
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        return client, acks


@pytest.fixture
def plant(tmp_path):
    made = Plant(tmp_path)
    made.broker.start()
    yield made
    made.broker.kill()


async def until(condition, within_s=8):
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.01)


async def problem(ingest):
    """The first thing that is wrong, once it is known."""
    await until(lambda: ingest.health() != "not connected yet")
    return ingest.health()


async def test_envelopes_and_acks_pass_through_mutual_tls(plant):
    async with plant.collector(plant.tls(plant.ca.client("collector.1"))) as (ingest, _):
        await until(lambda: ingest.health() is None)
        client, acks = plant.device("n97-01")
        await until(lambda: acks)
        client.disconnect()
        client.loop_stop()
    assert [ack.status for ack in acks] == [AckStatus.STORED]


async def test_a_device_on_the_denylist_gets_no_ack_and_is_not_archived(plant, caplog):
    plant.denied.write_text("n97-01\n")
    async with plant.collector(plant.tls(plant.ca.client("collector.1"))) as (ingest, registry):
        await until(lambda: ingest.health() is None)
        denied, none = plant.device("n97-01")
        denial = {"reason": "denied"}
        await until(lambda: registry.get_sample_value("edgesweep_rejected_total", denial) == 1)
        other, acks = plant.device("n97-02")
        await until(lambda: acks)
        for client in (denied, other):
            client.disconnect()
            client.loop_stop()
    assert (none, len(acks)) == ([], 1)
    assert caplog.text.count("refused a device") == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ca, _: ca.client("collector.1", days=(-9, -1)), "certificate expired"),
        (lambda _, foreign: foreign.client("collector.1"), "unknown ca"),
    ],
)
async def test_a_certificate_that_the_broker_refuses_is_said(plant, tmp_path, make, words):
    """Under TLS 1.3 the refusal comes after the handshake, and paho says "Unspecified error"."""
    pair = make(plant.ca, Authority(tmp_path / "foreign", "Another CA"))
    async with plant.collector(plant.tls(pair)) as (ingest, _):
        # An alert may be lost to the reset that follows it; one of the next attempts hears it.
        await until(lambda: words in ingest.health(), within_s=30)
        said = ingest.health()
    assert said.startswith("the broker closes the connection: ")
    assert f"does it accept the certificate in {pair.cert}? its log says" in said


async def test_a_broker_that_is_not_who_it_should_be_is_said(plant, tmp_path):
    foreign = Authority(tmp_path / "foreign", "Another CA")
    pair = plant.ca.client("collector.1")
    async with plant.collector(plant.tls(pair, ca_file=foreign.file)) as (ingest, _):
        said = await problem(ingest)
    assert said.startswith("the certificate of the broker is not accepted: self-signed")
    assert "mqtt.tls.ca_file" in said
    async with plant.collector(plant.tls(pair, server_name="broker.example")) as (ingest, _):
        said = await problem(ingest)
    assert "not accepted: Hostname mismatch" in said


async def test_a_broker_may_have_the_name_of_the_settings(tmp_path):
    plant = Plant(tmp_path, names=("broker.example",))
    plant.broker.start()
    try:
        tls = plant.tls(plant.ca.client("collector.1"), server_name="broker.example")
        async with plant.collector(tls) as (ingest, _):
            await until(lambda: ingest.health() is None)
    finally:
        plant.broker.kill()


async def test_tls_at_a_port_without_and_the_other_way_round(plant, tmp_path):
    tls = plant.tls(plant.ca.client("collector.1"))
    async with plant.collector(None) as (ingest, _):
        assert (await problem(ingest)).endswith("does it want TLS?")
    plain = Mosquitto(tmp_path / "ca", port=None)
    plant.broker, listening = plain, plant.broker
    plain.start()
    try:
        async with plant.collector(tls) as (ingest, _):
            assert (await problem(ingest)) in {
                "the broker does not answer",
                "no TLS with the broker: WRONG_VERSION_NUMBER",
                "no TLS with the broker: UNEXPECTED_EOF_WHILE_READING",
            }
    finally:
        plain.kill()
        plant.broker = listening


async def test_a_renewed_certificate_is_used_at_the_next_connection(plant):
    pair = plant.ca.client("collector.1", days=(-9, -1))
    async with plant.collector(plant.tls(pair)) as (ingest, _):
        assert "certificate expired" in await problem(ingest)
        new = plant.ca.client("collector.1", file="new")
        new.cert.replace(pair.cert)
        new.key.replace(pair.key)
        await until(lambda: ingest.health() is None)


async def test_files_of_no_use_are_said_before_anything_connects(plant):
    tls = plant.tls(plant.ca.issue("collector.1", SERVER))
    with pytest.raises(SettingsError, match=r"^mqtt\.tls\.cert_file: .* clientAuth"):
        MqttIngest(None, Counters(), broker(MqttSettings(host="broker", tls=tls)))
