"""Which numbers are missing: the ranges against the plain set, and what is made of them."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire
from edgesweep import events
from edgesweep.events import Dropped
from edgesweep.records import Event
from edgesweep_collector.archive.rows import Ask, EpochGaps
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.core.gaps import Span, merge, missing, to_ask
from programs import invoke

RANGE = st.tuples(st.integers(1, 60), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1]))
ARRIVALS = st.lists(st.lists(RANGE, min_size=1, max_size=4), max_size=12)
S = 10**9
START = wire.MADE_NS


def near_of(spans, new):
    """What the archive reads for a merge."""
    low, high = min(a for a, _ in new), max(b for _, b in new)
    first = max((s.first for s in spans if s.first <= low), default=low)
    last = min((s.first for s in spans if s.first > high), default=high)
    return [s for s in spans if first <= s.first <= last]


@given(ARRIVALS)
def test_the_ranges_say_what_the_plain_set_says(arrivals):
    spans, seen, since = [], set(), {}
    for now, new in enumerate(arrivals, start=1):
        merged = merge(near_of(spans, new), new, now)
        kept = {s.first: s for s in spans if s.first not in merged.deleted}
        kept |= {s.first: s for s in merged.written}
        spans = sorted(kept.values(), key=lambda s: s.first)
        seen |= {n for a, b in new for n in range(a, b + 1)}
        lacking = set(range(1, max(seen))) - seen
        since = {n: since.get(n, now) for n in lacking}
        found = {n: gap.since_ns for gap in missing(spans) for n in range(gap.first, gap.last + 1)}
        assert found.keys() == lacking
        assert all(found[n] == since[n] for n in lacking)
        assert all(a.last + 1 < b.first for a, b in pairwise(spans))


@given(st.lists(RANGE, max_size=8), st.lists(RANGE, max_size=8))
def test_what_was_asked_lately_is_not_asked_again(gaps, asked):
    lately = {n for a, b in asked for n in range(a, b + 1)}
    wanted = {n for a, b in gaps for n in range(a, b + 1)} - lately
    found = to_ask([Span(a, b, 0) for a, b in gaps], asked, 1000)
    assert {n for a, b in found for n in range(a, b + 1)} == wanted
    assert to_ask([Span(1, 3, 0), Span(9, 9, 0)], [], 1) == ((1, 3),)


def came(seq, at=START, record=None, **fields):
    return wire.received(record or Event("a", "b"), seq, received_ns=at, **fields)


def gaps_of(archive):
    return [
        ([(s.first, s.last) for s in one.missing], dict(one.reconciled)) for one in archive.gaps()
    ]


def test_the_archive_says_what_the_plain_set_says(either_archive):
    """Forty devices with histories drawn at random."""
    drawn = random.Random(4)
    seen = {f"n97-{n:02}": set() for n in range(40)}
    for _ in range(12):
        group = []
        for device_id, seqs in seen.items():
            for seq in drawn.sample(range(1, 40), drawn.randint(0, 5)):
                group.append(came(seq, device_id=device_id))
                seqs.add(seq)
        drawn.shuffle(group)
        either_archive.append(group)
    lacking = {d: set(range(1, max(seqs))) - seqs for d, seqs in seen.items()}
    found = {
        one.device_id: {n for s in one.missing for n in range(s.first, s.last + 1)}
        for one in either_archive.gaps()
    }
    assert found == {device_id: seqs for device_id, seqs in lacking.items() if seqs}
    counts = {device_id: len(seqs) for device_id, seqs in lacking.items() if seqs}
    assert either_archive.missing() == counts


def test_gaps_are_known_for_each_spool_and_close_again(either_archive):
    archive = either_archive
    archive.append([came(2, START), came(5, START), came(1, START, epoch=7)])
    archive.append([came(9, START + 60 * S), came(3, START + 60 * S, device_id="n97-02")])
    (one, other) = archive.gaps()
    assert one == EpochGaps(
        "n97-01",
        wire.EPOCH,
        (Span(1, 1, START), Span(3, 4, START), Span(6, 8, START + 60 * S)),
        {},
    )
    assert (other.device_id, other.n_missing) == ("n97-02", 2)
    assert archive.missing() == {"n97-01": 6, "n97-02": 2}
    archive.append([came(seq, START + 90 * S) for seq in (1, 3, 4, 6, 7)])
    assert gaps_of(archive)[0] == ([(8, 8)], {})
    # Known since it was seen, not since the numbers around it came.
    assert archive.gaps()[0].missing[0].since_ns == START + 60 * S
    archive.append([came(8)])
    assert [one.device_id for one in archive.gaps()] == ["n97-02"]


def test_what_a_device_dropped_is_no_gap_and_is_told_apart(either_archive):
    archive = either_archive
    full = events.records_dropped(Dropped(wire.EPOCH, ((2, 4), (6, 6)), {"telemetry": 4}, "full"))
    split = events.records_dropped(Dropped(wire.EPOCH, ((8, 8),), {}, "split"))
    unnumbered = events.records_dropped(Dropped(wire.EPOCH, (), {"telemetry": 5}, "full"))
    archive.append([came(1), came(5), came(7, record=full), came(9, record=split)])
    archive.append([came(12, record=unnumbered), came(10)])
    assert gaps_of(archive) == [([(11, 11)], {"full": 9, "split": 1})]
    answer = events.resend_unavailable(wire.EPOCH, ((11, 11),))
    archive.append([came(13, record=answer)])
    assert gaps_of(archive) == [([], {"full": 9, "split": 1, "unavailable": 1})]
    assert archive.missing() == {}
    archive.rebuild()
    assert gaps_of(archive) == [([], {"full": 9, "split": 1, "unavailable": 1})]


def test_the_spool_that_was_set_aside_is_accounted_for_in_its_own_numbers(either_archive):
    archive = either_archive
    lost = events.records_dropped(Dropped(wire.EPOCH, ((3, 20),), {}, "damaged"))
    archive.append([came(1), came(2), came(1, epoch=99, record=lost)])
    assert gaps_of(archive) == [([], {"damaged": 18})]


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"epoch": "zz", "ranges": "1"},
        {"epoch": "1", "ranges": "5-4"},
        {"epoch": "1", "ranges": "0"},
        {"epoch": "-1", "ranges": "1"},
        {"epoch": "f" * 17, "ranges": "1"},
        {"epoch": "1", "ranges": "1", "n_level": "x"},
    ],
)
def test_an_event_that_accounts_for_nothing_is_kept_with_the_reason(either_archive, attributes):
    archive = either_archive
    bad = Event(events.RECORDS_DROPPED, "", attributes)
    archive.append([came(1, record=bad), came(2)])
    assert archive.gaps() == []
    with archive._read() as connection:
        (row,) = connection.exec_driver_sql("SELECT error FROM envelopes WHERE NOT decoded").all()
    assert "records_dropped" in row[0]


def test_an_event_of_very_many_ranges_is_one_event(either_archive):
    archive = either_archive
    ranges = tuple((n, n) for n in range(2, 20_000, 2))
    archive.append([came(1, record=events.records_dropped(Dropped(5, ranges, {}, "full")))])
    (told,) = archive.gaps()
    assert (told.epoch, told.n_missing, told.reconciled) == (5, 9999, {"full": 9999})


def test_a_range_is_asked_for_after_a_while_and_not_too_often(either_archive):
    archive = either_archive
    archive.append([came(1), came(5), came(9, device_id="n97-02")])
    everyone = {"n97-01", "n97-02"}
    assert archive.gaps_to_ask(everyone, START + 119 * S) == []
    assert archive.gaps_to_ask({"n97-09"}, START + 120 * S) == []
    asked = archive.gaps_to_ask({"n97-01"}, START + 120 * S)
    assert asked == [Ask("n97-01", wire.EPOCH, ((2, 4),))]
    assert archive.gaps_to_ask(everyone, START + 121 * S) == [Ask("n97-02", wire.EPOCH, ((1, 8),))]
    archive.append([came(3, START + 200 * S), came(8, START + 300 * S)])
    assert archive.gaps_to_ask({"n97-01"}, START + 600 * S) == [
        Ask("n97-01", wire.EPOCH, ((6, 7),))
    ]
    assert archive.gaps_to_ask({"n97-01"}, START + 721 * S) == [
        Ask("n97-01", wire.EPOCH, ((2, 2), (4, 4)))
    ]
    answer = events.resend_unavailable(wire.EPOCH, ((2, 2), (4, 7)))
    archive.append([came(10, START + 800 * S, record=answer)])
    assert archive.gaps_to_ask({"n97-01"}, START + 9999 * S) == [
        Ask("n97-01", wire.EPOCH, ((9, 9),))
    ]


def test_a_hole_of_any_size_is_one_range(either_archive):
    archive = either_archive
    archive.append([came(1), came(2**63 - 1)])
    assert archive.gaps()[0].n_missing == 2**63 - 3
    assert archive.gaps_to_ask({"n97-01"}, START + 120 * S)[0].ranges == ((2, 2**63 - 2),)


def test_the_command_shows_them(either_archive, database_url, tmp_path):
    dropped = events.records_dropped(Dropped(wire.EPOCH, ((2, 4),), {}, "full"))
    either_archive.append([came(1), came(7), came(9, record=dropped)])
    config = tmp_path / "collector.toml"
    config.write_text(f'[archive]\nurl = "{database_url}"\n')
    command = ["devices", "--config", str(config), "--gaps"]
    shown = invoke(PROGRAM.run, command, env={"COLUMNS": "160"})
    assert "5-6,8" in shown.stdout
    assert "3 full" in shown.stdout
    done = invoke(PROGRAM.run, [*command, "--json"])
    (found,) = json.loads(done.stdout)["gaps"]
    assert found == {
        "device_id": "n97-01",
        "epoch": f"{wire.EPOCH:016x}",
        "n_missing": 3,
        "missing": [
            {"first": 5, "last": 6, "n": 2, "since_ns": START},
            {"first": 8, "last": 8, "n": 1, "since_ns": START},
        ],
        "reconciled": {"full": 3},
    }
