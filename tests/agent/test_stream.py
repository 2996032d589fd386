from __future__ import annotations

import json
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_agent.core.interpret import read_answer
from edgesweep_agent.core.sample_json import sample_object
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.core.summary import summarise
from streams import DONE, GOOD, MS, STREAM, T0, delta, event, exchange, sample, usage

CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "fixtures/cases/sse.json").read_text(encoding="utf-8")
    )
}


def wire(text: str) -> bytes:
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def variants():
    """Every stream of the file with its expected report."""
    return list(_variants())


def _variants():
    for case in CASES.values():
        if "frames" in case["input"]:
            yield pytest.param(case["input"], case["expected"]["report"], id=case["id"])
        for name, variant in case["input"].get("variants", {}).items():
            expected = case["expected"]["report"][name]
            yield pytest.param(variant, expected, id=f"{case['id']}-{name}")


READ = {
    "status": lambda s: "ok" if s.ok else "failed",
    "ttft_ms": lambda s: s.ttft_s,
    "ttft_content_ms": lambda s: s.first_content_s,
    "last_token_ms": lambda s: s.e2e_s,
    "tpot_ms": lambda s: s.tpot_s,
    "inter_chunk_ms": lambda s: list(s.icl_s),
    "output_tokens": lambda s: s.output_tokens,
    "chunks": lambda s: s.chunks,
    "comments": lambda s: s.comments,
    "text": lambda s: s.text,
}


def scaled(name, value):
    """Milliseconds of the case to the seconds of the sample, rounded once."""
    if not name.endswith("_ms") or value is None:
        return value
    return [item / 1000 for item in value] if isinstance(value, list) else value / 1000


def frames_of(variant):
    return [(ms, wire(text)) for ms, text in variant["frames"]]


@pytest.mark.parametrize(("variant", "expected"), variants())
def test_cases(variant, expected):
    got = sample(frames_of(variant), headers=variant["headers"].items())
    for name, value in expected.items():
        assert READ[name](got) == scaled(name, value), name


@pytest.mark.parametrize(("variant", "expected"), variants())
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_cutting_the_bytes_changes_only_times(variant, expected, data):
    whole = b"".join(piece for _, piece in frames_of(variant))
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12).map(sorted))
    places = [0, *cuts, len(whole)]
    frames = [(n, whole[a:b]) for n, (a, b) in enumerate(pairwise(places), 1)]

    def timeless(s):
        return (
            s.ok, s.reason, s.detail, s.text, s.output_tokens, s.token_source, s.chunks,
            s.comments, s.finish_reason, s.prompt_tokens, s.cached_tokens, s.warnings,
        )  # fmt: skip

    headers = variant["headers"].items()
    got = sample(frames, headers=headers)
    assert timeless(got) == timeless(sample([(1, whole)], headers=headers))


def test_case_sse_10_as_a_level():
    case = CASES["SSE-10"]
    level = [sample(frames_of(variant)) for variant in case["input"]["variants"].values()]
    got = summarise(level, 1)
    also = case["expected"]["also"]["level_of_these_3"]
    assert (got.n_ok, got.n_failed) == (also["succeeded"], also["failed"])
    assert got.failed_by == also["failed_by"]
    assert got.values["output_tokens"] == also["output_tokens_counted"]
    assert sum(s.output_tokens or 0 for s in level if not s.ok) == also["partial_tokens_discarded"]
    assert level[0].detail == level[1].detail == "engine stopped"
    assert level[0].ttft_s == 0.1


def test_case_sse_15_sources():
    also = CASES["SSE-15"]["expected"]["also"]
    for name, variant in CASES["SSE-15"]["input"]["variants"].items():
        got = sample(frames_of(variant))
        assert got.token_source == also[name]["token_source"]
        flags = {flag.name for flag in summarise([got], 1).flags}
        assert ("tokens_estimated" in flags) == (not also[name].get("usable_for_crossover", True))


def test_case_sse_16_nothing_is_a_failure():
    variant = CASES["SSE-16"]["input"]["variants"]["b_zero"]
    got = sample(frames_of(variant))
    assert (got.reason, got.output_tokens) == ("empty_output", 0)
    assert got.ttfr_s == 0.15


