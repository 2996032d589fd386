"""The cases of ``fixtures/cases/sse.json``, and more of their kinds.

| case | test |
|---|---|
| SSE-02, 03, 06, 07, 08 | here |
| SSE-10, 15, 16, 17 | ``test_stream.py``: ``test_case_sse_10_as_a_level`` and the like |
| SSE-13 | ``test_loadgen.py``: ``test_case_sse_13_non_200_answers`` |
"""

from __future__ import annotations

import gzip
import json

import pytest

from engine_fixtures import cases
from streams import DONE, GOOD, STREAM, delta, event, sample, usage

CASES = cases("sse")


def frames_of(variant):
    return [
        (ms, text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
        for ms, text in variant["frames"]
    ]


def report(variant):
    """What became of a stream, in the words and the milliseconds of the cases."""
    got = sample(frames_of(variant), headers=variant["headers"].items())

    def ms(seconds):
        return None if seconds is None else pytest.approx(seconds * 1000)

    return {
        "status": "ok" if got.ok else "failed",
        "ttft_ms": ms(got.ttft_s),
        "ttft_content_ms": ms(got.first_content_s),
        "tpot_ms": ms(got.tpot_s),
        "inter_chunk_ms": [ms(gap) for gap in got.icl_s],
        "output_tokens": got.output_tokens,
        "chunks": got.chunks,
        "comments": got.comments,
        "text": got.text,
    }


def check(case_id):
    case = CASES[case_id]
    variants = case["input"].get("variants")
    expected = case["expected"]["report"]
    pairs = (
        [(case["input"], expected)]
        if variants is None
        else [(variant, expected[name]) for name, variant in variants.items()]
    )
    for variant, wanted in pairs:
        got = report(variant)
        assert {name: got[name] for name in wanted} == wanted


def test_sse_02_an_empty_role_chunk_is_no_first_token():
    check("SSE-02")


def test_sse_03_reasoning_is_output():
    check("SSE-03")


def test_sse_06_every_legal_framing_is_read():
    check("SSE-06")


def test_sse_07_keep_alives_are_no_output():
    check("SSE-07")


def test_sse_08_characters_are_cut_anywhere_and_lines_only_at_line_ends():
    check("SSE-08")


@pytest.mark.parametrize("text", ["中文", "👩‍🔧", "é\u2028\x85ok", "נָ"])
def test_sse_08_a_character_cut_at_every_byte(text):
    body = json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False)
    whole = b"data: " + body.encode() + b"\n\n"
    for at in range(1, len(whole)):
        got = sample([(99, whole[:at]), (100, whole[at:]), *GOOD])
        assert (got.ok, got.text, got.ttft_s) == (True, text + "ab", 0.1)


ENDS = [b"\n", b"\r", b"\r\n"]


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_sse_06_line_ends_may_be_mixed(first, second):
    pieces = [(ms, data.replace(b"\n\n", first + second)) for ms, data in GOOD]
    got = sample([(1, b"\xef\xbb\xbf: hello" + first + second), *pieces])
    # CR and LF after one another are one line end: such events have no empty line between them.
    assert (got.ok, got.text, got.output_tokens) == (True, "ab", 2)


@pytest.mark.parametrize(
    "last",
    [
        usage(2)[:-1] + DONE,
        usage(2) + b"data:[DONE]",
        usage(2) + b"data:   [DONE]  \r\n\r\n",
        usage(2) + DONE + DONE + b"data: x\n\n",
        usage(2) + b"id: 9\nevent: message\nretry: 1\ndata: [DONE]\n\n",
        usage(2).replace(b"{", b"{\ndata: ", 1) + DONE,
        usage(2) + b"event: ping\ndata: 12:00\n\n" + DONE,
    ],
)
def test_sse_06_the_end_is_understood_however_it_is_written(last):
    got = sample([*GOOD[:2], (151, last)])
    assert (got.ok, got.output_tokens, got.token_source, got.warnings) == (True, 2, "usage", ())


