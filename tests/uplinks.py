"""Peers for the tests of the device's uplinks: collectors that acknowledge as they are told."""

from __future__ import annotations

import json
import queue
import socket
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.to_thread
import grpc
import grpc.aio
import paho.mqtt.client as paho

from edgesweep import envelope, topics
from edgesweep.delivery import Parcel
from edgesweep.envelope import Ack, AckStatus, Envelope
from edgesweep.records import ClockQuality, Kind
from edgesweep_agent.settings import GrpcSettings, MqttSettings
from edgesweep_agent.spool import Spool
from edgesweep_agent.uplink import grpc as grpc_uplink
from edgesweep_agent.uplink import mqtt as mqtt_uplink
from edgesweep_agent.uplink.presence import Presence
from mosquitto import Mosquitto

DEVICE = "test-1"
EPOCH = 77


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def sealed(epoch: int, seq: int, size: int = 7, kind: Kind = Kind.LEVEL) -> bytes:
    return envelope.encode(
        Envelope(DEVICE, epoch, seq, "b", "0", kind, 1, 2, ClockQuality.SYNCED, b"p" * size)
    )


def parcel(seq: int, size: int = 7) -> Parcel:
    return Parcel((EPOCH, seq), "level", sealed(EPOCH, seq, size))


def acked(data: bytes, status: AckStatus = AckStatus.STORED) -> bytes:
    taken = envelope.decode(data)
    return envelope.encode_ack(Ack(DEVICE, taken.epoch, ((taken.seq, taken.seq),), status))


def seqs(received) -> list[int]:
    return [envelope.decode(data).seq for data in received]


class Announcer:
    """Gives presences, and counts them."""

    def __init__(self) -> None:
        self.given = 0

    async def __call__(self) -> Presence:
        self.given += 1
        return Presence(self.given, f"{EPOCH:016x}", "boot", "0.1.0")


def mqtt(port: int, device_id=DEVICE, announce=None, settings=None, **pace):
    pace = {"accept_s": 3.0, **pace}
    return mqtt_uplink.MqttUplink(
        MqttSettings(host="127.0.0.1", port=port, **settings or {}),
        device_id,
        announce or Announcer(),
        mqtt_uplink.Pace(**pace),
    )


def grpc_to(port: int, device_id=DEVICE, settings=None, jitter=lambda: 0.5, **pace):
    pace = {"accept_s": 3.0, **pace}
    address = f"127.0.0.1:{port}"
    return grpc_uplink.GrpcUplink(
        GrpcSettings(address=address, **settings or {}), device_id, grpc_uplink.Pace(**pace), jitter
    )


class GrpcPeer:
    """A collector's end of the stream: acknowledges what it gets, as long as it is told to."""

    def __init__(self, port: int, options=(), credentials=None) -> None:
        self.port, self.received, self.acking, self.options = port, [], True, options
        self._credentials = credentials
        self.streams, self.ended = 0, 0
        self.uplink = grpc_to(port)

    async def start(self) -> None:
        handler = grpc.stream_stream_rpc_method_handler(self.deliver)
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *self.options])
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("edgesweep.v1.Ingest", {"Deliver": handler}),)
        )
        where = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self._server.add_insecure_port(where)
        else:
            self._server.add_secure_port(where, self._credentials)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def say(self, ack: bytes) -> None:
        """An ack of the collector's own accord, on the last stream."""
        await self._context.write(ack)

    async def deliver(self, requests, context):
        self.streams += 1
        self._context = context
        await context.send_initial_metadata(())
        async for data in requests:
            self.received.append(data)
            if self.acking:
                await context.write(acked(data))
        self.ended += 1


class Deaf(GrpcPeer):
    """Accepts streams and reads nothing."""

    async def deliver(self, requests, context):
        self.streams += 1
        await context.send_initial_metadata(())
        await anyio.sleep_forever()


class MqttPeer:
    """A collector behind a real broker."""

    def __init__(self, folder, port: int, extra: str = "allow_anonymous true") -> None:
        self.received, self.retained, self.states, self.acking = [], [], [], True
        self.expiries = {}
        self.broker = Mosquitto(folder, extra, port=port)
        self.port = port
        self.uplink = mqtt(port)

    async def start(self) -> None:
        await anyio.to_thread.run_sync(self._start)

    async def stop(self) -> None:
        self.leave()
        self.broker.kill()

    async def say(self, ack: bytes) -> None:
        """An ack of the collector's own accord."""
        self._client.publish(topics.ack(DEVICE), ack)

    def leave(self) -> None:
        """The collector goes, the broker stays."""
        self._client.disconnect()
        self._client.loop_stop()

    def _start(self) -> None:
        self.broker.start()
        self.join()

    def join(self) -> None:
        ready = queue.SimpleQueue()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: ready.put(None)
        self._client.connect("127.0.0.1", self.broker.port)
        # As published: otherwise a broker takes the flag away from what is passed on at once.
        kept = paho.SubscribeOptions(qos=1, retainAsPublished=True)
        self._client.subscribe([(topics.ALL_UP, kept), ("edgesweep/v1/+/state", kept)])
        self._client.loop_start()
        ready.get(timeout=5)

    def _on_message(self, client, _userdata, message) -> None:
        self.retained += [message.topic] if message.retain else []
        if message.topic.endswith("/state"):
            self.states.append(json.loads(message.payload))
            return
        kind = message.topic.rpartition("/")[2]
        assert message.topic == f"edgesweep/v1/{DEVICE}/up/{kind}"
        assert message.properties.UserProperty == [("schema", "1")]
        self.expiries[kind] = getattr(message.properties, "MessageExpiryInterval", None)
        self.received.append(message.payload)
        if self.acking:
            client.publish(topics.ack(DEVICE), acked(message.payload))

    @property
    def streams(self) -> int:
        """How often the device has connected, by the broker's log."""
        return self.broker.log.read_text().count(f"as {DEVICE} (")


def make_peer(kind: str, folder):
    return GrpcPeer(free_port()) if kind == "grpc" else MqttPeer(folder, free_port())


@asynccontextmanager
async def running(peer):
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()


@asynccontextmanager
async def draining(drain):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drain.run)
        try:
            yield drain
        finally:
            tasks.cancel_scope.cancel()


async def eventually(condition, within_s: float = 20.0) -> None:
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.02)


@contextmanager
def spool_of(tmp_path, n: int, size: int = 7):
    spool = Spool.open(tmp_path / "spool.db", new_epoch=lambda: EPOCH)
    seal = (Kind.LEVEL, lambda epoch, seq: sealed(epoch, seq, size))
    if n:
        spool.append([seal] * n)
    try:
        yield spool
    finally:
        spool.close()


class Clock:
    """Monotonic seconds that only pass when somebody sleeps."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s, self.slept = now_s, []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await anyio.lowlevel.checkpoint()