def test_case_sse_17_a_stepped_wall_clock_is_not_looked_at():
    case = CASES["SSE-17"]
    monos = {event["do"]: event["mono"] for event in case["input"]["events"]}
    frames = [
        (monos["token a"], delta(content="a")),
        (monos["token b, finish"], delta(content="b", finish="stop") + usage(2) + DONE),
    ]
    got = sample(frames)
    for name in ("status", "ttft_ms", "tpot_ms", "last_token_ms"):
        assert READ[name](got) == scaled(name, case["expected"][name]), name


def test_times_are_exact_differences_from_the_send():
    got = sample([(30, delta(role="assistant", content="")), *GOOD])
    assert (got.ttfr_s, got.ttft_s, got.first_content_s) == (0.03, 0.1, 0.1)
    assert (got.e2e_s, got.tpot_s, got.queue_s) == (0.15, 0.05, 0.002)
    assert got.icl_s == (0.05,)
    assert got.text_ns == (100 * MS, 150 * MS)
    assert (got.t_send_ns, got.t_end_ns) == (T0, T0 + 152 * MS)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "x"},
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x", "reasoning_content": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "x", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]},
        {"function_call": {"name": "x"}},
    ],
)
def test_what_counts_as_text(fields):
    got = sample([(50, delta(**fields)), (60, delta(finish="stop")), (61, usage(1) + DONE)])
    assert (got.ok, got.ttft_s, got.chunks, got.text) == (True, 0.05, 1, "x")
    assert (got.first_content_s is not None) == ("content" in fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "assistant"},
        {"content": None},
        {"content": ""},
        {"reasoning_content": ""},
        {"tool_calls": []},
        {"tool_calls": [{"index": 0, "function": {"name": "", "arguments": None}}]},
        {"tool_calls": None, "content": 7},
    ],
)
def test_what_does_not(fields):
    got = sample([(50, delta(**fields)), *GOOD])
    assert (got.ttfr_s, got.ttft_s, got.chunks) == (0.05, 0.1, 2)


def test_completions_carry_text_in_the_choice_and_usage_beside_it():
    last = event(
        choices=[{"text": "b", "finish_reason": "length"}],
        usage={"completion_tokens": 5, "prompt_tokens": 3},
    )
    got = sample([(10, event(choices=[{"text": "a"}])), (50, last + DONE)])
    assert (got.ok, got.text, got.output_tokens, got.prompt_tokens) == (True, "ab", 5, 3)
    assert (got.tpot_s, got.finish_reason, got.token_source) == (0.01, "length", "usage")


def test_of_continuous_usage_the_last_stands():
    frames = [
        (n, event(choices=[{"delta": {"content": "x"}}], usage={"completion_tokens": n}))
        for n in range(1, 5)
    ]
    got = sample([*frames, (9, delta(finish="stop") + DONE)])
    assert (got.output_tokens, got.token_source, got.chunks) == (4, "usage", 4)


def test_several_tokens_in_a_chunk():
    got = sample(
        [(100, delta(content="a b c")), (200, delta(content="d e")), (201, usage(5) + DONE)]
    )
    assert (got.output_tokens, got.chunks, got.tpot_s) == (5, 2, 0.025)


@pytest.mark.parametrize(
    ("last", "tokens", "source", "cached", "prompt"),
    [
        (usage(2, prompt_tokens_details={"cached_tokens": 7}), 2, "usage", 7, 10),
        (usage(2, prompt_tokens_details=None), 2, "usage", None, 10),
        (usage(2.0), 2, "usage", None, 10),
        (event(usage={"completion_tokens": None}), 2, "estimate", None, None),
        (event(usage={"completion_tokens": -1}), 2, "estimate", None, None),
        (event(usage={"completion_tokens": True}), 2, "estimate", None, None),
        (event(usage={"completion_tokens": 0}), 2, "estimate", None, None),
        (b'data: {"usage":{"completion_tokens":NaN}}\n\n', 2, "estimate", None, None),
        (event(timings={"predicted_n": 9, "cache_n": 4, "prompt_n": 6}), 9, "timings", 4, 10),
        (event(usage={"completion_tokens": 3}, timings={"predicted_n": 9}), 3, "usage", None, None),
    ],
)  # fmt: skip
def test_token_counts_in_order_of_trust(last, tokens, source, cached, prompt):
    got = sample([*GOOD[:2], (160, last + DONE)])
    assert got.ok
    assert (got.output_tokens, got.token_source) == (tokens, source)
    assert (got.cached_tokens, got.prompt_tokens) == (cached, prompt)


