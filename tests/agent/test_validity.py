"""Each flag against a planted fault: under its threshold, at the smallest to be caught, and far
above it."""

from __future__ import annotations

import dataclasses
import random

import pytest

from edgesweep.metrics import REGISTRY
from edgesweep.records import Flag, LevelStatus, Sample
from edgesweep_agent.core.evidence import ClientEvidence, EngineEvidence, Evidence, HostEvidence
from edgesweep_agent.core.steadiness import drift
from edgesweep_agent.core.validity import CAVEATS, Expectations, LevelFacts, flags, judged

MIB = 1 << 20
QUIET = Evidence(
    HostEvidence(
        span_s=20.0, cores=2, engine_cpu_s=20.0, agent_cpu_s=0.5, foreign_cpu_s=0.2,
        stolen_cpu_s=0.1, swap_in_bytes=0, swap_out_bytes=0, refault_bytes=0, oom_kills=0,
        stalled_share=0.0, throttled_share=0.0, throttled_by="throttle_oc3_time",
        available_min_bytes=900 * MIB, reserve_bytes=500 * MIB, caps_changed="", clock_step_s=1e-4,
    ),
    EngineEvidence(
        running_before=0, waiting_before=0, running_peak=4, waiting_peak=0, preemptions=0,
        cached_tokens=0, restarted="", jit_lines=(),
    ),
    ClientEvidence(
        cpu_s=0.4, lag_p99_s=0.001, lag_max_s=0.03, realtime=True, icl_p50_s=0.02, ttft_p50_s=0.4,
    ),
)  # fmt: skip
"""A level at which everything was seen, and nothing was wrong."""


def sample(index=0, cached=0, prompt=512, *, ok=True):
    return Sample(4, index, ok=ok, prompt_tokens=prompt, cached_tokens=cached, output_tokens=32)


LEVEL = LevelFacts(
    concurrency=4, in_flight=4, requests=104, samples=[sample(n) for n in range(100)],
    blocks=[50.0, 51.0] * 5,
)  # fmt: skip
NORMAL = Expectations(template_tokens=30, slots=4, weights_bytes=4000 * MIB)


def seen(part, **changes):
    changed = dataclasses.replace(getattr(QUIET, part), **changes)
    return dataclasses.replace(QUIET, **{part: changed})


def names(level=LEVEL, evidence=QUIET, expected=NORMAL):
    return [flag.name for flag in flags(level, evidence, expected)]


def test_a_clean_level_carries_no_flag():
    assert names() == []


def test_nothing_is_concluded_from_what_was_not_seen():
    level = dataclasses.replace(LEVEL, blocks=())
    assert names(level, Evidence(), Expectations()) == []


HOST = [
    ("dirty_start", "engine", "running_before", [0], 1, 30),
    ("dirty_start", "engine", "waiting_before", [0], 1, 30),
    ("engine_restarted", "engine", "restarted", ["", None], "its process 7 is gone", "x"),
    ("preempted", "engine", "preemptions", [0, None], 1, 500),
    ("memory_floor", "host", "available_min_bytes", [500 * MIB], 500 * MIB - 1, 0),
    # 20 s: 5 MiB are 256 KiB a second.
    ("swapping", "host", "swap_in_bytes", [4096, 5 * MIB], 5 * MIB + 4096, 4096 * MIB),
    ("refault", "host", "refault_bytes", [16 * MIB, 200 * MIB], 200 * MIB + 4096, 40_000 * MIB),
    ("refault", "host", "stalled_share", [0.01, 0.05], 0.051, 0.9),
    ("oom", "host", "oom_kills", [0], 1, 3),
    ("throttled", "host", "throttled_share", [0.009, 0.02], 0.021, 1.0),
    ("throttled", "host", "caps_changed", ["", None], "cpu6@1497 -> cpu6@1113", "a -> b"),
    ("client_limited", "client", "lag_p99_s", [0.0, 0.01], 0.0101, 1.0),
    ("jit_compiled", "engine", "jit_lines", [(), None], ("JIT",), ("JIT",) * 9),
    ("clock_stepped", "host", "clock_step_s", [0.03, -0.1], 0.101, 3600.0),
    ("clock_stepped", "host", "clock_step_s", [0.0, 0.1], -0.101, -1e9),
    # 20 s, with 0.1 s stolen: 1.9 s are a tenth of a core.
    ("foreign_load", "host", "foreign_cpu_s", [0.0, 1.89], 1.92, 38.0),
    ("foreign_load", "host", "stolen_cpu_s", [0.0, 1.79], 1.82, 38.0),
    ("foreign_load", "engine", "running_peak", [1, 4, None], 5, 40),
]


