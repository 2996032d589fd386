from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from edgesweep_agent.core.window import peak_in_flight
from edgesweep_agent.loadgen.job import Precision, Track, Turn
from edgesweep_agent.loadgen.selector import ReadingSelector
from engine_server import EngineServer, Response, Script
from load_levels import DONE, FAST, SSE, body, endpoint, fly, frames_of, in_loop, job, outcome
from streams import delta, event

MS = 1_000_000
FINISH = delta(finish="stop") + DONE


def bodies(n, tokens=0, start=0):
    return [body(start + i, tokens) for i in range(n)]


def by_track(exchanges, *names):
    """Exchanges of each track, in order of their send."""
    tracks = {name: [] for name in names}
    for exchange in sorted(exchanges, key=lambda one: one.t_send_ns or one.t_end_ns):
        tracks[names[exchange.track]].append(exchange)
    return tracks


def run(*tracks, script=FAST, **fields):
    samples, ended, server, exchanges = fly(script, tracks=list(tracks), **fields)
    return by_track(exchanges, *(track.name for track in tracks)), samples, ended, server


# Order


def test_a_join_starts_when_the_burst_before_it_has_ended():
    burst = Track(name="burst", bodies=bodies(4), concurrency=4)
    tracks, samples, _, _ = run(burst, Track(name="join", bodies=bodies(1), after="burst"))
    end_ns = max(one.t_end_ns for one in tracks["burst"])
    (join,) = tracks["join"]
    assert join.t_sched_ns == end_ns < join.t_send_ns < end_ns + 50 * MS
    assert [sample.index for sample in samples] == [0, 1, 2, 3, 4]


def test_a_burst_leaves_in_one_instant_over_open_connections():
    tracks, _, _, server = run(
        Track(name="", bodies=bodies(12), concurrency=12),
        script=Script(ttft_ms=30, tpot_ms=1, tokens=2),
    )
    assert len({one.t_sched_ns for one in tracks[""]}) == 1
    sends = [one.t_send_ns for one in tracks[""]]
    assert max(sends) - min(sends) < 20 * MS
    assert server.peak_connections == 12


def test_a_track_can_start_when_another_has_got_so_far():
    session = Track(name="session", bodies=bodies(6))
    burst = Track(
        name="burst", bodies=bodies(2), concurrency=2, after="session", after_done=2, delay_s=0.02
    )
    tracks, *_ = run(session, burst)
    due_ns = tracks["session"][1].t_end_ns + 20 * MS
    assert [one.t_sched_ns for one in tracks["burst"]] == [due_ns] * 2
    assert all(due_ns <= one.t_send_ns < due_ns + 50 * MS for one in tracks["burst"])


def test_a_track_starts_when_the_one_it_waits_for_has_ended_short():
    """Neither a failed chain nor too few requests leaves anybody waiting for ever."""
    turn = Turn([{"role": "user", "content": "a"}], {"stream": True})
    chain = Track(name="chain", chains=[[turn] * 3])
    after = Track(name="after", bodies=bodies(1), after="chain", after_done=3)
    script = Script(responses=(Response(500, body=b"no"),), ttft_ms=1, tpot_ms=1, tokens=2)
    tracks, samples, ended, _ = run(chain, after, script=script)
    assert [one.step for one in tracks["chain"]] == [0]
    assert [sample.reason for sample in samples] == ["http_500", ""]
    assert (len(tracks["after"]), ended.stopped) == (1, "")


@pytest.mark.parametrize("more", [0, 2])
def test_a_session_goes_on_until_the_burst_has_ended_and_some_more(more):
    burst = Track(name="burst", bodies=bodies(2), concurrency=2)
    session = Track(name="session", bodies=bodies(99), until="burst", until_more=more)
    script = Script(ttft_ms=10, tpot_ms=1, tokens=8)
    tracks, samples, _, _ = run(session, burst, script=script)
    end_ns = max(one.t_end_ns for one in tracks["burst"])
    late = [one for one in tracks["session"] if one.t_send_ns > end_ns]
    # One may be between its start and its send as the burst ends.
    assert more <= len(late) <= more + 1
    assert 1 <= len(tracks["session"]) - more < 9
    assert all(sample.ok for sample in samples)


