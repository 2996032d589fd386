"""What the drain makes of links that do as they are told, on time that passes when it sleeps."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import anyio
import pytest

from edgesweep.delivery import Delivery, Parcel, Policy
from edgesweep.envelope import Ack, AckStatus
from edgesweep_agent.errors import SpoolError
from edgesweep_agent.uplink import conversation
from edgesweep_agent.uplink.base import Passed, Told, TooLarge, Trouble, UplinkDown
from edgesweep_agent.uplink.drain import Drain
from edgesweep_agent.uplink.health import EARLY, SIZE_S, Health
from uplinks import DEVICE, EPOCH, Clock, draining, eventually, parcel

pytestmark = pytest.mark.anyio
CONFLICT = Told(Trouble.CLIENT_ID_CONFLICT, f"client id {DEVICE} is in use elsewhere")
DOWN = UplinkDown("gone")


class Link:
    """Acknowledges what is sent, unless told otherwise."""

    def __init__(self, *, limit=None, lasts_s=None, answer=None):
        self.trouble, self.lasts_s = None, lasts_s
        self.sent, self._limit, self._answer = [], limit, answer
        self._words = asyncio.Queue()

    def limit_bytes(self, _parcel):
        return self._limit

    async def send(self, one):
        self.sent.append(one.key[1])
        if self._answer is not None:
            self._answer(self, one)
        else:
            self.say(ack(one.key[1]))

    def say(self, word):
        self._words.put_nowait(word)

    async def words(self):
        while (word := await self._words.get()) is not None:
            if isinstance(word, Exception):
                raise word
            yield word

    async def finish(self):
        self.say(None)


def ack(*numbers, status=AckStatus.STORED, **more):
    return Ack(DEVICE, EPOCH, tuple((n, n) for n in numbers), status, **more)


class Uplink:
    """Connects as a list says: a link, or what is raised; then the last of it for ever."""

    name = "fake"
    trouble = None

    def __init__(self, *script, conflict=None):
        self.script, self.conflict, self.tries = list(script), conflict, 0
        self.news = False

    @asynccontextmanager
    async def connect(self):
        self.tries += 1
        found = self.script[min(self.tries, len(self.script)) - 1]
        found = found() if callable(found) else found
        if isinstance(found, Exception):
            raise found
        yield found

    async def renewed(self):
        news, self.news = self.news, False
        return news


class Spool:
    """An outbox in memory."""

    def __init__(self, *parcels):
        self.rows = {one.key: one for one in parcels}
        self.rejected, self.shrunk, self.fails = [], [], None

    async def head(self, limit, budget_bytes, skip):
        waiting = [one for key, one in self.rows.items() if key not in skip]
        return waiting[:limit]

    async def settle(self, delivered, rejected, reason):
        self._maybe_fail()
        for key in (*delivered, *rejected):
            self.rows.pop(key, None)
        self.rejected += [(key[1], reason) for key in rejected]

    async def resend(self, epoch, ranges):
        self._maybe_fail()
        return ranges

    async def shrink(self, key, limit_bytes):
        self._maybe_fail()
        self.shrunk.append((key[1], limit_bytes))
        del self.rows[key]

    def _maybe_fail(self):
        if self.fails:
            raise SpoolError("the disk takes nothing")


def drain_of(spool, uplink, *, clock=None, **policy) -> Drain:
    clock = clock or Clock()
    delivery = Delivery(lambda: 0.5, Policy(**policy))
    return Drain(spool, uplink, delivery, clock, sleep=clock.sleep, watch_s=0.02)


def messages(caplog):
    return [one.getMessage() for one in caplog.records if "uplink" in one.getMessage()]


# -- health ----------------------------------------------------------------------------


def down(trouble: Trouble) -> UplinkDown:
    return UplinkDown("why", trouble)


@pytest.mark.parametrize("trouble", Trouble)
def test_what_of_a_lost_connection_outlives_the_next_one(trouble):
    health = Health()
    health.lost(down(trouble), 0, None)
    assert health.now(0.0) == (trouble, "why")
    health.connected()
    kept = {Trouble.STALLED, Trouble.CLIENT_ID_CONFLICT}
    assert health.now(0.0) == ((trouble, "why") if trouble in kept else None)
    if trouble is Trouble.STALLED:
        health.stable()
        assert health.now(0.0) is not None
        health.acked()
    else:
        health.acked()
        health.stable()
    assert health.now(0.0) is None


@pytest.mark.parametrize(
    ("ended", "early", "conflict", "word"),
    [
        (Trouble.UNREACHABLE, EARLY, CONFLICT, "client_id_conflict"),
        (Trouble.UNREACHABLE, EARLY - 1, CONFLICT, "unreachable"),
        (Trouble.UNREACHABLE, EARLY, None, "unreachable"),
        (Trouble.AUTH_FAILED, EARLY, CONFLICT, "auth_failed"),
    ],
)
def test_ends_that_keep_coming_early_mean_somebody_else(ended, early, conflict, word):
    health = Health()
    health.lost(down(ended), early, conflict)
    assert health.now(0.0).trouble.value == word


def test_the_gravest_is_told_and_a_size_for_a_while():
    health = Health()
    health.too_large("a level", 100.0)
    assert health.now(100.0) == (Trouble.TOO_LARGE, "a level")
    health.link = Told(Trouble.NO_SUBSCRIBERS, "nobody")
    assert health.now(100.0).trouble is Trouble.NO_SUBSCRIBERS
    health.uplink = Told(Trouble.CERTIFICATE, "bad")
    assert health.now(100.0).trouble is Trouble.CERTIFICATE
    health.lost(DOWN, 0, None)
    assert health.now(100.0).trouble is Trouble.UNREACHABLE
    health.connected()
    health.uplink = None
    assert health.now(100.0).trouble is Trouble.TOO_LARGE
    assert health.now(100.0 + SIZE_S) is None


# -- tries -----------------------------------------------------------------------------


async def test_mqt_04_refused_logins_and_then_the_way_is_free(caplog):
    """600 s of refusals on the drain's own clock, no restart, and the ten records go."""
    caplog.set_level(logging.INFO)
    clock, link = Clock(), Link()
    refused = UplinkDown("the broker refuses the connection: Not authorized", Trouble.AUTH_FAILED)
    uplink = Uplink(lambda: refused if clock.now_s < 600.0 else link)
    spool = Spool(*map(parcel, range(1, 11)))
    words = set()
    drain = drain_of(spool, uplink, clock=clock)
    sleep = drain.sleep

    async def observed(seconds):
        words.add(drain.trouble)
        await sleep(seconds)

    drain.sleep = observed
    async with draining(drain):
        await eventually(lambda: not spool.rows)
    assert words == {"auth_failed"}
    assert uplink.tries <= 40
    assert clock.now_s - 600.0 <= 60.0
    assert link.sent == list(range(1, 11))
    assert (drain.state, drain.told) == ("connected", "")
    assert messages(caplog) == ["uplink auth_failed", "uplink connected"]