@pytest.mark.parametrize(("flag", "part", "field", "clean", "smallest", "large"), HOST)
def test_a_planted_fault_is_caught_from_its_smallest_strength_on(
    flag, part, field, clean, smallest, large
):
    for value in clean:
        assert names(evidence=seen(part, **{field: value})) == [], value
    for value in (smallest, large):
        assert names(evidence=seen(part, **{field: value})) == [flag], value


@pytest.mark.parametrize(
    ("span_s", "foreign_s", "flagged"),
    [(0.5, 0.15, False), (0.5, 0.2, True), (2.0, 0.19, False), (2.0, 0.21, True),
     (600.0, 50.0, False), (600.0, 61.0, True)],
)  # fmt: skip
def test_foreign_load_needs_a_share_and_an_amount(span_s, foreign_s, flagged):
    evidence = seen("host", span_s=span_s, foreign_cpu_s=foreign_s, stolen_cpu_s=0.0)
    assert names(evidence=evidence) == ["foreign_load"] * flagged


def test_foreign_load_names_who_it_was():
    host = {"foreign_cpu_s": 30.0, "stolen_cpu_s": 9.0, "foreign_names": ("apt 22.0 s",)}
    (flag,) = flags(LEVEL, seen("host", **host), NORMAL)
    assert flag.value == pytest.approx(1.95)
    assert "apt 22.0 s, the hypervisor 9.0 s" in flag.detail


@pytest.mark.parametrize(
    ("span_s", "swapped", "flagged"),
    [(1.0, 4 * MIB - 4096, False), (1.0, 4 * MIB, True), (600.0, 140 * MIB, False),
     (600.0, 160 * MIB, True)],
)  # fmt: skip
def test_a_waking_daemon_is_no_swapping(span_s, swapped, flagged):
    evidence = seen(
        "host", span_s=span_s, swap_in_bytes=swapped, foreign_cpu_s=0.0, stolen_cpu_s=0.0
    )
    assert names(evidence=evidence) == ["swapping"] * flagged


@pytest.mark.parametrize(
    ("weights", "refault", "flagged"),
    [(98 * MIB, 16 * MIB, False), (98 * MIB, 17 * MIB, True), (4000 * MIB, 190 * MIB, False),
     (4000 * MIB, 210 * MIB, True), (None, 64 * MIB, False), (None, 65 * MIB, True)],
)  # fmt: skip
def test_refaults_count_against_the_weights(weights, refault, flagged):
    expected = dataclasses.replace(NORMAL, weights_bytes=weights)
    assert names(evidence=seen("host", refault_bytes=refault), expected=expected) == (
        ["refault"] * flagged
    )


def test_a_stall_of_a_short_level_needs_a_tenth_of_a_second():
    quick = {"span_s": 1.0, "foreign_cpu_s": 0.0, "stolen_cpu_s": 0.0}
    assert names(evidence=seen("host", stalled_share=0.09, **quick)) == []
    assert names(evidence=seen("host", stalled_share=0.11, **quick)) == ["refault"]


