"""The MQTT transport through a real mosquitto, with a real archive."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import threading

import anyio
import anyio.to_thread
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

import wire
from edgesweep import topics
from edgesweep.envelope import AckStatus, decode_ack
from edgesweep.records import Kind
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.counters import Counters
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.broker import IN_FLIGHT, Broker, Connection, broker
from edgesweep_collector.ingest.mqtt import MqttIngest
from edgesweep_collector.settings import MqttSettings
from gated import Gated
from mosquitto import Mosquitto, needs_mosquitto, running_mosquitto

pytestmark = [pytest.mark.anyio, needs_mosquitto]


class Collector:
    def __init__(self, path, at):
        self.path = path
        self.archive = Archive.open(f"sqlite:///{path}")
        self.sink, self.counters = Gated(self.archive), Counters()
        self.acceptor = Acceptor(self.sink, self.counters)
        self.mqtt = MqttIngest(self.acceptor, self.counters, at)

    def seqs(self):
        connection = sqlite3.connect(self.path)
        try:
            rows = connection.execute("SELECT seq FROM envelopes ORDER BY seq").fetchall()
        finally:
            connection.close()
        return [seq for (seq,) in rows]

    def value(self, name, **labels):
        return self.counters.registry.get_sample_value(f"edgesweep_{name}", labels)

    async def well(self):
        await until(lambda: self.mqtt.health() is None)


class Device:
    """A device as simple as it gets: publishes bytes, keeps the acks it is sent."""

    def __init__(self, port, device_id="n97-01"):
        self.device_id, self.acks = device_id, []
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=device_id, protocol=paho.MQTTv5
        )
        self._ready = threading.Event()
        self.client.on_connect = lambda client, *_: client.subscribe(topics.ack(device_id), 1)
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = lambda _c, _u, message: self.acks.append(
            decode_ack(message.payload)
        )
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._ready.wait(5)

    def send(self, raw, **options):
        topic = topics.up(self.device_id, Kind.LEVEL)
        return self.client.publish(topic, raw, qos=1, **options)

    def statuses(self):
        found = {}
        for ack in self.acks:
            for first, last in ack.ranges:
                for seq in range(first, last + 1):
                    found.setdefault(seq, []).append(ack.status)
        return found

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


async def until(condition, within_s=5):
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.01)


@pytest.fixture
def mosquitto(tmp_path):
    with running_mosquitto(tmp_path) as running:
        yield running


@pytest.fixture
def device(mosquitto):
    made = Device(mosquitto.port)
    yield made
    made.close()


@pytest.fixture
def make(tmp_path):
    collectors = []

    def made(port, name="archive", **login):
        at = Broker("127.0.0.1", port, name, **login)
        collectors.append(Collector(tmp_path / f"{name}.db", at))
        return collectors[-1]

    yield made
    for collector in collectors:
        collector.acceptor.close()
        collector.archive.close()


@pytest.fixture
async def started(make):
    """Starts collectors, and stops them in the order of the service."""
    running = []
    async with anyio.create_task_group() as tasks:

        async def start(collector):
            tasks.start_soon(collector.acceptor.run)
            await collector.mqtt.start()
            running.append(collector)
            return collector

        yield start
        for collector in running:
            collector.sink.gate.set()
            await collector.mqtt.stop()
            await collector.acceptor.drain()
            collector.archive.close()


@pytest.fixture
async def collector(mosquitto, make, started):
    collector = await started(make(mosquitto.port))
    await collector.well()
    return collector


async def test_ack_and_puback_come_after_the_commit(collector, device):
    collector.sink.gate.clear()
    device.send(wire.raw(wire.level(1), 1))
    await until(lambda: collector.value("received_total", transport="mqtt") == 1)
    await anyio.sleep(0.1)
    assert (device.acks, collector.seqs()) == ([], [])
    collector.sink.gate.set()
    await until(lambda: device.acks)
    assert collector.seqs() == [1]
    assert device.statuses() == {1: [AckStatus.STORED]}
    assert device.acks[0].epoch == wire.EPOCH
    # The broker sends only so many ahead of PUBACKs: 200 pass only if they are pubacked.
    for seq in range(2, 202):
        device.send(wire.raw(wire.level(seq), seq))
    await until(lambda: len(device.statuses()) == 201)
    assert collector.seqs() == list(range(1, 202))


async def test_no_puback_before_the_commit(collector, device, mosquitto):
    collector.sink.gate.clear()
    for seq in range(1, 101):
        device.send(wire.raw(wire.level(seq), seq))
    await until(lambda: collector.value("received_total", transport="mqtt") == IN_FLIGHT)
    await anyio.sleep(0.2)
    assert collector.value("received_total", transport="mqtt") == IN_FLIGHT
    collector.sink.gate.set()
    await until(lambda: len(device.statuses()) == 100)


async def test_a_flood_that_leaves_no_room_does_not_end_ingest(collector, device):
    """What finds no room gets no ack and is sent again; the broker's slots are not used up."""
    collector.sink.gate.clear()
    for seq in range(1, 2001):
        flood = wire.raw(wire.level(1), seq, device_id="flood")
        device.client.publish(topics.up("flood", Kind.LEVEL), flood, qos=0)
    mine = [wire.raw(wire.level(seq), seq) for seq in range(1, 101)]
    for raw in mine:
        device.send(raw)
    await until(lambda: (collector.value("retries_total") or 0) >= 100, within_s=8)
    collector.sink.gate.set()
    with anyio.fail_after(20):
        while len(device.statuses()) < len(mine):
            for seq, raw in enumerate(mine, start=1):
                if seq not in device.statuses():
                    device.send(raw)
            await anyio.sleep(0.5)
    assert set(range(1, 101)) <= set(collector.seqs())