def test_a_pause_for_thought_is_part_of_the_due_time_and_ends_with_the_track_it_accompanies():
    burst = Track(name="burst", bodies=bodies(3))
    thinker = Track(name="thinker", bodies=bodies(3), think_s=0.06)
    sleeper = Track(name="sleeper", bodies=bodies(2), think_s=60.0, until="burst")
    tracks, *_ = run(thinker, burst, sleeper)
    sent = tracks["thinker"]
    for before, one in pairwise(sent):
        assert one.t_sched_ns == before.t_end_ns + 60 * MS
        assert 0 <= one.t_send_ns - one.t_sched_ns < 20 * MS
    assert [len(tracks[name]) for name in ("thinker", "burst", "sleeper")] == [3, 3, 1]


# The open loop


def test_arrivals_are_sent_when_due_whatever_is_in_flight():
    due_s = [0.15, 0.16, 0.16, 0.2]
    track = Track(name="", bodies=bodies(4), arrivals_s=due_s)
    script = Script(ttft_ms=100, tpot_ms=1, tokens=2)
    tracks, samples, _, server = run(track, script=script)
    sent = tracks[""]
    start_ns = sent[0].t_sched_ns - 150 * MS
    assert [round((one.t_sched_ns - start_ns) / 1e9, 6) for one in sent] == due_s
    assert peak_in_flight(samples) == server.peak_connections == 4
    assert all(0 <= sample.queue_s < 0.02 for sample in samples)


def test_an_arrival_without_a_server_fails_when_it_is_due():
    async def gone():
        async with EngineServer() as engine:
            return engine.url

    url = asyncio.run(gone())
    level = job(url, tracks=[Track(bodies=bodies(2), arrivals_s=[0.0, 0.15])])
    selector = ReadingSelector()
    samples, _, exchanges = outcome(in_loop(frames_of(level, selector), selector))
    assert [sample.reason for sample in samples] == ["connection_refused"] * 2
    first, second = exchanges
    assert second.t_sched_ns - first.t_sched_ns == 150 * MS
    assert second.t_end_ns >= second.t_sched_ns


def test_a_deadline_ends_an_open_loop_and_keeps_what_was_measured():
    track = Track(name="", bodies=bodies(3), arrivals_s=[0.0, 0.01, 9.0])
    script = Script(ttft_ms=1, tpot_ms=1, tokens=2, fault="silent", fault_every=2)
    _, samples, ended, _ = run(track, script=script, deadline_s=0.3)
    assert ended.stopped == "deadline"
    assert [sample.reason for sample in samples] == ["", "cancelled"]


# Conversations


def answers(*frames):
    return Script(responses=tuple(Response(headers=SSE, frames=((1, data),)) for data in frames))


def asked(text):
    return Turn([{"role": "user", "content": text}], {"max_tokens": 8, "stream": True})


def test_a_conversation_grows_by_what_the_model_answered():
    script = answers(
        delta(reasoning_content="hm") + delta(content="o") + delta(content="ne") + FINISH,
        delta(content="two") + FINISH,
        delta(content="three") + FINISH,
    )
    track = Track(name="dev", chains=[[asked("a"), asked("b"), asked("c")]])
    tracks, samples, _, server = run(track, script=script)
    assert server.timeline[2].messages == [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "one"},
        {"role": "user", "content": "b"}, {"role": "assistant", "content": "two"},
        {"role": "user", "content": "c"},
    ]  # fmt: skip
    assert [(s.chain, s.step, s.index) for s in samples] == [(0, 0, 0), (0, 1, 1), (0, 2, 2)]
    sent = tracks["dev"]
    for before, one in pairwise(sent):
        assert one.t_sched_ns == before.t_end_ns


