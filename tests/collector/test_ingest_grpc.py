"""The gRPC transport over loopback, with a real client and a real archive."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import asynccontextmanager

import anyio
import grpc
import grpc.aio
import pytest

import wire
from edgesweep.v1 import transport_pb2 as pb
from edgesweep.v1 import transport_pb2_grpc
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import ListenError, SettingsError
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.grpc import GrpcIngest
from edgesweep_collector.settings import Listen
from gated import Gated

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]


class Collector:
    def __init__(self, acceptor, server, sink, path, port):
        self.acceptor, self.server, self.sink = acceptor, server, sink
        self.path, self.port = path, port

    def seqs(self):
        connection = sqlite3.connect(self.path)
        try:
            rows = connection.execute("SELECT seq FROM envelopes ORDER BY row_id").fetchall()
        finally:
            connection.close()
        return [seq for (seq,) in rows]

    @asynccontextmanager
    async def stream(self, options=()):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options) as channel:
            deliver = channel.stream_stream(
                "/edgesweep.v1.Ingest/Deliver",
                request_serializer=None,
                response_deserializer=pb.Ack.FromString,
            )
            call = deliver()
            try:
                yield call
            finally:
                call.cancel()


@pytest.fixture
def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture
async def collector(tmp_path, unused_port):
    path = tmp_path / "archive.db"
    archive = Archive.open(f"sqlite:///{path}")
    sink, counters = Gated(archive), Counters()
    acceptor = Acceptor(sink, counters)
    server = GrpcIngest(acceptor, counters, Listen("127.0.0.1", unused_port))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acceptor.run)
        await server.start()
        yield Collector(acceptor, server, sink, path, unused_port)
        sink.gate.set()
        await server.stop()
        await acceptor.drain()
    archive.close()


async def _read(call):
    with anyio.fail_after(5):
        return await call.read()


async def _seqs(call, count):
    """Read acks until they cover ``count`` envelopes; their statuses by sequence number."""
    found = {}
    while len(found) < count:
        ack = await _read(call)
        for part in ack.ranges:
            for seq in range(part.first, part.last + 1):
                found[seq] = pb.Ack.Status.Name(ack.status)
    return found


async def test_the_ack_comes_after_the_commit(collector):
    collector.sink.gate.clear()
    async with collector.stream() as call:
        await call.write(wire.raw(wire.level(1), 1))
        reading = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_collect, call, reading)
            await anyio.sleep(0.2)
            assert reading == []
            assert collector.seqs() == []
            collector.sink.gate.set()
        assert collector.seqs() == [1]
        (ack,) = reading
        assert (ack.device_id, ack.epoch, ack.status) == ("n97-01", wire.EPOCH, pb.Ack.STORED)


async def _collect(call, into):
    into.append(await _read(call))


async def test_a_resend_is_a_duplicate(collector):
    raw = wire.raw(wire.level(1), 1)
    async with collector.stream() as call:
        await call.write(raw)
        assert await _seqs(call, 1) == {1: "STORED"}
    async with collector.stream() as call:
        await call.write(raw)
        assert await _seqs(call, 1) == {1: "DUPLICATE"}
    assert collector.seqs() == [1]


async def test_a_damaged_envelope_is_rejected_and_the_stream_goes_on(collector):
    async with collector.stream() as call:
        await call.write(wire.damaged(wire.level(1), 1))
        assert await _seqs(call, 1) == {1: "REJECTED"}
        await call.write(b"no envelope at all")
        await call.write(wire.raw(wire.level(2), 2))
        assert await _seqs(call, 1) == {2: "STORED"}
    assert collector.seqs() == [2]


async def test_acks_go_to_the_stream_that_sent(collector):
    async with collector.stream() as one, collector.stream() as two:
        await one.write(wire.raw(wire.level(1), 1))
        await two.write(wire.raw(wire.level(2), 2))
        assert await _seqs(one, 1) == {1: "STORED"}
        assert await _seqs(two, 1) == {2: "STORED"}


async def test_the_generated_client_understands_it(collector):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{collector.port}") as channel:
        call = transport_pb2_grpc.IngestStub(channel).Deliver()
        await call.write(pb.Envelope.FromString(wire.raw(wire.level(1), 1)))
        assert await _seqs(call, 1) == {1: "STORED"}
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK


async def test_a_client_that_ends_gets_the_acks_it_is_owed(collector):
    collector.sink.gate.clear()
    async with collector.stream() as call:
        for seq in range(1, 101):
            await call.write(wire.raw(wire.level(seq), seq))
        await call.done_writing()
        collector.sink.gate.set()
        assert set((await _seqs(call, 100)).values()) == {"STORED"}
        with anyio.fail_after(5):
            assert await call.read() is grpc.aio.EOF
            assert await call.code() == grpc.StatusCode.OK


async def test_a_client_that_vanishes_loses_no_accepted_work(collector):
    collector.sink.gate.clear()
    async with collector.stream() as call:
        for seq in range(1, 11):
            await call.write(wire.raw(wire.level(seq), seq))
        await anyio.sleep(0.2)
    collector.sink.gate.set()
    async with collector.stream() as call:
        await call.write(wire.raw(wire.level(10), 10))
        # Streams take turns: it may be this one that is archived, and the other's is the duplicate.
        assert (await _seqs(call, 1)).keys() == {10}
    assert sorted(collector.seqs()) == list(range(1, 11))


async def test_a_stop_ends_open_streams_within_two_seconds(collector):
    async with collector.stream() as call, collector.stream() as idle:
        await call.write(wire.raw(wire.level(1), 1))
        assert await _seqs(call, 1) == {1: "STORED"}
        await idle.wait_for_connection()
        collector.sink.gate.clear()
        await call.write(wire.raw(wire.level(2), 2))
        await anyio.sleep(0.1)
        with anyio.fail_after(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collector.server.stop)
                await anyio.sleep(0.1)
                collector.sink.gate.set()
                assert await _seqs(call, 1) == {2: "STORED"}
                assert await call.read() is grpc.aio.EOF
                assert await idle.read() is grpc.aio.EOF
    assert collector.seqs() == [1, 2]


async def test_a_client_that_never_reads_is_stopped_by_nothing_and_harms_nobody(collector):
    async with collector.stream() as deaf, collector.stream() as call:
        for seq in range(1, 301):
            with anyio.fail_after(5):
                await deaf.write(wire.raw(wire.level(seq), seq))
        await call.write(wire.raw(wire.level(1), 1000))
        assert await _seqs(call, 1) == {1000: "STORED"}


async def test_another_address_needs_tls(tmp_path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "collector.example"):
        with pytest.raises(SettingsError, match="without TLS"):
            GrpcIngest(Acceptor.__new__(Acceptor), Counters(), Listen(host, 1))


async def test_a_taken_address_is_said_to_be_taken(collector):
    second = GrpcIngest(collector.acceptor, Counters(), Listen("127.0.0.1", collector.port))
    with pytest.raises(ListenError, match="cannot bind"):
        await second.start()
