from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.inflate import CodingError, decoded
from edgesweep_agent.core.stream import to_sample
from streams import DONE, GOOD, MS, STREAM, T0, delta, event, sample, usage

MIB = 2**20
LARGE = delta(content="x" * (10 * MIB)) + delta(finish="stop") + usage(5) + DONE


def cut(data, size=65536):
    return [(1 + n // size, data[n : n + size]) for n in range(0, len(data), size)]


def cost(frames, **kwargs):
    """A sample, the processor time it took and the memory at its peak."""
    begun = time.process_time()
    got = sample(frames, **kwargs)
    seconds = time.process_time() - begun
    tracemalloc.start()
    sample(frames, **kwargs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return got, seconds, peak


@pytest.mark.parametrize("size", [1400, 65536])
def test_an_event_of_ten_megabytes(size):
    got, seconds, peak = cost(cut(LARGE, size), keep_text=False)
    assert (got.ok, got.chunks, got.output_tokens) == (True, 1, 5)
    assert seconds < 2
    assert peak < 80 * MIB


def test_a_flood_of_comments():
    flood = b": ping\n\n" * 50_000
    got, seconds, peak = cost([*cut(flood), (99, delta(content="a", finish="stop") + DONE)])
    assert (got.ok, got.comments, got.ttft_s) == (True, 50_000, 0.099)
    assert seconds < 1
    assert peak < 8 * MIB


def test_a_flood_of_empty_events():
    flood = b"data:\n\n" * 50_000
    got, seconds, peak = cost([*cut(flood), *GOOD])
    assert (got.ok, got.text, got.chunks) == (True, "ab", 2)
    assert seconds < 1
    assert peak < 8 * MIB


def test_a_compressed_bomb_is_refused_before_it_fills_the_memory():
    bomb = zlib.compress(b"\n" * (64 * MIB))
    tracemalloc.start()
    with pytest.raises(CodingError, match="over 1 MiB when decoded"):
        list(decoded([(1, bomb)], "deflate", most_bytes=MIB))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB


@pytest.mark.parametrize("coding", ["zstd", "br", "gzip, gzip"])
def test_codings_that_cannot_be_undone_are_named(coding):
    got = sample(GOOD, headers=(*STREAM, ("content-encoding", coding)))
    assert (got.reason, got.detail) == ("bad_encoding", f"body in content coding '{coding}'")


def test_events_that_are_compressed_one_by_one():
    frames = [(ms, gzip.compress(data)) for ms, data in GOOD]
    got = sample(frames, headers=(*STREAM, ("content-encoding", "gzip")))
    assert (got.ok, got.text, got.ttft_s) == (True, "ab", 0.1)
    whole = b"".join(data for _, data in frames)
    assert sample([(9, whole)], headers=(*STREAM, ("content-encoding", "gzip"))).text == "ab"


# Any valid stream

TEXTS = st.text(max_size=6)
CALL = st.builds(
    lambda index, text: delta(tool_calls=[{"index": index, "function": {"arguments": text}}]),
    st.integers(0, 1), TEXTS,
)  # fmt: skip
EVENTS = st.one_of(
    st.builds(lambda text: delta(content=text), TEXTS),
    st.just(delta(role="assistant", content="")),
    st.builds(lambda text: delta(reasoning_content=text), TEXTS),
    st.builds(lambda text: event(choices=[{"text": text}]), TEXTS),
    st.builds(lambda n: event(choices=[{"delta": {"content": "u"}}],
                              usage={"completion_tokens": n}), st.integers(0, 9)),
    CALL,
    st.sampled_from([b": ping\n\n", b":\n", b"data:\n\n", b"event: x\nid: 1\n", b"retry: 5\n\n",
                     usage(4), delta(finish="stop"), DONE, b"data: oops\n\n",
                     b"error: {}\n\n", b'data: {"choices":\ndata: []}\n\n']),
)  # fmt: skip
STREAMS = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(EVENTS, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12),
    st.sampled_from([b"", DONE, b"data: [DONE]", b'data: {"cho']),
).map(lambda s: s[0] + b"".join(one.replace(b"\n", end) for one, end in s[1]) + s[2])


def of(whole: bytes, places: list[int]):
    pieces = tuple((T0 + MS, whole[a:b]) for a, b in pairwise([0, *places, len(whole)]))
    exchange = Exchange(
        0, T0, T0, T0, 200, STREAM, pieces, T0 + 2 * MS, "complete", track=0, chain=0, step=0
    )
    return to_sample(exchange, concurrency=1, part="p", keep_text=True)


@given(STREAMS, st.data())
@settings(max_examples=250, deadline=None)
def test_cuts_change_nothing_about_a_sample(whole, data):
    """Byte by byte everything goes the careful way; whole, most of it goes the fast one."""
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=9).map(sorted))
    expected = of(whole, list(range(1, len(whole))))
    assert of(whole, places) == expected
    assert of(whole, []) == expected
