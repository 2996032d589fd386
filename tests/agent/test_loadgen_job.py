from __future__ import annotations

import msgspec
import pytest

from edgesweep_agent.loadgen.job import Endpoint, LevelJob, Precision, Track, Turn
from load_levels import body, job

URL = "http://127.0.0.1:1"
TURN = Turn([{"role": "user", "content": "a"}], {})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"bodies": [b""], "chains": [[TURN]]}, "bodies and chains"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"after_done": 2}, "after_done needs after"),
        ({"after_done": -1, "after": "b"}, "negative"),
        ({"until_more": 2}, "until_more needs until"),
        ({"delay_s": -1.0}, "delay_s and think_s"),
        ({"think_s": float("nan")}, "delay_s and think_s"),
        ({"after": "a"}, "wait for itself"),
        ({"until": "a"}, "wait for itself"),
        ({"bodies": [b""], "arrivals_s": []}, "0 arrivals_s for 1 bodies"),
        ({"bodies": [b""] * 2, "arrivals_s": [2.0, 1.0]}, "must ascend"),
        ({"bodies": [b""], "arrivals_s": [-1.0]}, "must ascend from 0"),
        ({"bodies": [b""], "arrivals_s": [0.0], "think_s": 1.0}, "no meaning"),
        ({"chains": [[TURN]], "arrivals_s": [0.0]}, "not for chains"),
    ],
)
def test_tracks_that_contradict_themselves(fields, complaint):
    with pytest.raises(ValueError, match=rf"track 'a': .*{complaint}"):
        Track(name="a", **fields)


@pytest.mark.parametrize(
    ("tracks", "complaint"),
    [
        ([Track(name="a"), Track(name="a")], "2 tracks are named 'a'"),
        ([Track(name="a", after="b")], "after names 'b', which is no track"),
        ([Track(name="a", until="b")], "until names 'b', which is no track"),
        ([Track(name="a", after="b"), Track(name="b", after="a")],
         r"wait for one another \(after\): a -> b -> a"),
        ([Track(name="a", until="c"), Track(name="b", until="a"), Track(name="c", until="b")],
         r"\(until\): a -> c -> b -> a"),
    ],
)  # fmt: skip
def test_tracks_that_cannot_be_ordered(tracks, complaint):
    with pytest.raises(ValueError, match=complaint):
        job(URL, tracks=tracks)


def test_a_session_may_outlive_the_burst_that_it_starts():
    session = Track(name="session", bodies=[b""] * 9, until="burst", until_more=2)
    assert job(URL, tracks=[session, Track(name="burst", after="session", after_done=3)])


def precision(n=1, **fields):
    return Precision(**{"half_width": 0.1, "floor": 1, "weights": [1.0] * n} | fields)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"endpoints": []}, "at least one"),
        ({"warmup_burst": 0}, "warmup_burst must be at least 1"),
        ({"headers": {"a": "b\r\nc: d"}}, "line break"),
        ({"headers": {"a": "\u2028"}}, "latin"),
        ({"precision": precision(2)}, "2 weights for 1 bodies"),
        ({"precision": precision(half_width=0.0)}, "half_width must be above 0"),
        ({"precision": precision(), "tracks": [Track(name="a"), Track(name="b")]}, "one closed"),
        ({"precision": precision(), "tracks": [Track(chains=[[TURN]])]}, "one closed loop"),
        ({"precision": precision(), "tracks": [Track(bodies=[b""], arrivals_s=[0.0])]},
         "one closed loop"),
    ],
)  # fmt: skip
def test_jobs_that_cannot_be_carried_out(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        job(URL, **fields)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"scheme": "ftp"}, "scheme must be http or https"),
        ({"path": "/a b"}, "space or a line break"),
        ({"host": "a..b"}, "label"),
    ],
)
def test_endpoints_that_cannot_be_reached(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        Endpoint(**{"scheme": "http", "host": "a", "port": 1, "path": "/"} | fields)


def test_a_job_survives_its_way_to_the_process():
    chain = Track(name="c", chains=[[TURN], [TURN, TURN]], after="b", delay_s=0.5)
    whole = job(URL, tracks=[Track(name="b", bodies=[body(1)], arrivals_s=[0.5]), chain])
    packed = msgspec.msgpack.encode(whole)
    assert msgspec.msgpack.decode(packed, type=LevelJob) == whole
    assert [track.size for track in whole.tracks] == [1, 3]


def test_the_request_on_the_wire():
    level = job("http://[::1]:80", headers={"authorization": "Bearer x"})
    request = level.request(level.endpoints[0], b"{}")
    head, _, sent = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert sent == b"{}"
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert {
        "Host: [::1]:80", "Accept-Encoding: identity", "Content-Length: 2", "Connection: close",
        "Authorization: Bearer x",
    } <= set(lines)  # fmt: skip
