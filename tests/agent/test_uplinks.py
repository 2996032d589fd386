"""One suite for every transport: it moves bytes, and it says when it is down."""

from __future__ import annotations

import queue
import random
import socket
import time
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.to_thread
import grpc
import grpc.aio
import paho.mqtt.client as paho
import pytest

from edgesweep import envelope, topics
from edgesweep.delivery import Delivery, Parcel, Policy
from edgesweep.envelope import Ack, AckStatus, Envelope
from edgesweep.records import ClockQuality, Kind
from edgesweep_agent.daemon import Outbox
from edgesweep_agent.spool import Spool
from edgesweep_agent.uplink.base import UplinkDown
from edgesweep_agent.uplink.drain import Drain
from edgesweep_agent.uplink.grpc import GrpcUplink
from edgesweep_agent.uplink.mqtt import Broker, MqttUplink
from mosquitto import Mosquitto, needs_mosquitto

pytestmark = pytest.mark.anyio
DEVICE = "test-1"
EPOCH = 77


@pytest.fixture
def anyio_backend():
    return "asyncio"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def sealed(epoch: int, seq: int) -> bytes:
    return envelope.encode(
        Envelope(DEVICE, epoch, seq, "b", "0", Kind.LEVEL, 1, 2, ClockQuality.SYNCED, b"payload")
    )


def parcel(seq: int) -> Parcel:
    return Parcel((EPOCH, seq), "level", sealed(EPOCH, seq))


def ack_of(data: bytes) -> bytes:
    taken = envelope.decode(data)
    seq = (taken.seq, taken.seq)
    return envelope.encode_ack(Ack(DEVICE, taken.epoch, (seq,), AckStatus.STORED))


class GrpcPeer:
    """A collector's end of the stream: acknowledges what it gets, as long as it is told to."""

    def __init__(self, port: int) -> None:
        self.port, self.received, self.acking = port, [], True
        self.uplink = GrpcUplink(f"127.0.0.1:{port}", connect_timeout_s=3)

    async def start(self) -> None:
        handler = grpc.stream_stream_rpc_method_handler(self._deliver)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("edgesweep.v1.Ingest", {"Deliver": handler}),)
        )
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _deliver(self, requests, _context):
        async for data in requests:
            self.received.append(data)
            if self.acking:
                yield ack_of(data)


class MqttPeer:
    """A collector behind a real broker."""

    def __init__(self, folder, port: int) -> None:
        self.received, self.acking = [], True
        self._broker = Mosquitto(folder, port=port)
        self.uplink = MqttUplink(Broker("127.0.0.1", port), DEVICE, connect_timeout_s=3)

    async def start(self) -> None:
        await anyio.to_thread.run_sync(self._start)

    async def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._broker.kill()

    def _start(self) -> None:
        self._broker.start()
        ready = queue.SimpleQueue()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: ready.put(None)
        self._client.connect("127.0.0.1", self._broker.port)
        self._client.subscribe(topics.ALL_UP, qos=1)
        self._client.loop_start()
        ready.get(timeout=5)

    def _on_message(self, client, _userdata, message) -> None:
        assert message.topic == topics.up(DEVICE, Kind.LEVEL)
        self.received.append(message.payload)
        if self.acking:
            client.publish(topics.ack(DEVICE), ack_of(message.payload))


KINDS = ["grpc", pytest.param("mqtt", marks=needs_mosquitto)]


def make_peer(kind: str, folder):
    return GrpcPeer(free_port()) if kind == "grpc" else MqttPeer(folder, free_port())


@asynccontextmanager
async def running(peer):
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()


async def eventually(condition, within_s: float = 20.0) -> None:
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.02)


@pytest.mark.parametrize("kind", KINDS)
async def test_bytes_arrive_as_they_are_and_acks_come_back(kind, tmp_path):
    async with running(make_peer(kind, tmp_path)) as peer, peer.uplink.connect() as link:
        for seq in (1, 2, 3):
            await link.send(parcel(seq))
        seen = []
        with anyio.fail_after(10):
            async for ack in link.acks():
                seen += [first for first, _ in ack.ranges]
                if len(seen) == 3:
                    break
    assert peer.received == [parcel(seq).data for seq in (1, 2, 3)]
    assert seen == [1, 2, 3]


async def listen(peer, *parcels) -> None:
    """Connect, send, and hear acks until the link says that it is down."""
    async with peer.uplink.connect() as link:
        for one in parcels:
            await link.send(one)
        async for _ in link.acks():
            pass


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_there_is_down_with_a_reason(kind, tmp_path):
    began = time.monotonic()
    with pytest.raises(UplinkDown, match=r"\w+"):
        await listen(make_peer(kind, tmp_path))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("kind", KINDS)
async def test_a_peer_that_goes_away_is_noticed(kind, tmp_path):
    noticed = []

    async def until_down(peer) -> None:
        with pytest.raises(UplinkDown):
            await listen(peer, parcel(1))
        noticed.append(True)

    async with running(make_peer(kind, tmp_path)) as peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_down, peer)
            await eventually(lambda: peer.received)
            await peer.stop()
            await eventually(lambda: noticed, within_s=10)
        await peer.start()


@contextmanager
def spool_of(tmp_path, n: int):
    spool = Spool.open(tmp_path / "spool.db", new_epoch=lambda: EPOCH)
    spool.append([(Kind.LEVEL, sealed)] * n)
    try:
        yield spool
    finally:
        spool.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_drain_keeps_every_row_until_it_is_acknowledged(kind, tmp_path):
    policy = Policy(window_count=8, resend_s=1.0, backoff_s=0.1, backoff_max_s=0.3)
    with spool_of(tmp_path, 30) as spool:
        peer = make_peer(kind, tmp_path)
        peer.acking = False
        delivery = Delivery(random.random, policy)
        drain = Drain(Outbox(spool), peer.uplink, delivery, time.monotonic)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.run)
            await eventually(lambda: drain.state == "down")
            await peer.start()
            await eventually(lambda: len(set(peer.received)) == 8)
            assert spool.status().rows == 30
            await peer.stop()
            peer.acking = True
            await peer.start()
            await eventually(lambda: spool.status().rows == 0)
            tasks.cancel_scope.cancel()
        await peer.stop()
    assert set(peer.received) == {sealed(EPOCH, seq) for seq in range(1, 31)}
    assert delivery.in_flight == 0
