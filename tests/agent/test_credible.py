"""Ends and counts that cannot be, from the smallest that must be caught, and their healthy
neighbours."""

from __future__ import annotations

import pytest

from edgesweep.records import Sample
from edgesweep_agent.core.credible import ends_late, is_undercounted
from engine_fixtures import cases
from streams import MS, sample

T0 = 7_000 * MS


def answer(text_ms, tail_ms, tokens=None, **fields):
    """Text at so many milliseconds after the send, and the end so long after the last of it."""
    text_ns = tuple(round(ms * MS) for ms in text_ms)
    end_ns = (text_ns[-1] if text_ns else 0) + round(tail_ms * MS)
    count = len(text_ns) if tokens is None else tokens
    return Sample(
        1, 0, ok=True, output_tokens=count, chunks=len(text_ns), text_ns=text_ns,
        t_send_ns=T0, t_end_ns=T0 + end_ns, **fields,
    )  # fmt: skip


def evenly(first_ms, step_ms, chunks):
    return [first_ms + step_ms * n for n in range(chunks)]


SILENT = {
    # text (ms), tokens, the longest tail that is let pass, the shortest that is not
    "all at once, early": ([20] * 32, 32, 100, 101),
    "all at once, after a long prefill": ([5000] * 128, 128, 100, 101),
    "one chunk with all of it": ([20], 64, 100, 101),
    "most of it in the first chunk, then a trickle": ([20, 25, 30, 35], 64, 100, 101),
    "in two reads": ([20] * 30 + [21] * 34, 64, 100, 101),
    "quick, then silent": (evenly(20, 1, 128), 128, 100, 101),
    # A tenth of 2540 ms and the tail.
    "a steady stream of 128 tokens": (evenly(200, 20, 128), 128, 282, 283),
    # Eight of 31 steps, of 620 ms and the tail.
    "a steady stream of 32 tokens": (evenly(200, 20, 32), 32, 215, 216),
    # No step takes longer than the first token.
    "eight tokens, quick": (evenly(10, 5, 8), 8, 100, 101),
    "two tokens at once": ([40, 40], 2, 120, 121),
    "one token": ([80], 1, 160, 161),
    "a slow box, 64 tokens": (evenly(9000, 500, 64), 64, 4581, 4582),
}


@pytest.mark.parametrize("case", SILENT)
def test_a_silence_before_the_end_is_caught_from_its_smallest_on(case):
    text_ms, tokens, passes, caught = SILENT[case]
    assert not ends_late(answer(text_ms, passes, tokens))
    for tail_ms in (caught, 20 * caught, 1000 * caught):
        assert ends_late(answer(text_ms, tail_ms, tokens)), tail_ms


HEALTHY = {
    "llama.cpp: counts follow at once": (evenly(240, 7.5, 24), 24, 2),
    "vLLM under load: several tokens a chunk": (evenly(400, 200, 8), 64, 1),
    "vLLM: all tokens in one chunk": ([900], 32, 1),
    "a buffering proxy: all of it at the end": ([900] * 32, 32, 0),
    "a delayed acknowledgement": (evenly(20, 2, 32), 32, 40),
    "a message that ends after [DONE], and an acknowledgement": (evenly(20, 2, 32), 32, 95),
    "speculative decoding: the end token alone in a step": (evenly(700, 300, 4), 32, 330),
    "llama.cpp drafts: chunks of a step come together": (
        [ms for ms in evenly(700, 300, 4) for _ in range(8)], 32, 330,
    ),
    "one token, then the end token, on a slow box": ([800], 1, 500),
    "two tokens, then the end token, on a slow box": ([800, 1300], 2, 500),
    "two tokens, the second without text": ([800], 2, 500),
    "an emoji that the bound cut, on a slow box": (evenly(970, 620, 13), 32, 920),
    "the end of a tool call has no text": (evenly(2000, 250, 15), 20, 1250),
    "llama.cpp holds back six tokens, on a busy box": (evenly(10828, 48.9, 31), 37, 343),
    "no text at all": ([], 5, 9000),
}  # fmt: skip


@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_end_is_not_late(case):
    text_ms, tokens, tail_ms = HEALTHY[case]
    assert not ends_late(answer(text_ms, tail_ms, tokens))


def test_where_nobody_counted_an_end_is_late_all_the_same():
    uncounted = answer([20] * 32, 500)
    assert ends_late(uncounted)
    assert ends_late(Sample(1, 0, ok=True, t_end_ns=500 * MS, text_ns=uncounted.text_ns))


@pytest.mark.parametrize(
    ("tokens", "passes", "caught"),
    [
        (1, 3, 4),
        (8, 10, 11),
        (20, 22, 23),
        (40, 42, 43),
        (41, 43, 44),
        (60, 63, 64),
        (128, 134, 135),
        (1000, 1050, 1051),
    ],
)
def test_more_chunks_than_tokens_are_caught_from_the_smallest_on(tokens, passes, caught):
    for chunks in (1, tokens, passes):
        assert not is_undercounted(Sample(1, 0, ok=True, output_tokens=tokens, chunks=chunks))
    for chunks in (caught, 3 * caught):
        assert is_undercounted(Sample(1, 0, ok=True, output_tokens=tokens, chunks=chunks))


def test_without_a_count_none_is_too_low():
    assert not is_undercounted(Sample(1, 0, ok=True, chunks=64))


def streams_of(case):
    given = case["input"]
    return [item for item in (given, *given.get("variants", {}).values()) if "frames" in item]


STREAMS = [stream for case in cases("sse").values() for stream in streams_of(case)]


def test_streams_as_engines_send_them_are_believed():
    assert len(STREAMS) > 10
    for stream in STREAMS:
        frames = [
            (ms, text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
            for ms, text in stream["frames"]
        ]
        got = sample(frames, headers=stream["headers"].items())
        assert not (got.ok and (ends_late(got) or is_undercounted(got)))