@pytest.mark.parametrize(
    ("lag_s", "icl_s", "ttft_s", "flagged"),
    [
        (0.008, 0.025, 0.4, False),  # shared cores, a slow engine: nothing of it shows
        (0.008, 0.015, 0.4, True),
        (0.008, 0.025, 0.07, True),
        (0.002, 0.0005, 0.004, False),  # a scheduler's slice, no fault
        (0.0021, 0.0005, 0.004, True),
        (0.008, None, 0.07, True),
        (0.008, 0.015, None, True),
        (5.0, None, None, False),
        (None, 0.025, 0.4, False),
    ],
)
def test_the_clients_delay_counts_against_what_it_measures(lag_s, icl_s, ttft_s, flagged):
    evidence = seen("client", lag_p99_s=lag_s, icl_p50_s=icl_s, ttft_p50_s=ttft_s, cpu_s=19.9)
    assert names(evidence=evidence) == ["client_limited"] * flagged


@pytest.mark.parametrize(("realtime", "said"), [(True, False), (False, True), (None, True)])
def test_a_limited_client_says_what_would_help(realtime, said):
    (flag,) = flags(LEVEL, seen("client", lag_p99_s=1.0, realtime=realtime), NORMAL)
    assert ("LimitRTPRIO" in flag.detail) is said


def cached(*taken, prompt=512, n=100):
    samples = [sample(i, 0, prompt) for i in range(n - len(taken))]
    return dataclasses.replace(LEVEL, samples=[*samples, *(sample(n, t, prompt) for t in taken)])


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (cached(*[30] * 100), []),  # the template alone, in each
        (cached(*[46] * 100), []),
        (cached(511), []),  # one in a hundred
        (cached(511, 511), ["cache_contaminated"]),
        (cached(*[47] * 100), []),  # 17 of 512
        (cached(*[56] * 2), ["cache_contaminated"]),  # 26 of 512 beyond the template
        (cached(*[511] * 100), ["cache_contaminated"]),
        (cached(48, prompt=64, n=11), ["cache_contaminated"]),  # whole blocks of a short prompt
        (cached(230, prompt=4096, n=11), []),
        (cached(240, prompt=4096, n=11), ["cache_contaminated"]),
    ],
)
def test_requests_that_took_from_a_cache_are_counted(level, expected):
    assert names(level) == expected


def test_an_engine_that_leaves_zero_out_is_believed():
    level = dataclasses.replace(LEVEL, samples=[sample(0), *[sample(n, None) for n in range(99)]])
    assert names(level) == []


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (0, []),
        (104 * 46, []),
        (104 * 46 + 532, []),  # a hundredth of 53,248 tokens
        (104 * 46 + 534, ["cache_contaminated"]),
        (53_000, ["cache_contaminated"]),
        (None, ["cache_unproven"]),
    ],
)
def test_the_engines_counters_stand_in_for_silent_answers(counted, expected):
    level = dataclasses.replace(LEVEL, samples=[sample(n, None) for n in range(100)])
    assert names(level, seen("engine", cached_tokens=counted)) == expected


def test_a_cache_that_the_agent_turned_off_needs_no_proof():
    level = dataclasses.replace(LEVEL, samples=[sample(n, None) for n in range(100)])
    expected = dataclasses.replace(NORMAL, cache_off=True)
    assert names(level, seen("engine", cached_tokens=None), expected) == []


def test_a_workload_that_shares_its_prompts_may_use_a_cache():
    expected = dataclasses.replace(NORMAL, shares_prompts=True)
    assert names(cached(*[400] * 100), expected=expected) == []


@pytest.mark.parametrize(
    ("concurrency", "slots", "told", "waiting", "flagged"),
    [
        (4, 4, None, None, False),
        (5, 4, None, None, True),
        (64, 4, None, None, True),
        (4, None, None, 4, False),
        (5, None, 4, None, True),
        (5, None, None, 4, False),  # nobody knows the cap
        (4, 4, None, 3, False),  # they waited for their prefill, not for a slot
        (4, 4, None, 4, True),
    ],
)
def test_a_level_above_the_slots_is_queued(concurrency, slots, told, waiting, flagged):
    level = dataclasses.replace(LEVEL, concurrency=concurrency, in_flight=max(4, concurrency))
    peak = 0 if waiting is None else 1
    evidence = seen("engine", slots=told, running_while_waiting=waiting, waiting_peak=peak)
    expected = dataclasses.replace(NORMAL, slots=slots)
    assert names(level, evidence, expected) == ["queued"] * flagged