async def test_resends_are_duplicates_whatever_their_flags(collector, device):
    """MQT-01 and MQT-02: neither DUP nor retain decides, the sequence does."""
    device.send(wire.raw(wire.level(7), 7), retain=True)
    await until(lambda: device.acks)
    # One by one: two in one commit share an ack.
    for count in (2, 3):
        device.send(wire.raw(wire.level(7), 7))
        await until(lambda count=count: len(device.acks) == count)
    assert device.statuses() == {
        7: [AckStatus.STORED, AckStatus.DUPLICATE, AckStatus.DUPLICATE],
    }
    assert collector.seqs() == [7]
    assert collector.value("retained_total") == 0


async def test_a_retained_message_is_stored_once_and_counted(mosquitto, device, make, started):
    # One that subscribes before the broker has it gets it as a live message.
    sent = device.send(wire.raw(wire.level(7), 7), retain=True)
    await until(sent.is_published)
    collector = await started(make(mosquitto.port))
    await until(lambda: device.acks)
    assert (collector.seqs(), collector.value("retained_total")) == ([7], 1)
    await collector.mqtt.stop()
    again = await started(Collector(collector.path, Broker("127.0.0.1", mosquitto.port, "again")))
    await until(lambda: len(device.acks) == 2)
    assert device.statuses() == {7: [AckStatus.STORED, AckStatus.DUPLICATE]}
    assert again.seqs() == [7]


async def test_the_topic_says_who_speaks(collector, device, mosquitto):
    device.send(wire.raw(wire.level(1), 1, device_id="n97-02"))
    await until(lambda: device.acks)
    (ack,) = device.acks
    assert (ack.status, ack.device_id) == (AckStatus.REJECTED, "n97-02")
    assert ack.reason == "identity: n97-01 sent an envelope of n97-02"
    device.send(wire.damaged(wire.level(1), 2))
    await until(lambda: len(device.acks) == 2)
    assert device.acks[1].reason == "crc: the payload is damaged"
    device.client.publish("edgesweep/v1/NO-ID/up/level", b"x", qos=1)
    await until(lambda: collector.value("rejected_total", reason="topic") == 1)
    assert collector.seqs() == []


async def test_a_broker_that_is_not_there_is_waited_for(tmp_path, make, started, caplog):
    caplog.set_level("INFO")
    late = Mosquitto(tmp_path)
    collector = await started(make(late.port))
    await until(lambda: collector.mqtt.health() == "the broker does not answer")
    await anyio.sleep(1.5)
    assert len([r for r in caplog.records if "does not answer" in r.getMessage()]) == 1
    late.start()
    try:
        await until(lambda: collector.mqtt.health() is None, 10)
        assert collector.value("mqtt_connected") == 1
    finally:
        late.kill()
    await until(lambda: (collector.mqtt.health() or "").startswith("connection lost"))
    assert collector.value("mqtt_connected") == 0