def counted(text, n):
    return event(choices=[{"delta": {"content": text}}], usage={"completion_tokens": n})


@pytest.mark.parametrize(
    ("frames", "icl_s", "itl_s"),
    [
        # A token a chunk: the same.
        (GOOD, (0.05,), (0.05,)),
        # Five tokens in two chunks: three and two, of which the first three have no gap.
        ([(100, delta(content="a b c")), (200, delta(content="d e")), (201, usage(5) + DONE)],
         (0.1,), (0.05, 0.05)),
        # Continuous usage says better: one, then four.
        ([(100, counted("a", 1)), (200, counted("b c d e", 5)), (201, DONE)],
         (0.1,), (0.025,) * 4),
        # A chunk that completes no token passes its gap on.
        ([(100, counted("a", 1)), (120, counted("b", 1)), (140, counted("c", 2)), (141, DONE)],
         (0.02, 0.02), (0.04,)),
        # Nobody counted.
        ([(100, delta(content="a")), (130, delta(content="b") + DONE)], (0.03,), (0.03,)),
        # Fewer tokens than chunks.
        ([(100, delta(content="a")), (120, delta(content="b")), (140, delta(content="c")),
          (141, usage(2) + DONE)], (0.02, 0.02), (0.02,)),
        ([(100, delta(content="a")), (101, usage(9) + DONE)], (), ()),
    ],
)  # fmt: skip
def test_gaps_of_chunks_and_of_tokens(frames, icl_s, itl_s):
    got = sample(frames)
    assert (got.icl_s, got.itl_s) == (icl_s, itl_s)


def test_speculative_decoding_as_llama_cpp_counts_it():
    timings = {"predicted_n": 9, "draft_n": 12, "draft_n_accepted": 7}
    got = sample([*GOOD[:2], (160, event(timings=timings) + DONE)])
    assert (got.draft_tokens, got.accepted_tokens) == (12, 7)
    assert (sample(GOOD).draft_tokens, sample(GOOD).accepted_tokens) == (None, None)


def test_place_of_a_request():
    got = to_sample(exchange(GOOD), concurrency=1, part="operator")
    assert (got.part, got.chain, got.step, got.tool_calls) == ("operator", None, None, "")
    call = delta(tool_calls=[{"index": 0, "id": "i", "function": {"arguments": "{}"}}])
    said = replace(exchange([(9, call + DONE)]), chain=2, step=1)
    got = to_sample(said, concurrency=1)
    assert (got.chain, got.step, got.tool_calls, got.text) == (2, 1, "{}", "")


def test_parts_of_tool_calls_belong_together_by_number():
    def part(index, arguments, **more):
        return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}, **more}])

    frames = [(9, part(0, "{", id="a") + part(1, "[", id="b") + part(0, "}") + part(1, "]")
                  + part(0, "1", id="c") + delta(function_call={"name": "f", "arguments": "2"})
                  + DONE)]  # fmt: skip
    calls = read_answer(exchange(frames)).tool_calls
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("a", "", "{}"), ("b", "", "[]"), ("c", "f", "12"),
    ]  # fmt: skip


LEVEL = SimpleNamespace(
    run_id="r", contender=SimpleNamespace(id="c"), session=1, workload=SimpleNamespace(name="w"),
    concurrency=4, attempt=1,
)  # fmt: skip


