from __future__ import annotations

import pytest

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.stream import to_sample
from streams import DONE, GOOD, MS, STREAM, T0, delta, event, sample, usage

TEXT = [(100, delta(content="a")), (120, delta(content="b"))]


@pytest.mark.parametrize(
    ("frames", "kwargs", "reason", "detail"),
    [
        (TEXT, {}, "truncated", ""),
        (TEXT, {"ending": "eof"}, "truncated", ""),
        (TEXT, {"ending": "reset", "error": "reset by peer"}, "connection_reset", "reset by peer"),
        (TEXT, {"ending": "timeout"}, "timeout", ""),
        (TEXT, {"ending": "cancelled"}, "cancelled", ""),
        (TEXT, {"ending": "malformed", "error": "bad chunk"}, "bad_http", "bad chunk"),
        ([*TEXT, (130, b'data: {"choi')], {"ending": "eof"}, "truncated", ""),
        ([*TEXT, (130, b'data: {"choi')], {"ending": "reset"}, "connection_reset", ""),
        ([], {}, "truncated", ""),
        ([(1, b": ping\n\n")], {}, "truncated", ""),
        ([], {"status": None, "ending": "refused", "error": "no"}, "connection_refused", "no"),
        ([], {"status": None, "ending": "timeout"}, "timeout", ""),
        ([], {"status": None, "ending": "reset"}, "connection_reset", ""),
        ([], {"status": None, "ending": "eof"}, "connection_reset",
         "the server closed the connection before it answered"),
        ([(1, b"<h1>503</h1>\n gone")], {"status": 503}, "http_503", "<h1>503</h1> gone"),
        ([(1, b'{"error":{"message":"busy"}}')], {"status": 429}, "http_429",
         '{"error":{"message":"busy"}}'),
        ([(1, b"\xff" * 999)], {"status": 500, "ending": "reset"}, "http_500", "\ufffd" * 200),
        ([(1, delta(content="a") + DONE)], {"status": 206}, "http_206", None),
        ([*TEXT, (130, event(error={"message": "m" * 999}))], {}, "in_band_error", "m" * 200),
        ([*TEXT, (130, event(error="out of\n memory") + DONE)], {}, "in_band_error",
         "out of memory"),
        ([*TEXT, (130, event(error={"code": 5}))], {}, "in_band_error", '{"code": 5}'),
        ([*GOOD[:2], (160, event(error="late"))], {}, "in_band_error", "late"),
        ([(9, b'error: {"code":400,"message":"too long"}\n\n' + DONE)], {}, "in_band_error",
         "too long"),
        ([(9, b'event: error\ndata: {"error":{"message":"m"}}\n\n')], {}, "in_band_error", "m"),
        ([(9, b"event: error\ndata: worker died\n\n")], {}, "in_band_error", "worker died"),
        ([*TEXT, (130, delta(finish="abort") + DONE)], {}, "in_band_error",
         'finish_reason "abort"'),
        ([*TEXT, (130, b"data: oops\n\n"), *GOOD], {}, "bad_json", None),
        ([*TEXT, (130, b"data: [1]\n\n"), *GOOD], {}, "bad_json", "not a JSON object: [1]"),
        ([*TEXT, (130, b"data: " + b"[" * 99999 + b"\n\n"), *GOOD], {}, "bad_json", None),
        ([(9, delta(finish="stop") + usage(5) + DONE)], {}, "empty_output",
         "usage counts 5 tokens"),
        ([(9, DONE)], {}, "empty_output", ""),
        ([(9, b'{"error":{"message":"no model"}}')], {}, "in_band_error", "no model"),
        ([(9, b'{"error":null,"choices":[{"message":{"content":"hi"}}]}')], {}, "not_a_stream",
         None),
        ([(9, b"<!doctype html><title>Sign in</title>")], {}, "not_a_stream",
         "<!doctype html><title>Sign in</title>"),
        ([(9, b"hello")], {"headers": ()}, "not_a_stream", "hello"),
        ([(9, b'{"choices":[')], {"headers": (), "ending": "timeout"}, "timeout", ""),
        ([(9, b"xx")], {"headers": (*STREAM, ("content-encoding", "br"))}, "bad_encoding",
         "body in content coding 'br'"),
        ([(9, b"xx")], {"headers": (*STREAM, ("content-encoding", "gzip"))}, "bad_encoding", None),
        ([(9, b"xx")], {"headers": (("content-encoding", "br"),), "status": 502}, "http_502", ""),
    ],
)  # fmt: skip
def test_failures(frames, kwargs, reason, detail):
    got = sample(frames, **kwargs)
    assert (got.ok, got.reason) == (False, reason)
    assert detail is None or got.detail == detail
    assert len(got.detail) <= 200


def test_a_failed_sample_keeps_what_was_timed():
    got = sample(TEXT, ending="reset")
    assert (got.ttft_s, got.e2e_s, got.icl_s, got.chunks) == (0.1, 0.12, (0.02,), 2)
    assert (got.output_tokens, got.token_source) == (2, "estimate")


def test_a_request_never_sent_has_no_times():
    unsent = Exchange(3, T0, None, None, None, (), (), T0 + MS, "refused", "no route")
    got = to_sample(unsent, concurrency=4)
    assert (got.index, got.concurrency, got.reason) == (3, 4, "connection_refused")
    assert (got.queue_s, got.ttft_s, got.e2e_s) == (None, None, None)
    assert got.t_send_ns == got.t_end_ns == T0 + MS


@pytest.mark.parametrize(
    ("frames", "kwargs", "warnings"),
    [
        (GOOD, {}, ()),
        (GOOD, {"ending": "eof"}, ()),
        (GOOD, {"ending": "reset"}, ("ended_by_reset",)),
        (GOOD, {"headers": (("content-type", "text/plain"),)}, ("content_type",)),
        (GOOD[:2], {}, ("no_done",)),
        ([*GOOD[:2], (160, b'data: {"us')], {}, ("no_done", "cut_after_finish")),
        ([*TEXT, (130, usage(2) + DONE)], {}, ()),
        ([(0, b"\xef\xbb\xbf\r\n"), *GOOD], {"headers": ()}, ("content_type",)),
    ],
)
def test_complete_streams_with_oddities(frames, kwargs, warnings):
    got = sample(frames, **kwargs)
    assert (got.ok, got.text, got.warnings) == (True, "ab", warnings)


def test_what_follows_done_is_not_read():
    assert sample([*GOOD, (160, event(error="late") + b"data: x\n\n")]).ok


@pytest.mark.parametrize("error", [None, "", {}, [], False, 0])
def test_an_empty_error_is_none(error):
    assert sample([(90, event(error=error, choices=[])), *GOOD]).ok