async def test_whoever_asks_to_be_left_alone_is():
    clock = Clock()
    uplink = Uplink(UplinkDown("busy", wait_s=90.0), Link())
    async with draining(drain_of(Spool(), uplink, clock=clock)) as drain:
        await eventually(lambda: drain.state == "connected")
    assert clock.slept == [90.0]


async def test_a_transport_that_trips_over_itself_is_tried_again(caplog):
    spool = Spool(parcel(1))
    uplink = Uplink(RuntimeError("a bug"), lambda: Link(answer=trip), Link())
    async with draining(drain_of(spool, uplink)) as drain:
        await eventually(lambda: not spool.rows)
        assert drain.state == "connected"
    assert sum("the uplink failed" in one.getMessage() for one in caplog.records) == 2


def trip(link, one):
    link.say(ValueError("in the middle"))


async def test_mqt_03_ends_that_keep_coming_are_told_once_and_until_it_lasts(caplog):
    """A broker that closes the older of two with one id says nothing: the pattern is the word."""
    caplog.set_level(logging.INFO)
    kicked, clock, held = [], Clock(), Link()

    def kick(link, one):
        link.say(ack(one.key[1]))
        kicked.append(one)
        link.say(UplinkDown("connection lost"))

    spool = Spool(*map(parcel, range(1, 9)))
    script = [lambda: Link(answer=kick)] * 8
    uplink = Uplink(*script, held, conflict=CONFLICT)
    drain = drain_of(spool, uplink, clock=clock, window_count=1)
    async with draining(drain):
        await eventually(lambda: uplink.tries == 9)
        assert drain.told == f"client_id_conflict: client id {DEVICE} is in use elsewhere"
        clock.now_s += 61.0
        await eventually(lambda: drain.trouble == "")
    assert spool.rows == {}
    # 9 connects take 0.75 of 1, 2, 4, ... s, and then of a minute.
    assert clock.slept == [0.75, 1.5, 3.0, 6.0, 12.0, 24.0, 45.0, 45.0]
    assert messages(caplog) == [
        "uplink connected",
        "uplink unreachable",
        "uplink connected",
        "uplink unreachable",
        "uplink connected",
        "uplink client_id_conflict",
        "uplink connected",
    ]