def test_a_sample_as_a_line_of_json():
    said = replace(exchange(GOOD), chain=0, step=1)
    got = to_sample(said, concurrency=4, part="dev")
    line = sample_object(LEVEL, got, keep_text=False)
    assert (line["part"], line["chain"], line["step"]) == ("dev", 0, 1)
    assert line["tool_call_arguments"] == ""
    assert (line["icl_s"], line["itl_s"]) == ([0.05], [0.05])
    assert "text" not in line
    line = sample_object(LEVEL, sample(GOOD), keep_text=True)
    assert (line["part"], line["chain"], line["text"]) == (None, None, "ab")
    assert "tool_call_arguments" not in line


def test_gaps_of_a_buffered_stream_are_null():
    burst = b"".join(delta(content="x") for _ in range(5)) + usage(5) + DONE
    line = sample_object(LEVEL, sample([(900, burst)]), keep_text=False)
    assert (line["icl_s"], line["itl_s"], line["flags"]) == (None, None, ["stream_buffered"])


def test_text_is_kept_only_on_request():
    assert sample(GOOD, keep_text=False).text == ""


def test_an_emoji_cut_into_surrogates_is_whole_again():
    frames = [(1, b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'),
              (2, b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n' + DONE)]  # fmt: skip
    assert sample(frames).text == "\U0001f600"
    assert sample([frames[0], (2, DONE)]).text == "\ufffd"


def test_a_burst_is_buffered_and_has_no_gaps():
    burst = b"".join(delta(content="x") for _ in range(5)) + usage(5) + DONE
    got = sample([(900, burst)])
    assert got.ok
    assert (got.flags, got.icl_s, got.tpot_s, got.ttft_s) == (("stream_buffered",), (), None, 0.9)


def words(*counts):
    """Chunks of so many words."""
    return [delta(content="word " * count) for count in counts]


@pytest.mark.parametrize(
    ("first", "then", "tokens", "flagged"),
    [
        (words(*[1] * 60), words(1, 1, 1, 1), 64, True),
        (words(60), words(1, 1, 1, 1), 64, True),
        (words(17), words(8, 8), 33, True),
        (words(16), words(8, 8), 32, False),  # a half
        (words(16), words(7, 8), 31, True),
        (words(15), words(1, 1), 17, False),  # a step of speculative decoding
        (words(1), words(*[10] * 6), 61, False),  # vLLM with a stream interval of ten
        (words(10), words(*[10] * 6), 70, False),
        (words(30), words(1), 31, False),  # one gap, and it is one
        (words(1), words(2, 60), 63, False),  # a tool call that comes as a whole
    ],
)
def test_most_of_the_text_in_front_leaves_the_gaps_of_a_trickle(first, then, tokens, flagged):
    later = [(100 + 50 * n, data) for n, data in enumerate(then, 1)]
    got = sample([(100, b"".join(first)), *later, (900, usage(tokens) + DONE)])
    assert got.flags == ("stream_buffered",) * flagged
    assert (got.icl_s == ()) is flagged
    assert (got.ttft_s, got.tpot_s is not None) == (0.1, True)


def test_a_large_burst_may_need_two_reads():
    burst = b"".join(delta(content="x" * 100) for _ in range(600)) + usage(600) + DONE
    got = sample([(900, burst[:65536]), (901, burst[65536:])])
    assert got.flags == ("stream_buffered",)


@pytest.mark.parametrize("n", [1, 2])
def test_two_chunks_in_one_read_are_no_burst(n):
    got = sample([(900, b"".join(delta(content="x") for _ in range(n)) + usage(9) + DONE)])
    assert (got.flags, got.icl_s, got.tpot_s) == ((), (0.0,) * (n - 1), None)


@pytest.mark.parametrize(
    ("coding", "wbits"),
    [("gzip", 31), ("x-gzip", 31), ("GZIP", 31), ("deflate", 15), ("deflate", -15)],
)
def test_compressed_streams_keep_their_times(coding, wbits):
    deflate = zlib.compressobj(wbits=wbits)
    frames = []
    for ms, data in GOOD:
        packed = deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)
        frames += [(ms - 1, packed[:1]), (ms, packed[1:])]
    got = sample(frames, headers=(*STREAM, ("content-encoding", coding)))
    assert (got.ok, got.text, got.ttft_s, got.e2e_s) == (True, "ab", 0.1, 0.15)
