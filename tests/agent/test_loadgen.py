from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.core.summary import summarise
from edgesweep_agent.core.window import peak_in_flight
from edgesweep_agent.loadgen.flight import MOST_BYTES
from edgesweep_agent.loadgen.frames import EXCHANGE, FrameReader, frame
from edgesweep_agent.loadgen.run import LevelRun
from engine_server import EngineServer, Response, Script
from load_levels import CHUNK, DONE, FAST, SSE, fly, job

CASES = Path(__file__).parents[1] / "fixtures/cases/sse.json"


@pytest.mark.parametrize(
    "script",
    [
        FAST,
        Script(ttft_ms=1, tpot_ms=1, tokens=3, framing="close"),
        Script(ttft_ms=1, tpot_ms=1, tokens=3, gzip=True),
        Script(ttft_ms=1, tpot_ms=1, tokens=3, role="null", usage="same"),
        Script(ttft_ms=1, tpot_ms=1, tokens=3, role="none", usage="each"),
        Script(ttft_ms=9, tpot_ms=1, tokens=3, ping_ms=2, reasoning=1),
    ],
    ids=["chunked", "http/1.0", "gzip", "usage in the last chunk", "usage in each", "pings"],
)
def test_streams(script):
    (sample,), ended, _, (exchange,) = fly(script)
    assert (sample.ok, sample.reason, sample.output_tokens) == (True, "", 3)
    assert (sample.token_source, sample.chunks, sample.text) == ("usage", 3, "word word word ")
    assert exchange.ending == ("eof" if script.framing == "close" else "complete")
    assert exchange.t_sched_ns < exchange.t_send_ns < exchange.t_headers_ns < exchange.t_end_ns
    assert ended.stopped == ""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Script(fault="status", status=429), "http_429"),
        (Script(loading_s=60), "http_503"),
        (Script(fault="html"), "not_a_stream"),
        (Script(fault="json"), "not_a_stream"),
        (Script(fault="error"), "in_band_error"),
        (Script(ttft_ms=1, fault="in_band"), "in_band_error"),
        (Script(ttft_ms=1, fault="reset"), "connection_reset"),
        (Script(ttft_ms=1, fault="cut"), "truncated"),
        (Script(ttft_ms=1, fault="cut", framing="close"), "truncated"),
        (Script(fault="refuse"), "connection_reset"),
        (Script(responses=(Response(headers=SSE, frames=((1, CHUNK),), end="rst"),)),
         "connection_reset"),
        (Script(responses=(Response(headers=SSE | {"content-length": "999"},
                                    frames=((1, CHUNK),)),)), "truncated"),
        (Script(responses=(Response(headers=SSE | {"transfer-encoding": "chunked"},
                                    frames=((1, b"not hex"),)),)), "bad_http"),
    ],
)  # fmt: skip
def test_failures(script, reason):
    (sample,), _, server, _ = fly(script)
    assert (sample.ok, sample.reason) == (False, reason)
    assert len(server.timeline) <= 1, "no retry inside a measured request"


def test_interim_responses_are_passed_over():
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    finish = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'

    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(interim + final + CHUNK + finish)
            writer.close()

        frames = bytearray()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await LevelRun(job(f"http://127.0.0.1:{port}"), frames.extend).run()
        return dict(FrameReader().feed(bytes(frames)))

    exchange = msgspec.msgpack.decode(asyncio.run(main())[EXCHANGE], type=Exchange)
    assert (exchange.status, exchange.header("link"), exchange.ending) == (200, "", "eof")
    assert to_sample(exchange, concurrency=1).ok


def answering(*answers, **fields):
    """A level against a server that writes these parts, a tenth of a second apart."""

    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            try:
                for part in answers:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.1)
                await asyncio.sleep(5.0)
            except (OSError, asyncio.CancelledError):
                pass
            writer.close()

        frames = bytearray()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await LevelRun(job(f"http://127.0.0.1:{port}", **fields), frames.extend).run()
        return dict(FrameReader().feed(bytes(frames)))

    return msgspec.msgpack.decode(asyncio.run(main())[EXCHANGE], type=Exchange)


OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def test_a_server_that_holds_the_connection_after_the_end_does_not_hold_up_the_loop():
    exchange = answering(OPEN + CHUNK, DONE)
    assert exchange.ending == "complete"
    assert exchange.t_end_ns - exchange.t_send_ns < 400_000_000
    assert to_sample(exchange, concurrency=1).ok


