"""The cases of both transports that need both sides: the device's uplink, the collector's ingest.

What counts is what the archive has, and that the spool is empty.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import paho.mqtt.client as paho
import pytest

from edgesweep import topics
from edgesweep.delivery import Delivery, Policy
from edgesweep.records import Event
from edgesweep_agent.spool.outbox import Outbox
from edgesweep_agent.uplink.drain import Drain
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.counters import Counters
from edgesweep_collector.ingest import grpc as collector_grpc
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.broker import Broker
from edgesweep_collector.ingest.mqtt import MqttIngest
from edgesweep_collector.settings import Listen
from lines import line_to
from mosquitto import Mosquitto, needs_mosquitto
from spooling import sealing
from uplinks import (
    DEVICE,
    Announcer,
    Deaf,
    draining,
    eventually,
    free_port,
    grpc_to,
    mqtt,
    running,
    spool_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]
CASES = {
    case["id"]: case
    for name in ("mqtt", "grpc")
    for case in json.loads(
        (Path(__file__).parents[1] / f"fixtures/cases/{name}.json").read_text(encoding="utf-8")
    )
}
QUICK = Policy(backoff_s=0.05, backoff_max_s=0.5, resend_s=2.0)
NOTE = sealing(Event("note", "text"), device_id=DEVICE)


class Collector:
    """Ingest into an archive of its own."""

    def __init__(self, path, make):
        self.path, self.counters = path, Counters()
        self.archive = Archive.open(f"sqlite:///{path}")
        self.acceptor = Acceptor(self.archive, self.counters)
        self.ingest = make(self.acceptor, self.counters)

    def seqs(self) -> list[int]:
        connection = sqlite3.connect(self.path)
        try:
            rows = connection.execute("SELECT seq FROM envelopes ORDER BY seq").fetchall()
        finally:
            connection.close()
        return [seq for (seq,) in rows]

    def count(self, name, **labels) -> float:
        return self.counters.registry.get_sample_value(f"edgesweep_{name}", labels)


@asynccontextmanager
async def collecting(path, make):
    collector = Collector(path, make)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collector.acceptor.run)
        await collector.ingest.start()
        try:
            yield collector
        finally:
            await collector.ingest.stop()
            await collector.acceptor.drain()
    collector.archive.close()


def drain_of(spool, uplink, policy=QUICK) -> Drain:
    delivery = Delivery(random.random, policy)
    return Drain(Outbox(spool), uplink, delivery, time.monotonic, watch_s=0.1)


async def spooled(spool, drain, n) -> None:
    spool.append([NOTE] * n)
    drain.wake()


# -- MQTT ------------------------------------------------------------------------------


@pytest.fixture
def mosquitto(tmp_path):
    broker = Mosquitto(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def over_mqtt(broker):
    at = Broker("127.0.0.1", broker.port, "collector")
    return lambda acceptor, counters: MqttIngest(acceptor, counters, at)


@needs_mosquitto
async def test_mqt_01_a_broker_that_restarts_between_publish_and_puback(tmp_path, mosquitto):
    """Of five, the third gets through without an answer, the others behind it get nowhere."""
    expected = CASES["MQT-01"]["expected"]
    path = tmp_path / "archive.db"
    with spool_of(tmp_path, 0) as spool:
        async with (
            collecting(path, over_mqtt(mosquitto)) as collector,
            line_to(mosquitto.port) as line,
        ):
            await eventually(lambda: collector.ingest.health() is None)
            async with draining(drain_of(spool, mqtt(line.port))) as drain:
                await spooled(spool, drain, 2)
                await eventually(lambda: spool.status().rows == 0)
                line.down.clear()
                await spooled(spool, drain, 1)
                await eventually(lambda: collector.seqs() == [1, 2, 3])
                line.up.clear()
                await spooled(spool, drain, 2)
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(mosquitto.kill)
                assert spool.status().rows == 3
                await anyio.to_thread.run_sync(mosquitto.start)
                line.mend()
                await eventually(lambda: spool.status().rows == expected["spool_rows_after"])
            duplicates = collector.count("duplicates_total")
    assert collector.seqs() == [1, 2, 3, 4, 5]
    assert len(collector.seqs()) == expected["unique_at_collector"]
    assert expected["duplicates_seen"] == "0..1"
    assert duplicates <= 1


@needs_mosquitto
async def test_mqt_02_what_is_retained_is_stored_once_and_no_state_is_taken_from_it(
    tmp_path, mosquitto
):
    """An old agent's retained record, and a state of yesterday, at a collector that comes back."""
    expected = CASES["MQT-02"]["expected"]
    yesterday_ns = time.time_ns() - 86_400 * 10**9
    kind, seal = NOTE
    left = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    left.connect("127.0.0.1", mosquitto.port)
    left.loop_start()
    old = json.dumps({"online": True, "connection": 1, "ts_ns": yesterday_ns}).encode()
    for topic, payload in ((topics.up(DEVICE, kind), seal(7, 7)), (topics.state(DEVICE), old)):
        left.publish(topic, payload, qos=1, retain=True).wait_for_publish(5)
    left.disconnect()
    left.loop_stop()
    for _ in range(3):
        async with collecting(tmp_path / "archive.db", over_mqtt(mosquitto)) as collector:
            await eventually(lambda: collector.count("retained_total") == 1)
            await eventually(lambda: collector.seqs() == [7])
            # What makes a device look alive is when it was heard, never what was left behind.
            assert collector.count("rejected_total", reason="topic") in {None, 0}
    assert expected["points_in_db_for_seq7"] == "0 or 1"
    # The device's own word has the time of its connection, by which it is stale.
    assert expected["agent_state_shown"] == "stale"
    states = []
    reader = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    reader.on_message = lambda _c, _u, message: states.append(json.loads(message.payload))
    reader.on_connect = lambda client, *_: client.subscribe(topics.state(DEVICE), 1)
    reader.connect("127.0.0.1", mosquitto.port)
    reader.loop_start()
    async with mqtt(mosquitto.port, announce=Announcer()).connect():
        await eventually(lambda: states and states[-1]["ts_ns"] > time.time_ns() - 60 * 10**9)
        assert states[-1]["online"]
    reader.disconnect()
    reader.loop_stop()
    assert states[0]["ts_ns"] == yesterday_ns


