from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgesweep_agent.core.chunk import Chunk, Counts, parse_chunk
from edgesweep_agent.core.common_chunk import common_chunk, token_texts

TEXTS = st.one_of(st.none(), st.text(max_size=4), st.sampled_from(["", "\ud83d", 7, ["x"]]))
COUNTS = st.sampled_from([None, 0, 3, 12.0, -1, True, 1.5, 2**31, 2**31 + 1, 10**30, "5"])
FINISHES = st.sampled_from([None, "", "stop", "length", "error", "abort", 5])
ODD = st.sampled_from([None, {}, [], "x", 0, {"message": "m"}])


def some_of(**fields):
    """Objects with any of these fields, in any order, and perhaps one that nobody knows."""
    return st.fixed_dictionaries({}, optional={**fields, "x": ODD}).flatmap(
        lambda made: st.permutations(list(made.items())).map(dict)
    )


CALLS = st.one_of(ODD, st.just([{"index": 0, "id": "i", "function": {"name": "f"}}]))
DELTAS = some_of(
    role=TEXTS, content=TEXTS, reasoning=TEXTS, reasoning_content=TEXTS, tool_calls=CALLS,
    function_call=ODD,
)  # fmt: skip
CHOICES = some_of(delta=st.one_of(DELTAS, ODD), text=TEXTS, finish_reason=FINISHES, index=COUNTS)
USAGE = some_of(
    completion_tokens=COUNTS,
    prompt_tokens=COUNTS,
    prompt_tokens_details=st.one_of(ODD, some_of(cached_tokens=COUNTS)),
)
TIMINGS = some_of(predicted_n=COUNTS, prompt_n=COUNTS, cache_n=COUNTS)
BODIES = some_of(
    choices=st.one_of(ODD, st.lists(st.one_of(CHOICES, ODD), max_size=2)),
    usage=st.one_of(ODD, USAGE),
    timings=st.one_of(ODD, TIMINGS),
    error=ODD,
)
TOKEN = (
    '{"id":"a\u00e9","choices":[{"index":0,"delta":{"content":"h\u00e9\\n"},"logprobs":null}]}'
).encode()


PLAIN = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": st.fixed_dictionaries({"content": st.text(max_size=3)})},
                optional={"finish_reason": FINISHES},
            ),
            max_size=1,
        )
    },
    optional={"usage": st.fixed_dictionaries({"completion_tokens": COUNTS})},
)


def assert_agrees(data: bytes) -> None:
    got = common_chunk(data)
    try:
        expected = parse_chunk(data.decode("utf-8", "replace").strip())
    except ValueError:
        assert got is None
        assert token_texts([data], 0) == []
    else:
        assert got in (None, expected)
        for text in token_texts([data], 0):
            assert expected == Chunk(text, text, True)


@given(st.one_of(BODIES, PLAIN))
@settings(max_examples=300, deadline=None)
def test_both_readers_agree_on_any_chunk(body):
    assert_agrees(json.dumps(body).encode())


CHANGES = st.tuples(st.integers(0, len(TOKEN)), st.integers(0, 3), st.binary(max_size=3))


@given(st.lists(CHANGES, max_size=3))
@settings(max_examples=300, deadline=None)
@example([(12, 0, b"\\")])
@example([(12, 0, b"\x01")])
@example([(12, 0, b"\xff")])
@example([(1, 0, b'"x":NaN,')])
@example([(1, 0, b'"choices":[],')])
@example([(1, 0, b'"x":"\\q",')])
@example([(1, 0, b'"x":01,')])
@example([(1, 0, b"\xc2\xa0")])
def test_both_readers_agree_on_damaged_chunks(changes):
    data = TOKEN
    for at, cut, inserted in changes:
        data = data[:at] + inserted + data[at + cut :]
    assert_agrees(data)


@pytest.mark.parametrize("depth", [100, 5000, 200_000])
def test_both_readers_agree_on_deep_nesting(depth):
    assert_agrees(b'{"x":' + b"[" * depth + b"]" * depth + b"}")


USAGE_ALONE = (
    b'{"choices":[],"usage":{"completion_tokens":5,"prompt_tokens":3,'
    b'"prompt_tokens_details":{"cached_tokens":2}}}'
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}',
         Chunk("a", "a", True)),
        (b'{"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null}',
         Chunk("", "", True)),
        (b'{"choices":[{"delta":{"reasoning_content":"r"}}]}', Chunk("r", "", True)),
        (b'{"choices":[{"text":"b","finish_reason":"length"}]}', Chunk("b", "b", True, "length")),
        (USAGE_ALONE, Chunk(counts=Counts(5, 3, 2))),
    ],
)  # fmt: skip
def test_the_chunks_of_every_token_are_common(data, expected):
    assert common_chunk(data) == expected == parse_chunk(data.decode())


def test_texts_are_taken_until_something_else_comes():
    end = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
    assert token_texts([TOKEN, TOKEN, end, TOKEN], 0) == ["h\u00e9\n"] * 2
    assert token_texts([TOKEN, TOKEN, end, TOKEN], 2) == []
    assert token_texts([TOKEN, TOKEN, end, TOKEN], 3) == ["h\u00e9\n"]


@pytest.mark.parametrize(
    "other",
    [
        b"[DONE]",
        USAGE_ALONE,
        b'{"choices":[{"delta":{"content":""}}]}',
        b'{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}',
        b'{"choices":[{"delta":{"content":"a","reasoning":"b"}}]}',
        b'{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}',
        b'{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}',
    ],
)
def test_what_is_more_than_text_ends_them(other):
    assert token_texts([other, TOKEN], 0) == []


@pytest.mark.parametrize(
    "more",
    [
        {"choices": [{"delta": {"function_call": {"name": "f"}}}]},
        {"choices": [{"delta": {"tool_calls": []}}]},
        {"choices": [{"delta": {"content": "a"}}] * 2},
        {"choices": [{}]},
        {"error": None},
        {"timings": {"predicted_n": 1}},
    ],
)
def test_anything_else_is_left_to_the_careful_reader(more):
    assert common_chunk(json.dumps({"choices": [], **more}).encode()) is None
