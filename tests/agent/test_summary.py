from __future__ import annotations

from dataclasses import replace

import pytest

from edgesweep.metrics import REGISTRY
from edgesweep.records import LevelStatus, Sample
from edgesweep_agent.core.arrangement import Arrangement
from edgesweep_agent.core.slo import Slo
from edgesweep_agent.core.summary import summarise
from edgesweep_agent.core.window import peak_in_flight, steady_window, whole_window

S = 1_000_000_000
MS = 1_000_000


def ok(start, end, *, tokens=10, chunks=None, index=0, **fields):
    """A request from ``start`` to ``end`` (seconds), text evenly spaced up to its end."""
    chunks = tokens if chunks is None else chunks
    span = round((end - start) * S)
    text_ns = tuple(span * n // chunks for n in range(1, chunks + 1))
    known = {"ttft_s": text_ns[0] / S, "prompt_tokens": 5, "token_source": "usage", **fields}
    return Sample(
        concurrency=1, index=index, ok=True, t_send_ns=round(start * S), t_end_ns=round(end * S),
        output_tokens=tokens, chunks=chunks, text_ns=text_ns, **known,
    )  # fmt: skip


def failed(start, end, reason="timeout", **fields):
    return Sample(
        concurrency=1, index=0, ok=False, reason=reason, t_send_ns=round(start * S),
        t_end_ns=round(end * S), **fields,
    )  # fmt: skip


def test_more_than_the_bound_is_a_wrong_count_whatever_the_stops():
    samples = [ok(0, 1, tokens=90, index=n) for n in range(3)]
    (flag,) = summarise(
        samples, 1, asked_output_tokens=[None] * 3, most_output_tokens=[80] * 3
    ).flags
    assert (flag.name, flag.value) == ("long_output", 1.0)
    assert not summarise(samples, 1, most_output_tokens=[90] * 3).flags


@pytest.mark.parametrize(("least", "flagged"), [(5.0, []), (5.1, ["short_prompt"]), (0.0, [])])
def test_prompts_that_the_server_cut_are_another_workload(least, flagged):
    samples = [ok(0, 1, index=n) for n in range(3)]
    found = summarise(samples, 1, least_prompt_tokens=least).flags
    assert [flag.name for flag in found] == flagged


def test_case_cmp_01_failures_stay_out_of_the_figures():
    good = [ok(i * 0.1, 1 + i, tokens=100, ttft_s=0.2) for i in range(8)]
    late = [failed(1, 10, ttft_s=9.0, output_tokens=5) for _ in range(2)]
    got = summarise(good + late, 5)
    assert (got.n_ok, got.n_failed, got.failed_by) == (8, 2, {"timeout": 2})
    assert got.values["output_tokens"] == 800
    assert got.values["output_tokens_per_s_gross"] == 80.0
    assert got.values["duration_s"] == 10.0
    assert got.distributions["ttft_s"].mean == pytest.approx(0.2)
    assert (got.status, got.reason) == (LevelStatus.FLAGGED, "")
    (flag,) = got.flags
    assert (flag.name, flag.value, flag.threshold) == ("errors", 0.2, 0.01)


def test_case_cmp_04_the_ramp_is_outside_the_window():
    streams = [ok(start, 60, tokens=(60 - start) * 10) for start in range(16)]
    got = summarise(streams, 16)
    assert got.values["output_tokens_per_s"] == 160.0
    assert got.values["output_tokens_per_s_gross"] == 140.0
    assert got.values["window_s"] == 45.0
    assert streams[15].t_send_ns == steady_window(streams, 16).start_ns == 15 * S
    assert got.block_output_tokens_per_s == (160.0,) * 10
    assert got.values["peak_in_flight"] == 16


@pytest.mark.parametrize(
    ("flights", "concurrency", "window"),
    [
        ([(0, 4)], 1, (0, 4)),
        ([(0, 2), (2.5, 4)], 1, (0, 4)),
        ([(0, 4), (1, 5)], 2, (1, 4)),
        ([(0, 2), (0, 4), (2, 4)], 2, (0, 4)),
        ([(0, 2), (0, 4), (3, 6)], 2, (0, 4)),
        ([(0, 2), (3, 4)], 2, None),
        ([(0, 4)] * 19, 20, (0, 4)),
        ([(0, 4)] * 18, 20, None),
        ([(1, 1)], 1, None),
        ([], 1, None),
    ],
)
def test_the_steady_window(flights, concurrency, window):
    got = steady_window([ok(*flight) for flight in flights], concurrency)
    assert (got and (got.start_ns / S, got.end_ns / S)) == window


def test_failed_requests_load_the_engine_too():
    samples = [ok(0, 4), failed(1, 5)]
    assert steady_window(samples, 2).seconds == 3
    assert whole_window(samples).seconds == 5


def test_a_request_never_sent_was_never_in_flight():
    assert whole_window([failed(9, 9, "connection_refused")]) is None
    assert peak_in_flight([failed(9, 9), ok(0, 1), ok(1, 2)]) == 1


def test_without_a_window_only_the_gross_figures_stay():
    got = summarise([ok(0, 1), ok(1, 3)], 4)
    assert got.values == {
        "peak_in_flight": 1,
        "duration_s": 3.0,
        "output_tokens": 20,
        "prompt_tokens": 10,
        "requests_per_s_gross": 2 / 3,
        "output_tokens_per_s_gross": 20 / 3,
        "total_tokens_per_s_gross": 10.0,
    }
    assert got.block_output_tokens_per_s == ()
    assert got.status is LevelStatus.VALID


def test_tokens_are_spread_over_the_chunks_of_the_window():
    """Of 12 tokens in 4 chunks at 1, 2, 3, 4 s, three chunks fall within (1, 4]."""
    samples = [ok(0, 4, tokens=12, chunks=4), failed(1, 5)]
    got = summarise(samples, 2)
    assert got.values["output_tokens_per_s"] == 9 / 3
    assert got.values["requests_per_s"] == 1 / 3
    # Its first token came at the window's very start, and so did its prompt's share.
    assert got.values["total_tokens_per_s"] == 9 / 3
    assert sum(got.block_output_tokens_per_s) * 0.3 == pytest.approx(9)
    assert got.block_output_tokens_per_s[3] == pytest.approx(10)


def test_every_value_is_registered():
    samples = [ok(0, 9, cached_tokens=3, tpot_s=0.1, icl_s=(0.1,), queue_s=0.0) for _ in range(3)]
    got = summarise(samples, 3)
    assert set(got.values) | set(got.distributions) <= set(REGISTRY)
    assert len(got.values) == 12


@pytest.mark.parametrize(
    ("cached", "total"), [((None, None), None), ((3, None), 3), ((0, None), 0), ((1, 2), 3)]
)
def test_cached_tokens(cached, total):
    got = summarise([ok(0, 1, cached_tokens=tokens) for tokens in cached], 2)
    assert got.values.get("cached_tokens") == total


def test_a_partial_count_of_prompt_tokens_is_none():
    got = summarise([ok(0, 1), ok(0, 1, prompt_tokens=None)], 2)
    assert not {"prompt_tokens", "total_tokens_per_s", "total_tokens_per_s_gross"} & set(got.values)
    assert "output_tokens_per_s" in got.values


@pytest.mark.parametrize(
    ("samples", "interrupted", "status", "reason"),
    [
        ([ok(0, 1)], False, LevelStatus.VALID, ""),
        ([ok(0, 1)], True, LevelStatus.FAILED, "interrupted"),
        ([], True, LevelStatus.FAILED, "interrupted"),
        ([], False, LevelStatus.FAILED, "no_samples"),
        ([failed(0, 1, "b"), failed(0, 1, "a"), failed(0, 1, "b")], False, LevelStatus.FAILED, "b"),
        ([failed(0, 1, "b"), failed(0, 1, "a")], False, LevelStatus.FAILED, "a"),
        ([ok(0, 1)] * 99 + [failed(0, 1)], False, LevelStatus.VALID, ""),
        ([ok(0, 1)] * 98 + [failed(0, 1)], False, LevelStatus.FLAGGED, ""),
    ],
)
def test_status(samples, interrupted, status, reason):
    got = summarise(samples, 1, interrupted=interrupted)
    assert (got.status, got.reason) == (status, reason)


def test_failures_are_counted_by_reason_the_most_common_first():
    reasons = ["timeout", "http_503", "http_503", "connection_reset"]
    got = summarise([failed(0, 1, reason) for reason in reasons], 1)
    assert list(got.failed_by.items()) == [
        ("http_503", 2), ("connection_reset", 1), ("timeout", 1),
    ]  # fmt: skip
    assert got.values == {"peak_in_flight": 4, "duration_s": 1.0, "window_s": 1.0}
    assert got.distributions == {}


@pytest.mark.parametrize(
    ("samples", "asked", "flags"),
    [
        ([ok(0, 1), ok(0, 1, index=1)], [10, 10], {}),
        ([ok(0, 1), ok(0, 1, index=1)], [10, 11], {"short_output": 0.5}),
        ([ok(0, 1), ok(0, 1, index=1)], [10], {}),
        ([ok(0, 1, index=n) for n in range(100)], [10] * 99 + [11], {}),
        ([ok(0, 1, index=n) for n in range(99)], [10] * 98 + [11], {"short_output": 1 / 99}),
        ([ok(0, 1, tokens=9), failed(0, 1)], [10], {"short_output": 1.0, "errors": 0.5}),
        ([failed(0, 1, output_tokens=1, token_source="estimate")], [10], {"errors": 1.0}),
        ([ok(0, 1, token_source="estimate"), ok(0, 1)], [99], {"tokens_estimated": 0.5,
                                                              "short_output": 0.5}),
    ],
)  # fmt: skip
def test_flags(samples, asked, flags):
    got = summarise(samples, 1, asked_output_tokens=asked)
    assert {flag.name: flag.value for flag in got.flags} == flags


@pytest.mark.parametrize(
    ("late", "of", "flagged"),
    [(0, 20, False), (1, 20, False), (1, 19, True), (1, 11, True), (4, 4, True), (5, 101, False),
     (6, 101, True)],
)  # fmt: skip
def test_answers_that_end_long_after_their_text_are_left_out(late, of, flagged):
    """Ten tokens within a tenth of a second, and a second until the end."""
    silent = replace(ok(0, 0.1), t_end_ns=round(1.1 * S))
    got = summarise([silent] * late + [ok(0, 1)] * (of - late), 1)
    assert [flag.name for flag in got.flags] == ["late_end"] * flagged
    assert got.status is (LevelStatus.FLAGGED if flagged else LevelStatus.VALID)
    for flag in got.flags:
        assert (flag.value, flag.threshold) == (late / of, 0.05)
        assert "after their last text" in flag.detail


def test_a_burst_before_a_silence_is_more_than_a_caveat():
    at_once = ok(0, 0.1, flags=("stream_buffered",))
    got = summarise([replace(at_once, text_ns=(S // 10,) * 10, t_end_ns=2 * S)], 1)
    assert [flag.name for flag in got.flags] == ["stream_buffered", "late_end"]
    assert got.status is LevelStatus.FLAGGED


@pytest.mark.parametrize(
    ("samples", "share", "details"),
    [
        ([ok(0, 1, tokens=20, chunks=22)] * 3, None, []),
        ([ok(0, 1, tokens=20, chunks=23)] + [ok(0, 1)] * 99, 0.01, ["fewer tokens than"]),
        ([ok(0, 1, tokens=20, chunks=64)] * 3, 1.0, ["fewer tokens than"]),
        ([ok(0, 1, token_source="estimate"), ok(0, 1)], 0.5, ["sends no counts"]),
        ([ok(0, 1, token_source="estimate"), ok(0, 1, tokens=9, chunks=64)], 1.0,
         ["sends no counts", "fewer tokens than"]),
        ([ok(0, 1, tokens=64, chunks=20)] * 3, None, []),
    ],
)  # fmt: skip
def test_a_count_that_cannot_be_is_none(samples, share, details):
    flags = summarise(samples, 1).flags
    assert [(flag.name, flag.value, flag.threshold) for flag in flags] == (
        [] if share is None else [("tokens_estimated", share, 0.0)]
    )
    told = flags[0].detail.split("; ") if flags else []
    assert len(told) == len(details)
    assert all(part in text for part, text in zip(details, told, strict=True))


def test_chunk_gaps_are_pooled():
    got = summarise([ok(0, 1, icl_s=(0.1, 0.2)), ok(0, 1, icl_s=(0.3,)), ok(0, 1, icl_s=())], 3)
    stats = got.distributions["icl_s"]
    assert (stats.n, stats.min, stats.max) == (3, 0.1, 0.3)


def test_one_buffered_stream_spoils_the_chunk_gaps_and_nothing_else():
    got = summarise([ok(0, 1, icl_s=(0.1,)), ok(0, 1, flags=("stream_buffered",))], 2)
    assert "icl_s" not in got.distributions
    assert got.distributions["ttft_s"].n == 2
    assert [(flag.name, flag.value) for flag in got.flags] == [("stream_buffered", 0.5)]
    assert got.status is LevelStatus.VALID


def test_undefined_values_are_left_out_of_means():
    got = summarise([ok(0, 1, tpot_s=0.5), ok(0, 1, tpot_s=None)], 2)
    assert (got.distributions["tpot_s"].n, got.distributions["tpot_s"].mean) == (1, 0.5)
    assert "first_content_s" not in got.distributions


def test_token_gaps_are_pooled_and_a_buffered_stream_spoils_them():
    streams = [ok(0, 1, itl_s=(0.1, 0.2)), ok(0, 1, itl_s=(0.3,))]
    assert summarise(streams, 2).distributions["itl_s"].mean == pytest.approx(0.2)
    spoilt = [*streams, ok(0, 1, flags=("stream_buffered",))]
    assert "itl_s" not in summarise(spoilt, 3).distributions


def test_an_answer_that_may_stop_where_it_likes_is_never_short():
    samples = [ok(0, 1, tokens=3), ok(0, 1, tokens=3, index=1)]
    assert summarise(samples, 2, asked_output_tokens=[None, None]).flags == ()
    (flag,) = summarise(samples, 2, asked_output_tokens=[None, 4]).flags
    assert (flag.name, flag.value) == ("short_output", 0.5)


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ([(10, 7), (10, 3)], 0.5),
        ([(10, 7), (None, None)], 0.7),
        ([(0, 0)], None),
        ([(None, None)], None),
    ],
)
def test_accepted_drafts(counts, share):
    samples = [ok(0, 1, draft_tokens=draft, accepted_tokens=taken) for draft, taken in counts]
    assert summarise(samples, 1).values.get("acceptance_share") == share


def test_goodput_counts_what_met_every_bound():
    """Four requests of a second each, of which two are fast enough and one fails."""
    samples = [ok(n, n + 1, e2e_s=1.0, ttft_s=ttft) for n, ttft in enumerate((0.1, 0.2, 0.3))]
    samples.append(failed(3, 4, ttft_s=0.1))
    got = summarise(samples, 1, slo=Slo(ttft_s=0.2, e2e_s=1.0)).values
    assert (got["goodput_per_s"], got["slo_attainment"]) == (0.5, 0.5)
    assert not {"goodput_per_s", "slo_attainment"} & set(summarise(samples, 1).values)


def test_where_nothing_was_answered_no_request_met_its_bounds():
    got = summarise([failed(0, 1)], 1, slo=Slo(ttft_s=1.0)).values
    assert (got["slo_attainment"], got.get("goodput_per_s")) == (0.0, None)


def test_an_open_loop_counts_from_when_requests_were_due():
    """Due at 0, 2 and 4 s; the second one was sent a second late."""
    timing = {"ttft_s": 0.5, "ttfr_s": 0.25, "first_content_s": 0.5, "e2e_s": 2.0}
    samples = [
        ok(0, 2, queue_s=0.0, **timing),
        ok(3, 5, queue_s=1.0, **timing),
        ok(4, 8, queue_s=0.0, **timing),
    ]
    arrangement = Arrangement(window="open")
    got = summarise(samples, 4, arrangement=arrangement, slo=Slo(ttft_s=1.0))
    assert [got.distributions[name].max for name in timing] == [1.5, 1.25, 1.5, 3.0]
    assert got.distributions["queue_s"].max == 1.0
    assert got.values["offered_per_s"] == 0.5
    assert got.values["slo_attainment"] == pytest.approx(2 / 3)
    assert got.values["window_s"] == 8.0
    assert got.values["requests_per_s"] == 3 / 8
    assert got.values["goodput_per_s"] == 2 / 8
    assert len(got.block_output_tokens_per_s) == 10
    assert summarise(samples, 4).distributions["e2e_s"].max == 2.0
    assert "offered_per_s" not in summarise(samples, 4).values


def test_the_window_of_an_open_loop_begins_with_the_first_arrival():
    got = summarise([ok(1, 3, queue_s=1.0)], 1, arrangement=Arrangement(window="open"))
    assert got.values["window_s"] == 3.0
    assert got.values["duration_s"] == 2.0


def test_rates_of_a_fan_out_are_those_of_its_cold_bursts():
    """Cold bursts of 2 and 4 s with 30 tokens each, a warm one of half a second, pauses."""
    samples = []
    for number, start, half in ((1, 0, 1), (2, 100, 2)):
        samples += [ok(start, start + half, part=f"cold/{number}", ttft_s=half) for _ in "ab"]
        samples.append(ok(start + half, start + 2 * half, part=f"cold/{number}/join", ttft_s=9))
    samples.append(ok(50, 50.25, part="warm/1", ttft_s=0.1))
    samples.append(ok(50.25, 50.5, part="warm/1/join", ttft_s=0.1))
    got = summarise(samples, 2, arrangement=Arrangement(window="burst"))
    assert got.values["window_s"] == 6.0
    assert got.values["output_tokens_per_s"] == pytest.approx(10.0)
    assert got.values["requests_per_s"] == 1.0
    assert got.values["output_tokens"] == 80
    assert got.block_output_tokens_per_s == (15.0, 7.5)
    # Not the warm question's, nor a join's.
    assert (got.distributions["ttft_s"].n, got.distributions["ttft_s"].mean) == (4, 1.5)
    assert got.distributions["makespan_cold_s"].mean == 3.0
    assert got.distributions["ttft_warm_s"].mean == 0.1


def test_figures_of_interference_are_those_of_the_time_of_both_loads():
    there = [ok(n, n + 1, part="operator", ttft_s=n) for n in range(6)]
    newcomer = [ok(2, 4, part="fanout", ttft_s=2.5)]
    arrangement = Arrangement(window="phases", resident="operator", newcomer="fanout")
    got = summarise(there + newcomer, 1, arrangement=arrangement)
    assert got.values["window_s"] == 2.0
    assert got.values["output_tokens_per_s"] == pytest.approx(15.0)
    assert got.distributions["ttft_s"].n == 4
    assert got.distributions["ttft_s"].max == 4
    assert got.values["stall_max_s"] == pytest.approx(0.1)


def test_tasks_have_rates_of_the_steady_window_and_a_slowest_step():
    samples = [
        ok(0, 1, part="task/1", step=0),
        ok(1, 4, part="task/1", step=1),
        ok(0, 2, part="task/2", step=0),
        ok(2, 4, part="task/2", step=1),
    ]
    got = summarise(samples, 2, arrangement=Arrangement("task", steps=("plan", "build")))
    assert got.attributes == {"slowest_step": "build"}
    assert got.distributions["task_s"].mean == 4.0
    assert got.values["output_tokens_per_s"] == 10.0
    assert got.distributions["ttft_s"].n == 4