async def test_a_killed_broker_loses_nothing_that_is_sent_again(collector, device, mosquitto):
    """Killed with messages unacked: late PUBACKs hit no message of the new connection."""
    collector.sink.gate.clear()
    for seq in range(1, 11):
        device.send(wire.raw(wire.level(seq), seq))
    await until(lambda: collector.value("received_total", transport="mqtt") == 10)
    mosquitto.kill()
    await until(lambda: collector.mqtt.health() is not None)
    mosquitto.start()
    await until(lambda: collector.mqtt.health() is None, 10)
    await until(device.client.is_connected, 10)
    collector.sink.gate.set()
    await until(lambda: collector.seqs() == list(range(1, 11)))
    for seq in range(1, 31):
        device.send(wire.raw(wire.level(seq), seq))
    await until(lambda: len(device.statuses()) == 30, 10)
    assert collector.seqs() == list(range(1, 31))


async def test_a_refused_login_is_said_and_not_retried_in_a_storm(tmp_path, make, started, caplog):
    passwords = tmp_path / "passwords"
    subprocess.run(  # noqa: ASYNC221 -- a few ms, before anything runs
        ["mosquitto_passwd", "-b", "-c", str(passwords), "collector", "right"],
        check=True,
        capture_output=True,
    )
    with running_mosquitto(tmp_path, f"password_file {passwords}") as mosquitto:
        refused = await started(make(mosquitto.port, username="collector", password="CANARY-2"))
        await until(lambda: "refuses the connection" in (refused.mqtt.health() or ""))
        accepted = await started(
            make(mosquitto.port, "right", username="collector", password="right")
        )
        await accepted.well()
        await anyio.sleep(2)
        attempts = mosquitto.log.read_text().count("not authorised")
    assert 1 <= attempts <= 3
    assert "CANARY-2" not in caplog.text + repr(refused.mqtt.__dict__)


async def test_two_collectors_with_one_id_do_not_storm(mosquitto, tmp_path, started, caplog):
    """MQT-03: each connect succeeds, so only the age of a connection may reset the delay."""
    at = Broker("127.0.0.1", mosquitto.port, "same")
    one = await started(Collector(tmp_path / "one.db", at))
    await one.well()
    two = await started(Collector(tmp_path / "two.db", at))
    await anyio.sleep(6)
    connects = mosquitto.log.read_text().count("New client connected")
    assert connects <= 6
    assert "is client id same in use elsewhere?" in caplog.text
    assert {one.mqtt.health() is None, two.mqtt.health() is None} == {True, False}


async def test_a_refused_subscription_is_not_taken_for_health(make):
    """mosquitto's ACL file grants every subscription and filters later; others refuse it."""
    collector = make(1)
    connection = Connection(Broker("127.0.0.1", 1, "archive"), collector.mqtt)
    connection._loop = asyncio.get_running_loop()
    refusal = ReasonCode(PacketTypes.SUBACK, "Not authorized")
    connection._client.on_subscribe(connection._client, None, 1, [refusal], None)
    await until(lambda: "refuses the subscription" in collector.mqtt.health())
    granted = ReasonCode(PacketTypes.SUBACK, "Granted QoS 1")
    connection._client.on_subscribe(connection._client, None, 1, [granted], None)
    await collector.well()
    assert collector.value("mqtt_connected") == 1


async def test_a_fault_in_a_callback_is_logged_and_harms_nothing(make, caplog):
    collector = make(1)
    connection = Connection(Broker("127.0.0.1", 1, "archive"), collector.mqtt)
    connection._client.on_message(None, None, "no message at all")
    assert "a callback of the MQTT client failed" in caplog.text


async def test_stop_is_quick_while_nobody_answers(started, make):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        collector = await started(make(silent.getsockname()[1]))
        await anyio.sleep(0.2)
        with anyio.move_on_after(3) as bound:
            await collector.mqtt.stop()
        assert not bound.cancelled_caught


def test_the_login_is_read_from_files(tmp_path):
    (tmp_path / "user").write_text("collector\n")
    (tmp_path / "password").write_text("CANARY-2\n")
    made = broker(
        MqttSettings(
            host="broker",
            username_file=str(tmp_path / "user"),
            password_file=str(tmp_path / "password"),
        )
    )
    assert (made.username, made.password, made.port) == ("collector", "CANARY-2", 1883)
    assert "CANARY" not in repr(made)
