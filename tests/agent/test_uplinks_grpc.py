"""The uplink over gRPC against a real server: the cases, and what is known of grpcio.

| pitfall | test |
|---|---|
| pings that the server did not expect end the connection (grpc#9902, #14717, #33661) | ``test_grp_02_b_idle_...`` in ``tests/e2e/test_uplink_cases.py``, with the collector's own options |
| a half-open connection is waited on for ever | ``test_grp_02_a_blackhole_...`` there; ``test_a_line_that_is_cut_without_a_word_is_made_anew_in_order`` |
| a call without a deadline hangs | ``test_a_server_that_takes_the_connection_and_says_nothing_is_not_waited_for``, ``test_a_stream_that_nobody_accepts_is_not_waited_for`` |
| streams leak, cancelled ones more so (grpc#43360, #25449) | ``test_a_stream_is_made_anew_at_its_age_and_ends_in_good_order``; no interceptors |
| one event loop a process (grpc#25364) | the daemon has one; the tests too (``one_loop``) |
| never fork after its start (grpc#22624, #18075) | ``test_programs_are_started_without_a_fork_of_ours`` |
| 4 MiB is the most that a message may have | ``test_grp_01_...``, ``test_what_was_refused_once_for_its_size_is_not_tried_again`` |
| the window of the transport is the back-pressure | ``test_a_peer_that_reads_nothing_is_waited_for`` |
| c-ares does not recover (grpc#30462, #34709, #40574) | ``test_names_are_resolved_by_the_system`` |
| memory that a site on MQTT need not spend | ``test_mqtt_does_without_grpc`` |
| a write on a stream that has ended is an ``InvalidStateError`` | ``test_a_write_beyond_the_end_says_what_ended_it`` |
| the channel sits out a back-off of its own | each connection has a channel of its own, ``use_local_subchannel_pool``; ``test_the_drain_keeps_every_row_until_it_is_acknowledged`` |
"""  # noqa: E501

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import anyio
import grpc
import grpc.aio
import pytest

import edgesweep_agent
from edgesweep.delivery import Delivery, Policy
from edgesweep.records import Event, Kind
from edgesweep_agent.settings import GrpcSettings
from edgesweep_agent.spool.outbox import Outbox
from edgesweep_agent.uplink import registry, statuses
from edgesweep_agent.uplink.base import TooLarge, Trouble, UplinkDown
from edgesweep_agent.uplink.drain import Drain
from edgesweep_agent.uplink.grpc import Pace
from spooling import sealing
from uplinks import (
    DEVICE,
    Deaf,
    GrpcPeer,
    draining,
    eventually,
    free_port,
    grpc_to,
    parcel,
    running,
    sealed,
    seqs,
    spool_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]
CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "fixtures/cases/grpc.json").read_text(encoding="utf-8")
    )
}
QUICK = Policy(backoff_s=0.05, backoff_max_s=0.2)
FOUR_MIB = [("grpc.max_receive_message_length", 4 * 1024 * 1024)]


def drain_of(spool, uplink, policy=QUICK) -> Drain:
    delivery = Delivery(random.random, policy)
    return Drain(Outbox(spool), uplink, delivery, time.monotonic, watch_s=0.1)


# -- cases -----------------------------------------------------------------------------


async def test_grp_01_a_message_above_the_limit_is_set_aside_and_the_rest_goes(tmp_path):
    """The case has 60 records in batches of 4 MiB, two requests; our wire has one a message.

    So no batch can be too large, 60 messages are accepted on the stream before and the one
    after the refusal, and what the case calls a retry of the same batch is a message that is
    sent twice: the large one is sent once.
    """
    case = CASES["GRP-01"]
    backlog, expected = case["input"]["backlog"], case["expected"]
    records = [Event("note", "x" * (backlog["bytes_each"] - 100))] * backlog["records"]
    records.insert(30, Event("note", "x" * case["input"]["plus"]["one_record_bytes"]))
    assert case["input"]["server"]["max_receive_bytes"] == FOUR_MIB[0][1]
    with spool_of(tmp_path, 0) as spool:
        spool.append([sealing(record, device_id=DEVICE) for record in records])
        peer = GrpcPeer(free_port(), FOUR_MIB)
        async with running(peer), draining(drain_of(spool, peer.uplink)) as drain:
            await eventually(lambda: spool.status().rows == 0)
            assert drain.trouble == "too_large"
        (aside,) = spool.rejected()
    assert len(set(seqs(peer.received))) == expected["records_stored"]
    assert (aside.seq, expected["dead_letter"]) == (31, 1)
    assert "and the transport takes 4194304" in aside.reason
    assert peer.streams == expected["accepted_requests"]