def test_an_open_loop_may_queue():
    evidence = seen("engine", running_while_waiting=4, waiting_peak=9)
    assert names(evidence=evidence, expected=dataclasses.replace(NORMAL, may_queue=True)) == []


def falling(change, noise=0.0, seed=1):
    jitter = random.Random(seed)
    return [50 * (1 - change * n / 9) + jitter.gauss(0, noise) for n in range(10)]


@pytest.mark.parametrize(
    ("blocks", "flagged"),
    [
        (falling(0.09), False),
        (falling(0.12), True),
        (falling(-0.12), True),
        (falling(0.5, noise=2.0), True),
        (falling(0.12, noise=10.0), False),
        ([505, 534, 526, 210, 203, 197, 197, 199, 195, 205], True),  # a throttle sets in
        ([333, 340, 353, 345, 351, 339, 342, 348, 759, 776], True),
        ([100, 101, 99, 100, 101, 113, 112, 114, 113, 112], True),  # the smallest step
        ([100, 104, 97, 101, 95, 112, 118, 109, 104, 111], False),
        ([100, 130, 90, 140, 85, 125, 95, 135, 88, 128], False),
        ([50.0] * 10, False),
        ([], False),
        ([0.0] * 10, False),
        ([60.0, 40.0, 20.0], False),
    ],
)
def test_a_level_that_slows_steadily_has_drifted(blocks, flagged):
    assert names(dataclasses.replace(LEVEL, blocks=blocks)) == ["drifted"] * flagged


def test_noise_without_a_slope_hardly_ever_drifts():
    found = [drift(falling(0.0, noise=20.0, seed=seed)) for seed in range(2000)]
    assert sum(abs(line.t) > 6 for line in found) <= 4


@pytest.mark.parametrize(
    ("status", "reason", "flag", "soaked", "expected"),
    [
        (LevelStatus.VALID, "", None, False, (LevelStatus.VALID, "")),
        (LevelStatus.VALID, "", "drifted", False, (LevelStatus.VALID, "")),
        (LevelStatus.VALID, "", "cache_unproven", False, (LevelStatus.VALID, "")),
        (LevelStatus.VALID, "", "throttled", False, (LevelStatus.FLAGGED, "")),
        (LevelStatus.VALID, "", "throttled", True, (LevelStatus.VALID, "")),
        (LevelStatus.VALID, "", "swapping", True, (LevelStatus.FLAGGED, "")),
        (LevelStatus.VALID, "", "queued", False, (LevelStatus.FLAGGED, "slot_limit")),
        (LevelStatus.FLAGGED, "", "queued", False, (LevelStatus.FLAGGED, "slot_limit")),
        (LevelStatus.FLAGGED, "", None, False, (LevelStatus.FLAGGED, "")),
        (LevelStatus.FAILED, "engine_exited", "oom", False, (LevelStatus.FAILED, "oom")),
        (LevelStatus.FAILED, "interrupted", "queued", False, (LevelStatus.FAILED, "interrupted")),
        (LevelStatus.SKIPPED, "time_budget", "oom", False, (LevelStatus.SKIPPED, "time_budget")),
    ],
)
def test_flags_decide_what_becomes_of_a_level(status, reason, flag, soaked, expected):
    found = [] if flag is None else [Flag(flag)]
    assert judged(status, reason, found, soaked=soaked) == expected


def test_every_flag_carries_its_threshold_or_says_what_was_seen():
    for flag, part, field, _, smallest, _ in HOST:
        (found,) = flags(LEVEL, seen(part, **{field: smallest}), NORMAL)
        assert found.name == flag
        assert found.detail
        assert (found.value is None) is (found.threshold is None)
    assert {"cache_unproven", "drifted"} == CAVEATS


def test_figures_go_into_the_level_under_registered_names():
    told = QUIET.values()
    assert set(told) <= set(REGISTRY)
    assert told["foreign_cpu_share"] == pytest.approx(0.005)
    assert told["client_cpu_share"] == pytest.approx(0.02)
    assert told["swap_in_bytes"] == 0
    assert Evidence().values() == {}