# -- ending a connection ourselves -----------------------------------------------------


async def test_a_stream_that_is_old_ends_when_all_is_answered_and_another_begins(caplog):
    caplog.set_level(logging.INFO)
    clock, waiting = Clock(), []
    old = Link(lasts_s=900.0, answer=lambda _, one: waiting.append(one.key[1]))
    new = Link()
    spool = Spool(*map(parcel, range(1, 4)))
    uplink = Uplink(old, new)
    async with draining(drain_of(spool, uplink, clock=clock, stalled_s=1e6)):
        await eventually(lambda: len(waiting) == 3)
        clock.now_s = 900.0
        await anyio.sleep(0.2)
        spool.rows[EPOCH, 4] = parcel(4)
        assert uplink.tries == 1
        old.say(ack(*waiting))
        await eventually(lambda: not spool.rows)
    assert (old.sent, new.sent) == ([1, 2, 3], [4])
    assert clock.slept == [0.0]
    assert messages(caplog) == ["uplink connected"]


async def test_a_certificate_that_was_renewed_swaps_the_link():
    clock, uplink = Clock(), Uplink(Link(), Link())
    async with draining(drain_of(Spool(), uplink, clock=clock)) as drain:
        await eventually(lambda: drain.state == "connected")
        uplink.trouble = Told(Trouble.CERTIFICATE, "the new certificate is not used: expired")
        clock.now_s = 30.0
        await eventually(lambda: drain.trouble == "certificate")
        assert (drain.state, uplink.tries) == ("connected", 1)
        uplink.trouble, uplink.news = None, True
        clock.now_s = 60.0
        await eventually(lambda: uplink.tries == 2)
        assert drain.told == ""


# -- what a connection is of use for ---------------------------------------------------


async def test_nobody_subscribes_is_told_and_the_window_is_not_resent(caplog):
    clock = Clock()

    def nobody(link, one):
        if link.trouble or one.key[1] == 1:
            link.trouble = Told(Trouble.NO_SUBSCRIBERS, "no collector is subscribed")
        link.say(Passed(one.key, handed_on=False))

    link = Link(answer=nobody)
    spool = Spool(*map(parcel, range(1, 6)))
    async with draining(drain_of(spool, Uplink(link), clock=clock)) as drain:
        await eventually(lambda: drain.trouble == "no_subscribers")
        await anyio.sleep(0.1)
        assert link.sent == [1, 2, 3, 4, 5]
        for _ in range(3):
            clock.now_s += 20.0
            drain.wake()
            await anyio.sleep(0.05)
        assert link.sent == [1, 2, 3, 4, 5, 1, 1, 1]
        assert (drain.state, len(spool.rows)) == ("connected", 5)
        link._answer, link.trouble = None, None
        clock.now_s += 20.0
        drain.wake()
        await eventually(lambda: not spool.rows)
        assert drain.told == ""


async def test_mqt_06_a_link_on_which_nothing_comes_back_is_left(caplog):
    clock = Clock()
    dead, live = Link(answer=lambda *_: None), Link()
    spool = Spool(*map(parcel, range(1, 26)))
    uplink = Uplink(dead, live)
    async with draining(drain_of(spool, uplink, clock=clock, window_count=20)) as drain:
        await eventually(lambda: len(dead.sent) == 20)
        clock.now_s = 59.0
        await anyio.sleep(0.2)
        assert drain.trouble == ""
        clock.now_s = 120.0
        await eventually(lambda: not spool.rows)
        await eventually(lambda: drain.trouble == "")
    assert uplink.tries == 2
    # In order, each once again, and what was behind the window after them.
    assert live.sent == list(range(1, 26))


async def test_a_link_that_takes_nothing_more_is_noticed_as_well():
    clock, stuck = Clock(), anyio.Event()

    class Blocked(Link):
        async def send(self, one):
            self.sent.append(one.key[1])
            await stuck.wait()

    spool = Spool(parcel(1))
    uplink = Uplink(Blocked(), Link())
    async with draining(drain_of(spool, uplink, clock=clock)):
        await eventually(lambda: uplink.tries == 1)
        await anyio.sleep(0.1)
        clock.now_s = 61.0
        await eventually(lambda: not spool.rows)
    assert uplink.tries == 2