async def test_what_was_refused_once_for_its_size_is_not_tried_again(tmp_path):
    large = Event("note", "x" * 5_000_000)
    with spool_of(tmp_path, 0) as spool:
        spool.append([sealing(large, device_id=DEVICE)] * 2)
        peer = GrpcPeer(free_port(), FOUR_MIB)
        async with running(peer), draining(drain_of(spool, peer.uplink)):
            await eventually(lambda: len(spool.rejected()) == 2)
    assert (peer.streams, peer.received) == (2, [])


class Throttling(GrpcPeer):
    """Refuses the first stream for a while, as a proxy does that counts requests."""

    async def deliver(self, requests, context):
        if self.streams == 0:
            self.streams, self.refused_s = 1, time.monotonic()
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "700"),))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests")
        self.again_s = time.monotonic()
        await super().deliver(requests, context)


async def test_grp_01_a_throttle_is_waited_out_and_nothing_is_set_aside(tmp_path):
    with spool_of(tmp_path, 5) as spool:
        async with running(Throttling(free_port())) as peer:
            async with draining(drain_of(spool, peer.uplink)):
                await eventually(lambda: spool.status().rows == 0)
            assert peer.again_s - peer.refused_s >= 0.7
        assert spool.rejected() == []


@pytest.mark.parametrize(
    ("code", "details", "trouble", "too_large"),
    [
        (
            "RESOURCE_EXHAUSTED",
            "SERVER: Received message larger than max (5000100 vs. 4194304)",
            Trouble.TOO_LARGE,
            TooLarge(5_000_100, 4_194_304),
        ),
        (
            "RESOURCE_EXHAUSTED",
            "grpc: received message larger than max (5000100 vs. 4194304)",
            Trouble.TOO_LARGE,
            TooLarge(5_000_100, 4_194_304),
        ),
        (
            "RESOURCE_EXHAUSTED",
            "gRPC message exceeds maximum size 4194304: 5000100",
            Trouble.TOO_LARGE,
            TooLarge(5_000_100, 4_194_304),
        ),
        (
            "RESOURCE_EXHAUSTED",
            "Received message exceeds the maximum configured message size.",
            Trouble.TOO_LARGE,
            TooLarge(),
        ),
        ("RESOURCE_EXHAUSTED", "quota", Trouble.UNREACHABLE, None),
        ("UNAVAILABLE", "message larger than max (2 vs. 1)", Trouble.UNREACHABLE, None),
        ("UNAVAILABLE", "Too many pings", Trouble.UNREACHABLE, None),
        ("PERMISSION_DENIED", "on the denylist", Trouble.AUTH_FAILED, None),
        ("UNAUTHENTICATED", "who are you", Trouble.AUTH_FAILED, None),
        ("UNIMPLEMENTED", "Method not found!", Trouble.REFUSED, None),
    ],
)
def test_what_a_status_means(code, details, trouble, too_large):
    down = statuses.ended(code, details)
    assert (down.told.trouble, down.too_large, down.wait_s) == (trouble, too_large, 0.0)
    assert details in down.told.text


@pytest.mark.parametrize(("pushback", "wait_s"), [("1500", 1.5), ("-1", 0.0), ("soon", 0.0)])
def test_how_long_to_wait(pushback, wait_s):
    assert statuses.ended("RESOURCE_EXHAUSTED", "quota", pushback).wait_s == wait_s


# -- streams ---------------------------------------------------------------------------


async def test_a_stream_is_made_anew_at_its_age_and_ends_in_good_order(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with spool_of(tmp_path, 0) as spool:
        async with running(GrpcPeer(free_port())) as peer:
            uplink = grpc_to(peer.port, max_age_s=0.4)
            async with draining(drain_of(spool, uplink)) as drain:
                for _ in range(40):
                    spool.append([(Kind.LEVEL, sealed)] * 3)
                    drain.wake()
                    await anyio.sleep(0.05)
                    assert drain.state in {"connecting", "connected"}
                await eventually(lambda: spool.status().rows == 0)
                assert peer.streams >= 3
                # The last one lives; of the others none was cancelled.
                assert peer.ended == peer.streams - 1
    assert seqs(peer.received) == list(range(1, 121))
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith("uplink")]
    assert said == ["uplink connected"]


@pytest.mark.parametrize(("jitter", "lasts_s"), [(0.0, 810.0), (0.5, 900.0), (1.0, 990.0)])
async def test_a_fleet_does_not_make_its_streams_anew_together(jitter, lasts_s):
    peer = GrpcPeer(free_port())
    async with running(peer), grpc_to(peer.port, jitter=lambda: jitter).connect() as link:
        assert link.lasts_s == pytest.approx(lasts_s)