def test_an_end_that_is_a_models_word_is_none():
    said = b'data: {"choices":[{"delta":{"content":"data: [DONE]"}}]}\n\n'
    exchange = answering(OPEN + said[:47], said[47:] + CHUNK + DONE)
    sample = to_sample(exchange, concurrency=1, keep_text=True)
    assert (sample.ok, sample.text) == (True, "data: [DONE]a")


def test_an_answer_without_an_end_is_not_kept_for_ever():
    comment = b": " + b"x" * (1 << 20) + b"\n\n"
    exchange = answering(OPEN, *[comment * 16] * 4)
    sample = to_sample(exchange, concurrency=1)
    assert (exchange.ending, sample.ok) == ("malformed", False)
    assert "MiB in one answer" in sample.detail
    assert sum(len(piece) for _, piece in exchange.pieces) <= MOST_BYTES


def test_nobody_listens():
    async def main():
        async with EngineServer() as gone:
            url = gone.url
        frames = bytearray()
        await LevelRun(job(url, 3, concurrency=2), frames.extend).run()
        return [frame for frame in FrameReader().feed(bytes(frames)) if frame[0] == EXCHANGE]

    exchanges = [msgspec.msgpack.decode(b, type=Exchange) for _, b in asyncio.run(main())]
    samples = [to_sample(exchange, concurrency=2) for exchange in exchanges]
    assert [sample.reason for sample in samples] == ["connection_refused"] * 3
    assert summarise(samples, 2).reason == "connection_refused"
    assert "Connection refused" in samples[0].detail


@pytest.mark.parametrize(
    ("fields", "script", "detail"),
    [
        ({"request_timeout_s": 0.2}, Script(fault="silent"), "not done within 0.2 s"),
        ({"idle_timeout_s": 0.2}, Script(fault="silent"), "silent for 0.2 s"),
        ({"idle_timeout_s": 0.2}, Script(ttft_ms=1, fault="hang"), "silent for 0.2 s"),
        ({"request_timeout_s": 0.2, "idle_timeout_s": 9.0},
         Script(ttft_ms=1, tpot_ms=20, tokens=500), "not done within 0.2 s"),
    ],
)  # fmt: skip
def test_timeouts(fields, script, detail):
    (sample,), _, _, (exchange,) = fly(script, **fields)
    assert (sample.reason, sample.detail) == ("timeout", detail)
    assert 0.2 <= (exchange.t_end_ns - exchange.t_send_ns) / 1e9 < 2


@pytest.mark.parametrize(("concurrency", "sent"), [(1, 2), (3, 3)])
def test_a_level_without_a_token_ends_before_all_have_waited(concurrency, sent):
    samples, ended, _, _ = fly(
        Script(fault="silent"), 12, concurrency=concurrency, request_timeout_s=0.2
    )
    assert [sample.reason for sample in samples] == ["timeout"] * sent
    assert ended.stopped == "silent"


def test_requests_that_time_out_among_others_end_no_level():
    samples, ended, _, _ = fly(
        Script(ttft_ms=1, fault="silent", fault_every=2), 8, request_timeout_s=0.2
    )
    assert len(samples) == 8
    assert ended.stopped == ""


def test_a_stream_longer_than_the_idle_timeout_is_not_idle():
    script = Script(ttft_ms=100, tpot_ms=100, tokens=8)
    (sample,), *_ = fly(script, idle_timeout_s=0.4)
    assert sample.ok
    assert sample.e2e_s > 0.7


def test_a_connection_attempt_times_out_too():
    # A listener that accepts nothing, with its queue of one full.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        host, port = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex((host, port))
        frames = bytearray()
        level_job = job(f"http://{host}:{port}", request_timeout_s=0.2)
        asyncio.run(LevelRun(level_job, frames.extend).run())
        for filler in fillers:
            filler.close()
    exchange = msgspec.msgpack.decode(
        dict(FrameReader().feed(bytes(frames)))[EXCHANGE], type=Exchange
    )
    sample = to_sample(exchange, concurrency=1)
    assert (sample.reason, sample.detail, sample.queue_s) == (
        "timeout", "no connection within 0.2 s", None,
    )  # fmt: skip


def test_ipv6():
    (sample,), *_ = fly(server={"host": "::1"})
    assert sample.ok


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem",
         "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize(("trusted", "reason"), [(True, ""), (False, "connection_refused")])
def test_tls(certificate, trusted, reason):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    ca_file = str(certificate / "cert.pem") if trusted else None
    (sample,), *_ = fly(server={"tls": tls}, ca_file=ca_file, host="localhost")
    assert sample.reason == reason
    assert trusted or "certificate" in sample.detail