TEXT = [(100, delta(content="a")), (120, delta(content="b"))]


@pytest.mark.parametrize(
    ("wire", "detail"),
    [
        (event(object="error", message="boom", type="ServerError", code=500), "boom"),
        (event(error="Request failed", error_type="generation"), "Request failed"),
        (event(type="error", error={"type": "overloaded_error", "message": "busy"}), "busy"),
        (event(error={"message": " ", "code": 500}), '{"code": 500}'),
        (event(choices=[{"delta": {}, "error": {"message": "bad"}}]), "bad"),
        (b'{"error":{"message":"runner died"}}\n', "runner died"),
        (b'{ "error" : "gone"}', "gone"),
        (b"event: error\n\n", "error"),
        (b'event: Error\ndata: {"detail":"late"}\n\n', "late"),
    ],
)
@pytest.mark.parametrize("end", [b"", b"\n\n" + DONE])
def test_sse_10_an_error_fails_the_request_in_every_spelling(wire, detail, end):
    got = sample([*TEXT, (140, wire + end)])
    assert (got.reason, got.detail, got.chunks) == ("in_band_error", detail, 2)


@pytest.mark.parametrize("body", [{"object": "error", "message": "m"}, {"error": {"detail": "m"}}])
def test_sse_10_an_error_in_place_of_a_stream_keeps_its_words(body):
    got = sample([(9, json.dumps(body).encode())], headers=[("content-type", "application/json")])
    assert (got.reason, got.detail) == ("in_band_error", "m")


@pytest.mark.parametrize("error", [" ", {"message": "", "code": 0, "type": None}, {"a": {}}])
def test_sse_10_an_error_that_says_nothing_is_none(error):
    beside = event(choices=[{"delta": {"content": "a"}}], error=error)
    assert sample([(100, beside), *GOOD[1:]]).ok


@pytest.mark.parametrize(
    "wire",
    [
        event(error={"message": "\ud83d"}) + DONE,
        event(choices=[{"delta": {"content": "a"}, "finish_reason": "\ud83d"}]) + DONE,
        b'data: "\\ud83d"\n\n',
    ],
)
def test_half_a_character_goes_into_no_record(wire):
    got = sample([(9, wire)])
    assert (got.detail + got.finish_reason).encode().decode()


def test_an_answer_in_parts_is_an_answer():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, 7]
    got = sample([(100, delta(content=parts)), *GOOD[1:]])
    assert (got.text, got.first_content_s, got.chunks) == ("ab", 0.1, 2)


@pytest.mark.parametrize(
    ("blocks", "chunks", "buffered"),
    [(4, 40, True), (2, 16, True), (4, 15, False), (20, 2, False), (200, 16, True)],
)
def test_a_stream_that_comes_in_large_blocks_has_no_gaps(blocks, chunks, buffered):
    frames = [(500 + 100 * n, delta(content="x") * chunks) for n in range(blocks)]
    tokens = blocks * chunks
    got = sample([*frames, (99999, usage(tokens) + DONE)])
    assert (got.flags == ("stream_buffered",), got.icl_s == ()) == (buffered, buffered)
    # Its first and last instants are still those of the device.
    assert got.tpot_s == pytest.approx(0.1 * (blocks - 1) / (tokens - 1))


@pytest.mark.parametrize("coding", ["gzip", "identity, gzip", "GZIP , identity"])
@pytest.mark.parametrize("padding", [b"", b"\0" * 16, b"\r\n"])
def test_what_follows_a_compressed_stream_is_padding(coding, padding):
    packed = gzip.compress(b"".join(data for _, data in GOOD))
    got = sample([(9, packed + padding)], headers=[*STREAM, ("content-encoding", coding)])
    assert (got.ok, got.text) == (True, "ab")


@pytest.mark.parametrize("coding", ["none", "utf-8", "identity, identity"])
def test_what_names_no_coding_is_read_as_it_is(coding):
    assert sample(GOOD, headers=[*STREAM, ("content-encoding", coding)]).text == "ab"