def call(index, arguments, **more):
    function = {"arguments": arguments} | ({"name": more.pop("name")} if "name" in more else {})
    return delta(tool_calls=[{"index": index, "type": "function", "function": function} | more])


def test_tool_calls_are_put_together_and_answered():
    script = answers(
        call(0, '{"pump"', name="read", id="x1") + call(0, ": 3}") + call(1, "{}", name="stop")
        + delta(finish="tool_calls") + DONE,
        delta(content="done") + FINISH,
    )  # fmt: skip
    results = [{"role": "tool", "content": "7 bar"}, {"role": "tool", "content": "ok"}]
    chain = [asked("a"), Turn(results, {"stream": True, "tools": []})]
    _, samples, _, server = run(Track(name="", chains=[chain]), script=script)
    said, first, second = server.timeline[1].messages[1:]
    assert said["content"] == ""
    assert [c["function"] for c in said["tool_calls"]] == [
        {"name": "read", "arguments": '{"pump": 3}'}, {"name": "stop", "arguments": "{}"},
    ]  # fmt: skip
    ids = [c["id"] for c in said["tool_calls"]]
    assert ids[0] == "x1" != ids[1]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert samples[0].tool_calls == '{"pump": 3}{}'
    assert samples[1].tool_calls == ""


def test_chains_run_beside_each_other_and_a_failed_step_ends_its_own_alone():
    failing = event(error={"message": "out of memory"})
    script = Script(
        ttft_ms=20, tpot_ms=1, tokens=2, responses=(Response(headers=SSE, frames=((1, failing),)),)
    )
    track = Track(name="", chains=[[asked("a")] * 3, [asked("b")] * 2])
    _, samples, ended, server = run(track, script=script)
    ended_early = next(s.chain for s in samples if not s.ok)
    assert [s.reason for s in samples if s.chain == ended_early] == ["in_band_error"]
    rest = [s for s in samples if s.chain != ended_early]
    assert [s.step for s in rest] == list(range(3 if ended_early else 2))
    # Numbered chain by chain, whether a step came about or not.
    assert [s.index for s in samples] == [3 * s.chain + s.step for s in samples]
    assert (server.peak_connections, ended.stopped) == (2, "")


# Replicas


@pytest.mark.parametrize("keep_alive", [False, True])
def test_endpoints_take_turns(keep_alive):
    selector = ReadingSelector()

    async def level():
        async with EngineServer(FAST) as a, EngineServer(FAST) as b:
            endpoints = [endpoint(a.url), endpoint(b.url, path="/v1/chat/completions?b")]
            turns = job(a.url, 8, concurrency=2, endpoints=endpoints, keep_alive=keep_alive)
            return await frames_of(turns, selector), (a, b)

    frames, servers = in_loop(level(), selector)
    samples, *_ = outcome(frames)
    assert all(sample.ok for sample in samples)
    assert [len(server.timeline) for server in servers] == [4, 4]


# Precision


def test_a_level_ends_when_its_throughput_is_known_and_nothing_is_cancelled():
    precision = Precision(half_width=0.5, floor=30, weights=[3.0] * 400)
    samples, ended, _, exchanges = fly(FAST, 400, concurrency=2, precision=precision)
    assert ended.stopped == "precision"
    assert 30 <= len(samples) < 200
    assert all(sample.ok for sample in samples)
    assert [exchange.index for exchange in exchanges] == list(range(len(exchanges)))


def test_a_level_whose_throughput_stays_unknown_sends_all():
    precision = Precision(half_width=1e-9, floor=2, weights=[3.0] * 40)
    samples, ended, *_ = fly(FAST, 40, concurrency=2, precision=precision)
    assert (len(samples), ended.stopped) == (40, "")