# -- gRPC ------------------------------------------------------------------------------


def over_grpc(port):
    at = Listen("127.0.0.1", port)
    return lambda acceptor, counters: collector_grpc.GrpcIngest(acceptor, counters, at)


def scaled(options, factor):
    """A side's options with its clock so many times as fast."""
    return tuple(
        (name, round(value / factor) if name.endswith("_ms") else value) for name, value in options
    )


async def test_grp_02_a_blackhole_is_noticed_and_nothing_is_lost_or_doubled(tmp_path):
    """At a twentieth of the times: cut for 4 s; a ping each 1.5 s, and 0.5 s to answer it."""
    case, factor, port = CASES["GRP-02"], 20.0, free_port()
    noticed_by_s = case["expected"]["a_blackhole"]["dead_link_noticed_by_s"] / factor
    up_again_by_s = case["expected"]["a_blackhole"]["stream_up_again_by_s"] / factor
    uplink_at = {"keepalive_s": 1.5, "keepalive_timeout_s": 0.5, "accept_s": 0.5}
    with spool_of(tmp_path, 3) as spool:
        async with (
            collecting(tmp_path / "archive.db", over_grpc(port)) as collector,
            line_to(port) as line,
        ):
            uplink = grpc_to(line.port, **uplink_at)
            async with draining(
                drain_of(spool, uplink, Policy(backoff_s=0.05, backoff_max_s=3.0))
            ) as drain:
                await eventually(lambda: spool.status().rows == 0)
                await anyio.sleep(0.3)
                began = time.monotonic()
                line.cut()
                await spooled(spool, drain, 20)
                await eventually(lambda: drain.state == "down")
                noticed_s = time.monotonic() - began
                await anyio.sleep(4.0 - noticed_s)
                assert spool.status().rows == 20
                line.mend()
                await eventually(lambda: spool.status().rows == 0)
                up_s = time.monotonic() - began
    assert noticed_s <= noticed_by_s + 0.5
    assert up_s <= up_again_by_s
    assert collector.seqs() == list(range(1, 24))


async def test_grp_02_b_idle_streams_are_not_punished_for_their_pings(tmp_path, monkeypatch):
    """Both sides' own options at a twentieth: five pings on an idle stream, none too many.

    The oracle is beside it: a server with gRPC's own default of 300 s ends the stream for them.
    """
    factor, port, other = 20.0, free_port(), free_port()
    monkeypatch.setattr(collector_grpc, "_OPTIONS", scaled(collector_grpc._OPTIONS, factor))
    expected = CASES["GRP-02"]["expected"]["b_idle"]
    at = {"keepalive_s": 30.0 / factor}
    with spool_of(tmp_path, 0) as spool:
        async with (
            collecting(tmp_path / "archive.db", over_grpc(port)),
            running(Deaf(other)),
            draining(drain_of(spool, grpc_to(port, **at))) as ours,
            draining(drain_of(spool, grpc_to(other, **at))) as punished,
        ):
            ends, seen = {"ours": 0, "punished": []}, time.monotonic() + 8.0
            while time.monotonic() < seen:
                await anyio.sleep(0.02)
                ends["ours"] += ours.state == "down"
                ends["punished"] += [punished.detail] if punished.state == "down" else []
    assert ends["ours"] == expected["goaway_count"] == expected["reconnects"]
    assert any("Too many pings" in text for text in ends["punished"])
