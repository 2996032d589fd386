from __future__ import annotations

import pytest

from edgesweep.records import (
    Contender,
    Device,
    Distribution,
    LevelResult,
    LevelStatus,
    Workload,
)
from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.pairing import PairingError, pair, problem, value

A = Contender("Q4", "llama.cpp", model="q4")
B = Contender("F16", "llama.cpp", model="f16")
C = Contender("vLLM", "vllm", model="f16")


def level(contender, concurrency, tok_s, *, device="d1", session=1, status="valid", **more):
    values = {} if tok_s is None else {"output_tokens_per_s": tok_s}
    fields = {
        "run_id": "r1",
        "device": Device(device, "class-1", more.pop("state", "")),
        "contender": contender,
        "session": session,
        "workload": Workload(more.pop("workload", "w"), more.pop("tokens", 64), 32),
        "concurrency": concurrency,
        "status": LevelStatus(status),
        "started_wall_ns": 1,
        "started_mono_ns": 1,
        "n_ok": 11 if tok_s else 0,
        "values": values,
    }
    return LevelResult(**(fields | more))


def curves(levels, **options):
    asked = problem(pair(levels), "output_tokens_per_s", **options)
    return {unit.name: (dict(unit.a), dict(unit.b)) for unit in asked.units}


PLAIN = [level(A, 1, 40.0), level(A, 2, 60.0), level(B, 1, 20.0), level(B, 2, 80.0)]


def test_two_contenders_in_the_order_in_which_they_ran():
    found = pair(PLAIN)
    assert (found.a, found.b) == (A, B)
    assert curves(PLAIN) == {"d1": ({1: (40.0,), 2: (60.0,)}, {1: (20.0,), 2: (80.0,)})}
    answer = estimate(problem(found, "output_tokens_per_s"))
    assert answer.verdict.name == "CROSSOVER_A_TO_B"


def test_the_two_may_be_named_by_name_or_id():
    levels = [*PLAIN, level(C, 1, 9.0)]
    assert pair(levels, ("vLLM", "Q4")).a == C
    assert pair(levels, (B.id[:12], "vLLM")).a == B


@pytest.mark.parametrize(
    ("levels", "names", "says"),
    [
        ([], None, "measured were: none"),
        ([level(A, 1, 1.0)], None, "measured were: Q4"),
        ([*PLAIN, level(C, 1, 1.0)], None, "measured were: Q4, F16, vLLM"),
        (PLAIN, ("Q4", "Q8"), "'Q8' names 0 contenders"),
        (PLAIN, ("Q4", "Q4"), "two contenders"),
        ([*PLAIN, level(A, 4, 1.0, workload="other")], None, "different cells"),
        ([*PLAIN, level(A, 4, 1.0, state="15w")], None, "class-1 / 15w / w"),
        ([*PLAIN, level(A, 4, 1.0, tokens=9)], None, "9 in, 32 out"),
    ],
)
def test_what_cannot_be_compared_says_what_there_is(levels, names, says):
    with pytest.raises(PairingError, match=says):
        pair(levels, names)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("flagged", "", {1: (40.0,), 2: None}),
        ("failed", "errors", {1: (40.0,), 2: None}),
        ("skipped", "memory", {1: (40.0,), 2: None}),
        ("skipped", "time_budget", {1: (40.0,)}),
        ("skipped", "interrupted", {1: (40.0,)}),
    ],
)
def test_only_valid_levels_enter_a_curve(status, reason, expected):
    levels = [level(A, 1, 40.0), level(A, 2, 60.0, status=status, reason=reason), *PLAIN[2:]]
    assert curves(levels)["d1"][0] == expected


def test_memory_makes_a_limit():
    levels = [*PLAIN[:2], level(B, 1, 50.0), level(B, 2, None, status="failed", reason="oom")]
    asked = problem(pair(levels), "output_tokens_per_s")
    assert asked.limit_a is None
    assert (asked.limit_b.last_ok, asked.limit_b.first_failed) == (1, 2)


def test_devices_are_the_units_and_sessions_are_those_of_one_device():
    by_device = [level(x.contender, x.concurrency, 9.0, device="d2") for x in PLAIN]
    assert problem(pair(PLAIN + by_device), "output_tokens_per_s").unit_kind == "device"
    assert set(curves(PLAIN + by_device)) == {"d1", "d2"}
    again = [level(x.contender, x.concurrency, 9.0, session=2) for x in PLAIN]
    asked = problem(pair(PLAIN + again), "output_tokens_per_s")
    assert (asked.unit_kind, len(asked.units)) == ("session", 2)


def test_a_distribution_is_compared_by_its_median_if_it_has_one():
    few = {"ttft_s": Distribution(3, 0.1, 0.1, 0.1)}
    many = {"ttft_s": Distribution(11, 0.1, 0.1, 0.1, p50=0.09)}
    assert value(level(A, 1, 1.0, distributions=few), "ttft_s") is None
    assert value(level(A, 1, 1.0, distributions=many), "ttft_s") == 0.09
    levels = [level(x, c, 1.0, distributions=d) for x, c, d in [(A, 1, few), (B, 1, many)]]
    asked = problem(pair(levels), "ttft_s")
    assert (dict(asked.units[0].a), dict(asked.units[0].b)) == ({}, {1: (0.09,)})
    assert not asked.higher_is_better


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), 1e300, 0.0, -1.0])
def test_what_was_never_measured_enters_no_curve(figure):
    assert value(level(A, 1, figure), "output_tokens_per_s") is None


def test_contenders_of_one_name_are_told_apart_by_their_ids():
    twin = Contender("Q4", "llama.cpp", model="other")
    levels = [level(A, 1, 1.0), level(twin, 1, 2.0)]
    asked = problem(pair(levels), "output_tokens_per_s")
    assert asked.engine_a == f"Q4 ({A.id[:8]})"
    assert asked.engine_b == f"Q4 ({twin.id[:8]})"


@pytest.mark.parametrize("metric", ["nope", "window_s", "prompt_tokens"])
def test_a_metric_that_nobody_can_lead_on_is_refused(metric):
    with pytest.raises(PairingError, match="there is ttft_s"):
        problem(pair(PLAIN), metric)


def test_a_contender_that_never_came_up_is_none():
    levels = [*PLAIN, level(Contender("dead", "unknown"), 1, None, status="failed")]
    assert pair(levels).b == B
