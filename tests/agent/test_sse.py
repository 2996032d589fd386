from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep_agent.core.sse import SseEvent, SseReader, plain_events


def read(*pieces: bytes) -> list[SseEvent]:
    reader = SseReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close()


def data(*pieces: bytes) -> list[str]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\n\r\ndata: b\r\n\n", ["a", "b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\ndata:\ndata: b\n\n", ["a\n\nb"]),
        (b"data\n\ndata:\n\ndata: \n\ndata:\ndata:\n\n", []),
        (b": ping\n\n:\n\ndata: a\n\n", ["a"]),
        (b"id: 7\nretry: 9\nwhatever\ndata: a\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: \xef\xbb\xbfa\n\n", ["\ufeffa"]),
        (b"data: [DONE]", ["[DONE]"]),
        (b"data: a\n\ndata: [DONE]\n", ["a", "[DONE]"]),
        (b"\n\n\n", []),
        (b"", []),
        ("data: \u2028\u0085\x0b\x0c\x1c文\n\n".encode(), ["\u2028\u0085\x0b\x0c\x1c文"]),
        (b"data: \xe6\x96\n\n", ["\ufffd"]),
    ],
)
def test_streams_and_their_data(stream, expected):
    assert data(stream) == expected
    assert data(*(bytes([byte]) for byte in stream)) == expected


def test_types():
    stream = b"event: ping\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"
    assert read(stream) == [SseEvent("a", "ping"), SseEvent("b"), SseEvent("c")]


def test_an_error_field_is_an_error_event():
    """llama.cpp before ggml-org/llama.cpp#16104."""
    assert read(b'error: {"code":400}\n\ndata: [DONE]\n\n') == [
        SseEvent('{"code":400}', "error"),
        SseEvent("[DONE]"),
    ]


def test_a_carriage_return_ends_its_line_at_once():
    reader = SseReader()
    assert reader.feed(b"data: a\r") == []
    assert reader.feed(b"\n\r") == [SseEvent("a")]
    assert reader.feed(b"\ndata: b\r\r") == [SseEvent("b")]
    assert reader.feed(b"") == []
    assert reader.feed(b"\n\n") == []
    assert reader.close() == []


def test_plain_events_are_those_that_a_reader_would_find():
    assert plain_events([(1, b"data: a\n\n"), (2, b"data: b\n\n")]) == ([1, 2], [b"a", b"b"])
    assert plain_events([]) is None


@pytest.mark.parametrize(
    "other",
    [b"data: a\n", b"data:a\n\n", b"data: a\n\n: ping\n\n", b"data: a\r\n\n", b"",
     b"\xef\xbb\xbfdata: c\n\n", b"data: a\n\n\n\n", b"data: a\n\ndata: b\n"],
)  # fmt: skip
def test_any_other_stream_is_left_to_the_reader(other):
    assert plain_events([(1, other)]) is None


DATAS = st.lists(st.binary(max_size=4).filter(lambda data: not {10, 13} & set(data)), min_size=1)


@given(DATAS, st.lists(st.integers(0, 40), max_size=6))
def test_a_plain_event_has_the_instant_of_the_piece_that_completed_it(datas, cuts):
    whole = b"".join(b"data: %s\n\n" % data for data in datas)
    at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [(t_ns, whole[a:b]) for t_ns, (a, b) in enumerate(pairwise(at))]
    instants, found = plain_events(pieces)
    assert found == datas
    reader, fed = SseReader(), []
    for t_ns, data in pieces:
        fed += [(t_ns, event.data) for event in reader.feed(data)]
    assert [
        (t_ns, data.decode("utf-8", "replace"))
        for t_ns, data in zip(instants, found, strict=True)
        if data
    ] == fed


def test_comments_are_counted():
    reader = SseReader()
    reader.feed(b":\n\n: ping\n\ndata: a\n")
    reader.feed(b":x")
    reader.close()
    assert reader.comments == 3


LINES = st.one_of(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).map(
        lambda text: "data: " + text
    ),
    st.sampled_from(["", "", ":", ": ping", "data", "data:", "event: x", "error: {}", "id: 1"]),
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=20).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


@given(STREAMS, st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(st.integers(0, 400)))
def test_cuts_change_nothing(stream, mark, cuts):
    whole = mark + stream
    places = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    assert read(*pieces) == read(whole)


def test_work_is_linear_in_a_long_line():
    def seconds(size: int) -> float:
        piece, reader = b"x" * 256, SseReader()
        begun = time.process_time()
        reader.feed(b"data: ")
        for _ in range(size // len(piece)):
            reader.feed(piece)
        assert [len(event.data) for event in reader.feed(b"\n\n")] == [size]
        return time.process_time() - begun

    # Searching the buffer again for each piece would take minutes.
    assert seconds(10 * 2**20) < 2