async def test_a_collector_at_work_that_answers_retry_is_not_left():
    clock = Clock()
    link = Link(answer=lambda link, one: link.say(ack(one.key[1], status=AckStatus.RETRY)))
    uplink = Uplink(link)
    async with draining(drain_of(Spool(parcel(1)), uplink, clock=clock)) as drain:
        for _ in range(4):
            clock.now_s += 50.0
            await anyio.sleep(0.1)
            drain.wake()
        assert (uplink.tries, drain.trouble) == (1, "")


# -- sizes -----------------------------------------------------------------------------


async def test_what_a_link_does_not_take_is_never_sent_and_blocks_nothing(caplog):
    large = Parcel((EPOCH, 1), "level", bytes(500))
    spool, link = Spool(large, parcel(2), parcel(3)), Link(limit=100)
    clock = Clock()
    async with draining(drain_of(spool, Uplink(link), clock=clock)) as drain:
        await eventually(lambda: not spool.rows)
        assert (link.sent, spool.shrunk) == ([2, 3], [(1, 100)])
        assert drain.told.startswith("too_large: a level of 500 bytes is more than the 100")
        clock.now_s = SIZE_S
        await eventually(lambda: drain.told == "")


async def test_a_disk_that_takes_neither_parts_nor_the_word_keeps_it_waiting(caplog):
    spool = Spool(Parcel((EPOCH, 1), "level", bytes(500)), parcel(2))
    spool.fails = True
    link = Link(limit=100, answer=lambda *_: None)
    async with draining(drain_of(spool, Uplink(link))):
        await eventually(lambda: link.sent == [2])
        await anyio.sleep(0.2)
    assert sum("it waits" in one.getMessage() for one in caplog.records) == 1
    assert len(spool.rows) == 2


@pytest.mark.parametrize(
    ("said", "shrunk"),
    [
        (TooLarge(size_bytes=400, limit_bytes=300), (2, 300)),
        (TooLarge(size_bytes=None, limit_bytes=None), (3, 250)),
        (TooLarge(size_bytes=777, limit_bytes=100), (3, 100)),
        # A limit above what it has is none that helps: the parts have to be smaller.
        (TooLarge(size_bytes=400, limit_bytes=4000), (2, 399)),
    ],
)
async def test_the_offender_is_found_and_the_rest_goes(said, shrunk):
    sizes = {1: 50, 2: 400, 3: 500}
    spool = Spool(*(Parcel((EPOCH, n), "level", bytes(size)) for n, size in sizes.items()))
    refusal = UplinkDown("larger than max", Trouble.TOO_LARGE, too_large=said)

    def refuse(link, one):
        if one.key[1] == 3:
            link.say(refusal)

    uplink, clock = Uplink(Link(answer=refuse), Link()), Clock()
    async with draining(drain_of(spool, uplink, clock=clock)):
        await eventually(lambda: not spool.rows)
    assert spool.shrunk == [shrunk]
    assert clock.slept == [0.75]


# -- acks ------------------------------------------------------------------------------


async def test_what_the_collector_refuses_is_set_aside_with_its_words(caplog):
    spool = Spool(parcel(1), parcel(2))

    def answer(link, one):
        status = AckStatus.REJECTED if one.key[1] == 1 else AckStatus.STORED
        link.say(ack(one.key[1], status=status, reason="size"))

    async with draining(drain_of(spool, Uplink(Link(answer=answer)))):
        await eventually(lambda: not spool.rows)
    assert spool.rejected == [(1, "size")]


async def test_a_disk_that_does_not_delete_is_left_in_peace_for_a_while(monkeypatch, caplog):
    monkeypatch.setattr(conversation, "SPOOL_PAUSE_S", 0.05)
    spool, link, clock = Spool(parcel(1)), Link(), Clock()
    spool.fails = True
    async with draining(drain_of(spool, Uplink(link), clock=clock)):
        await eventually(lambda: len(link.sent) >= 2)
        await anyio.sleep(0.3)
        # Each pause ends with one more try, and not with as many as the processor can.
        assert len(link.sent) <= 12
        spool.fails = None
        await eventually(lambda: not spool.rows)


async def test_what_cannot_be_looked_for_again_is_not_told_as_gone(caplog):
    spool, told = Spool(parcel(1)), []
    link = Link(answer=lambda link, one: link.say(ack(one.key[1], 40, status=AckStatus.RESEND)))

    async def tell(event):
        told.append(event)

    drain = drain_of(spool, Uplink(link))
    drain.tell = tell
    spool.fails = True
    async with draining(drain):
        await eventually(
            lambda: any("asked for again" in one.getMessage() for one in caplog.records)
        )
        assert told == []
        spool.fails = None
        await eventually(lambda: told)
    assert told[0].attributes["ranges"] == "40"
