"""How a sweep ends and what it says: exit codes, failures, levels without figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wire
from edgesweep.records import LevelStatus, RunState, Sample
from edgesweep_agent.cli.ending import exit_code, remarks
from edgesweep_agent.cli.failures import failures
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.sweep.run import Outcome

S = 1_000_000_000


def level(concurrency=1, status=LevelStatus.VALID, reason="", **fields):
    found = wire.level(concurrency, flags=())
    contender = replace(found.contender, name="m")
    return replace(found, contender=contender, status=status, reason=reason, **fields)


def skipped(concurrency, **attributes):
    return level(concurrency, LevelStatus.SKIPPED, "time_budget", attributes=attributes, n_ok=0)


def outcome(*levels, errors=()):
    return Outcome(wire.run(state=RunState.COMPLETE), levels, errors)


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        ([level(1)], 0),
        ([level(1), skipped(2)], 0),
        # The budget reached none of them: nothing failed.
        ([skipped(1), skipped(2)], 0),
        ([level(1, LevelStatus.SKIPPED, "memory")], 0),
        ([level(1, LevelStatus.SKIPPED, "memory"), skipped(2)], 0),
        ([level(1), level(2, LevelStatus.FAILED, "timeout")], 1),
        ([skipped(1), level(2, LevelStatus.SKIPPED, "lower_level_failed")], 1),
    ],
)
def test_what_the_budget_did_not_reach_is_no_failure(levels, code):
    assert exit_code(outcome(*levels)) == code


def test_an_error_of_a_contender_is_its_own_code():
    assert exit_code(outcome(level(1), errors=(SettingsError("no"),))) == 78


def test_where_a_level_was_measured_the_last_one_says_what_all_need():
    told = remarks(
        [
            level(1),
            skipped(2, time_budget="needs about 1 min more: --budget 4m"),
            skipped(4, time_budget="needs about 5 min more: --budget 8m"),
        ]
    )
    assert told == [
        "not measured within the budget: level 2, 4; needs about 5 min more: --budget 8m"
    ]


def test_where_none_was_the_first_one_says_the_least_that_gives_a_figure():
    first = skipped(
        1,
        time_budget="needs about 14 min more: --budget 18m",
        time_budget_fits="--requests 3 --output-tokens 8",
    )
    (told,) = remarks([first, skipped(2, time_budget="needs about 40 min more: --budget 1h")])
    assert told == (
        "not measured within the budget: level 1, 2; level 1 needs about 14 min more: --budget "
        "18m; or --requests 3 --output-tokens 8 goes into this one"
    )


def test_a_budget_that_was_spent_on_silence_says_so():
    (told,) = remarks([skipped(1, silence_s="12")])
    assert remarks([level(1), skipped(2, silence_s="12")])[0].endswith(told.partition("; ")[2])
    assert "no byte came for the last 12 s; look at the server's log, or raise --budget" in told


def sample(index, reason="", detail="", end_s=1):
    return Sample(2, index, ok=not reason, reason=reason, detail=detail, t_end_ns=end_s * S)


OUT_OF_LUCK = '{"error":{"message":"out of luck"}}'


def test_every_reason_is_told_with_a_count_and_the_counts_are_the_tables():
    failed = level(2, n_ok=3, n_failed=8, failed_by={"http_500": 4, "http_429": 3, "timeout": 1})
    samples = [sample(0, "http_500", OUT_OF_LUCK), sample(1, "http_429", "slow down")]
    (told,) = failures(failed, samples)
    assert told == (
        "m, level 2: 8 of 11 requests failed: 4 http_500 (out of luck), 3 http_429 (slow down), "
        "1 timeout"
    )


REFUSED = ("connection_refused", "127.0.0.1:8080: Connection refused")


def test_a_server_that_is_gone_is_told_from_when_on():
    failed = level(2, n_ok=1, n_failed=3, started_mono_ns=10 * S,
                   failed_by={"connection_refused": 2, "connection_reset": 1})  # fmt: skip
    samples = [
        sample(3, *REFUSED, end_s=15),
        sample(0, end_s=12),
        sample(1, "connection_reset", end_s=13),
        sample(2, *REFUSED, end_s=14),
    ]
    counts, gone = failures(failed, samples)
    assert counts.startswith("m, level 2: 3 of 4 requests failed: 2 connection_refused (127")
    assert gone == (
        "m, level 2: the server is gone: connections were refused from 4 s into the level on; "
        "look at its log, and start it again"
    )


@pytest.mark.parametrize(
    "samples",
    [
        # It came back.
        [sample(0, *REFUSED), sample(1, end_s=2)],
        # No connection for another reason.
        [sample(0, "connection_refused", "h:1: Name or service not known")],
    ],
)
def test_a_server_that_is_not_gone_is_not_said_to_be(samples):
    failed = level(1, n_ok=1, n_failed=1, failed_by={"connection_refused": 1})
    assert len(failures(failed, samples)) == 1


def test_a_server_that_hangs_is_told_with_for_how_long():
    hung = level(1, LevelStatus.FAILED, "timeout", n_ok=0, attributes={"silence_s": "108"})
    (told,) = failures(hung, [])
    assert told.startswith("m, level 1: the server hangs: no byte came for 108 s, though")
    assert failures(skipped(1, silence_s="12"), []) == []