async def test_a_peer_that_reads_nothing_is_waited_for():
    async with running(Deaf(free_port())) as peer, peer.uplink.connect() as link:
        sent = 0
        with anyio.move_on_after(1.0):
            for seq in range(1, 1000):
                await link.send(parcel(seq, 100_000))
                sent = seq
    assert 0 < sent < 100


class Mute(GrpcPeer):
    """Has the stream, and never accepts it."""

    async def deliver(self, requests, context):
        await anyio.sleep_forever()


async def refused(uplink) -> UplinkDown:
    with anyio.fail_after(10), pytest.raises(UplinkDown) as caught:
        async with uplink.connect():
            pass
    return caught.value


async def test_a_stream_that_nobody_accepts_is_not_waited_for():
    async with running(Mute(free_port())) as peer:
        down = await refused(grpc_to(peer.port, accept_s=0.5))
    assert "within 0.5 s" in down.told.text


class Denying(GrpcPeer):
    async def deliver(self, requests, context):
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "on the denylist")


async def test_who_is_not_let_in_is_told_so():
    async with running(Denying(free_port())) as peer:
        down = await refused(peer.uplink)
    assert down.told == (Trouble.AUTH_FAILED, "permission_denied: on the denylist")


async def test_another_service_is_told():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    down = await refused(grpc_to(port))
    await server.stop(None)
    assert down.told.trouble is Trouble.REFUSED
    assert "is there another service at this address?" in down.told.text


class Ending(GrpcPeer):
    """Ends the stream after its first message."""

    code = None

    async def deliver(self, requests, context):
        await context.send_initial_metadata(())
        async for _ in requests:
            if self.code is not None:
                await context.abort(self.code, "enough")
            return


@pytest.mark.parametrize(
    ("code", "trouble"),
    [(None, Trouble.UNREACHABLE), (grpc.StatusCode.PERMISSION_DENIED, Trouble.AUTH_FAILED)],
)
async def test_a_write_beyond_the_end_says_what_ended_it(code, trouble):
    peer = Ending(free_port())
    peer.code = code
    async with running(peer), peer.uplink.connect() as link:
        with anyio.fail_after(5), pytest.raises(UplinkDown) as caught:
            await send_for_ever(link)
    assert caught.value.told.trouble is trouble


async def send_for_ever(link) -> None:
    while True:
        await link.send(parcel(1))
        await anyio.sleep(0.02)


async def test_what_is_no_ack_ends_the_stream():
    async with running(GrpcPeer(free_port())) as peer, peer.uplink.connect() as link:
        await eventually(lambda: peer.streams)
        await peer.say(b"\xff\xff")
        with anyio.fail_after(5), pytest.raises(UplinkDown, match="what is no ack"):
            async for _ in link.words():
                pass


# -- the process -----------------------------------------------------------------------


def test_names_are_resolved_by_the_system(monkeypatch):
    monkeypatch.delenv("GRPC_DNS_RESOLVER", raising=False)
    registry.UPLINKS["grpc"](GrpcSettings(address="127.0.0.1:1"), DEVICE, None)
    assert os.environ["GRPC_DNS_RESOLVER"] == "native"


def test_mqtt_does_without_grpc():
    code = (
        "import sys\n"
        "from edgesweep_agent.settings import MqttSettings\n"
        "from edgesweep_agent.uplink import drain, registry\n"
        "registry.UPLINKS['mqtt'](MqttSettings(host='h'), 'd', None)\n"
        "print([name for name in ('grpc', 'cryptography') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_programs_are_started_without_a_fork_of_ours():
    """By exec alone: a child of a fork would hold grpc's locks. Two have a process of their own."""
    root = Path(edgesweep_agent.__file__).parent
    texts = {file.name: file.read_text(encoding="utf-8") for file in root.rglob("*.py")}
    forks = ("os.fork", "multiprocessing", "preexec_fn", "GRPC_ENABLE_FORK_SUPPORT")
    found = {name for name, text in texts.items() if any(word in text for word in forks)}
    assert found <= {"tether.py", "jtop_child.py"}
    assert not [name for name in found if "grpc" in texts[name]]


def test_its_pings_are_as_often_as_the_collector_allows():
    from edgesweep_collector.ingest import grpc as collector  # noqa: PLC0415 - the other side

    ours, theirs = dict(Pace().options()), dict(collector._OPTIONS)
    assert ours["grpc.keepalive_time_ms"] > theirs["grpc.http2.min_ping_interval_without_data_ms"]
    assert theirs["grpc.keepalive_permit_without_calls"] == 1
    noticed_s = (ours["grpc.keepalive_time_ms"] + ours["grpc.keepalive_timeout_ms"]) / 1000
    assert noticed_s <= CASES["GRP-02"]["expected"]["a_blackhole"]["dead_link_noticed_by_s"]
