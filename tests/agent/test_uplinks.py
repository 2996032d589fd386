"""One suite for every transport: it moves bytes, and it says when it is down."""

from __future__ import annotations

import random
import time

import anyio
import pytest

from edgesweep.delivery import Delivery, Policy
from edgesweep.envelope import Ack, AckStatus, encode_ack
from edgesweep.events import dropped_records
from edgesweep.records import Kind
from edgesweep_agent.spool.outbox import Outbox
from edgesweep_agent.uplink.base import UplinkDown
from edgesweep_agent.uplink.drain import Drain
from lines import line_to
from mosquitto import needs_mosquitto
from uplinks import (
    DEVICE,
    EPOCH,
    draining,
    eventually,
    grpc_to,
    make_peer,
    mqtt,
    parcel,
    running,
    sealed,
    seqs,
    spool_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]
KINDS = ["grpc", pytest.param("mqtt", marks=needs_mosquitto)]
QUICK = Policy(window_count=8, resend_s=1.0, backoff_s=0.1, backoff_max_s=0.3)


def drain_of(spool, uplink, policy=QUICK, **more) -> Drain:
    return Drain(Outbox(spool), uplink, Delivery(random.random, policy), time.monotonic, **more)


@pytest.mark.parametrize("kind", KINDS)
async def test_bytes_arrive_as_they_are_and_acks_come_back(kind, tmp_path):
    async with running(make_peer(kind, tmp_path)) as peer, peer.uplink.connect() as link:
        for seq in (1, 2, 3):
            await link.send(parcel(seq))
        seen = []
        with anyio.fail_after(10):
            async for word in link.words():
                if isinstance(word, Ack):
                    seen += [first for first, _ in word.ranges]
                if len(seen) == 3:
                    break
    assert peer.received == [parcel(seq).data for seq in (1, 2, 3)]
    assert seen == [1, 2, 3]


async def listen(uplink, *parcels) -> None:
    """Connect, send, and hear what there is to hear until the link says that it is down."""
    async with uplink.connect() as link:
        for one in parcels:
            await link.send(one)
        async for _ in link.words():
            pass


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_there_is_down_with_a_reason(kind, tmp_path):
    began = time.monotonic()
    with pytest.raises(UplinkDown, match=r"\w+") as caught:
        await listen(make_peer(kind, tmp_path).uplink)
    assert caught.value.told.trouble.value == "unreachable"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("kind", KINDS)
async def test_a_peer_that_goes_away_is_noticed(kind, tmp_path):
    noticed = []

    async def until_down(peer) -> None:
        with pytest.raises(UplinkDown):
            await listen(peer.uplink, parcel(1))
        noticed.append(True)

    async with running(make_peer(kind, tmp_path)) as peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_down, peer)
            await eventually(lambda: peer.received)
            await peer.stop()
            await eventually(lambda: noticed, within_s=10)
        await peer.start()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_takes_the_connection_and_says_nothing_is_not_waited_for(kind):
    async def silent(stream) -> None:
        async with stream:
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    uplink = (grpc_to if kind == "grpc" else mqtt)(port, accept_s=0.5)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        with anyio.fail_after(5), pytest.raises(UplinkDown, match=r"within 0\.5 s"):
            await listen(uplink)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_drain_keeps_every_row_until_it_is_acknowledged(kind, tmp_path):
    with spool_of(tmp_path, 30) as spool:
        peer = make_peer(kind, tmp_path)
        peer.acking = False
        async with draining(drain_of(spool, peer.uplink)) as drain:
            await eventually(lambda: drain.state == "down")
            await peer.start()
            await eventually(lambda: len(set(peer.received)) == 8)
            assert spool.status().rows == 30
            await peer.stop()
            peer.acking = True
            await peer.start()
            await eventually(lambda: spool.status().rows == 0)
        await peer.stop()
    assert set(peer.received) == {sealed(EPOCH, seq) for seq in range(1, 31)}
    assert not drain.delivery.in_flight


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_asked_for_again_comes_again_and_what_is_gone_is_told(kind, tmp_path):
    told = []

    async def tell(event) -> None:
        told.append(dropped_records(event))

    peer = make_peer(kind, tmp_path)
    with spool_of(tmp_path, 3) as spool:
        async with running(peer), draining(drain_of(spool, peer.uplink, tell=tell)):
            await eventually(lambda: spool.status().rows == 0)
            again = Ack(DEVICE, EPOCH, ((2, 3), (40, 41)), AckStatus.RESEND)
            await peer.say(encode_ack(again))
            await eventually(lambda: told and spool.status().rows == 0)
            await eventually(lambda: len(peer.received) == 5)
    assert sorted(seqs(peer.received)) == [1, 2, 2, 3, 3]
    assert [(one.epoch, one.ranges) for one in told] == [(EPOCH, ((40, 41),))]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_line_that_is_cut_without_a_word_is_made_anew_in_order(kind, tmp_path, caplog):
    """MQT-06 and GRP-02 without their keepalives: progress alone is watched."""
    policy = Policy(window_count=20, backoff_s=0.1, backoff_max_s=0.5, stalled_s=1.0)
    with spool_of(tmp_path, 25) as spool:
        async with running(make_peer(kind, tmp_path)) as peer, line_to(peer.port) as line:
            line.cut()
            uplink = (grpc_to if kind == "grpc" else mqtt)(line.port, accept_s=2.0)
            async with draining(drain_of(spool, uplink, policy)) as drain:
                line.mend()
                await eventually(lambda: spool.status().rows == 0)
                line.cut()
                spool.append([(Kind.LEVEL, sealed)] * 25)
                drain.wake()
                await eventually(lambda: drain.trouble in {"stalled", "unreachable"})
                assert len(drain.delivery.in_flight) <= 20
                line.mend()
                await eventually(lambda: spool.status().rows == 0)
                await eventually(lambda: drain.trouble == "")
    assert sorted(set(seqs(peer.received))) == list(range(1, 51))