def test_case_sse_13_non_200_answers():
    case = next(c for c in json.loads(CASES.read_text(encoding="utf-8")) if c["id"] == "SSE-13")
    expected = case["expected"]
    responses = tuple(
        Response(
            answer["status"],
            answer.get("headers", {}),
            tuple(
                (ms, text.replace("\\n", "\n").encode()) for ms, text in answer.get("frames", ())
            ),
            answer["body"].encode() if "body" in answer else None,
        )
        for answer in case["input"]["responses"]
    )
    concurrency = case["input"]["level"]["concurrency"]
    samples, _, server, _ = fly(Script(responses=responses), 4, concurrency=concurrency)
    summary = summarise(samples, concurrency)
    assert len(server.timeline) == expected["requests_sent"]
    assert (summary.n_ok, summary.n_failed) == (expected["succeeded"], expected["failed"])
    assert summary.failed_by == expected["failed_by"]
    ttft = summary.distributions["ttft_s"]
    assert ttft.n == expected["ttft_ms"]["n"]
    assert ttft.max == pytest.approx(expected["ttft_ms"]["max"] / 1000, abs=0.1)
    assert {s.detail for s in samples if s.reason == "http_503"} == {
        case["input"]["responses"][1]["body"]
    }


# The loop


def test_exactly_c_requests_are_in_flight():
    script = Script(ttft_ms=10, tpot_ms=1, tokens=8)
    samples, _, server, exchanges = fly(script, 40, concurrency=5)
    assert [exchange.index for exchange in exchanges] == list(range(40))
    assert peak_in_flight(samples) == server.peak_connections == 5
    assert all(sample.ok for sample in samples)
    # A worker's next request is due when its last has ended.
    ends = sorted(exchange.t_end_ns for exchange in exchanges)
    due = sorted(exchange.t_sched_ns for exchange in exchanges)
    assert len(set(due[:5])) == 1
    assert all(end <= t for end, t in zip(ends, due[5:], strict=False))


def test_the_warm_up_is_drained_before_and_only_counted():
    script = Script(ttft_ms=5, tpot_ms=1, tokens=4, fault="status", fault_every=3)
    samples, ended, server, _ = fly(script, 4, concurrency=3, warmup=6)
    assert [seen.user for seen in server.timeline[:6]] == ["-1"] * 6
    assert sorted(seen.user for seen in server.timeline[6:]) == ["0", "1", "2", "3"]
    warm_end = max(t for seen in server.timeline[:6] for t, _ in seen.writes)
    assert min(seen.received_ns for seen in server.timeline[6:]) > warm_end
    assert (ended.n_warmup, ended.warmup_failed_by) == (6, {"http_503": 2})
    assert len(samples) == 4


def test_connections_are_used_again_only_when_told_to():
    def peak_and_total(**fields):
        accepted = []

        class Counting(EngineServer):
            async def _serve(self, reader, writer):
                accepted.append(1)
                await super()._serve(reader, writer)

        async def main():
            async with Counting(FAST) as engine:
                await LevelRun(
                    job(engine.url, 12, concurrency=2, **fields), bytearray().extend
                ).run()

        asyncio.run(main())
        return len(accepted)

    assert peak_and_total() == 12
    assert peak_and_total(keep_alive=True) == 2


def test_the_next_request_leaves_the_moment_the_last_has_ended():
    """On a connection that stays, nothing but the last chunk tells of the end."""
    *_, exchanges = fly(FAST, 8, keep_alive=True)
    waits = sorted(b.t_send_ns - a.t_end_ns for a, b in pairwise(exchanges))
    assert waits[len(waits) // 2] < 20e6


@pytest.mark.parametrize("bodies", [0, 1])
def test_fewer_requests_than_workers(bodies):
    samples, *_ = fly(FAST, bodies, concurrency=8)
    assert len(samples) == bodies


def test_the_deadline_cancels_what_runs_and_starts_nothing():
    begun = time.monotonic()
    samples, ended, server, _ = fly(Script(fault="silent"), 9, concurrency=2, deadline_s=0.3)
    assert time.monotonic() - begun < 2
    assert ended.stopped == "deadline"
    assert [sample.reason for sample in samples] == ["cancelled"] * 2
    assert len(server.timeline) == 2


def test_frames_cut_anywhere():
    whole = frame(b"A", [1]) + frame(b"B", b"x" * 300) + frame(b"C", None)
    for size in (1, 2, 7, 1000):
        reader = FrameReader()
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        kinds = [kind for piece in pieces for kind, _ in reader.feed(piece)]
        assert kinds == [b"A", b"B", b"C"]
