from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgesweep_collector.projection.base import Refused, Rejected, TooLarge, Unavailable
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import (
    BACKOFF_CAP_S,
    MAX_RETRY_AFTER_S,
    Dead,
    Entry,
    State,
    Stored,
    Wait,
    backoff_s,
    settle,
)
from influx import running_influx
from influx_rewrite import Answer, rewriting

CASES = json.loads(
    (Path(__file__).parent.parent / "fixtures/cases/influx.json").read_text(encoding="utf-8")
)
NOWHERE = "http://127.0.0.1:9"


def case(name):
    return next(found for found in CASES if found["id"] == name)


def entries(count):
    return [Entry(n, f"m,n={n} f={n}i {n}") for n in range(1, count + 1)]


class Scripted:
    """A writer that answers from a list, then stores."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.stored = []
        self.requests = 0

    def write(self, lines):
        self.requests += 1
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.stored += lines


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture
def rewrite(influx):
    with rewriting(influx.url) as server:
        yield server


@pytest.fixture
def writer(rewrite, influx):
    found = InfluxWriter(Target(rewrite.url, "o", influx.database))
    yield found
    found.close()


@pytest.fixture
def scripted():
    """A writer and the server it writes to, which has no database behind it."""
    with rewriting(NOWHERE) as server:
        found = InfluxWriter(Target(server.url, "o", "fleet", timeout_s=5))
        yield found, server.dialect.script
        found.close()


def stored(influx, measurement):
    return len(influx.rows(f'SELECT * FROM "{measurement}"'))


def test_a_refused_line_is_found_and_the_others_are_stored(influx, rewrite, writer):
    expected = case("INF-03")["expected"]
    lines = [f"inf03,p={n} tokens={n}i {n}" for n in range(1, 6)]
    lines[2] = 'inf03,p=3 tokens="9" 3'
    rewrite.dialect.marked = b'tokens="'
    batch = [Entry(n, text) for n, text in enumerate(lines, 1)]
    steps = list(settle(batch, writer.write))
    dead = [step for step in steps if isinstance(step, Dead)]
    assert [letter.entry.row_id for letter in dead] == [3]
    assert "field type conflict" in dead[0].error
    assert len(dead) == expected["dead_letter"]
    assert stored(influx, "inf03") == expected["points_stored"]
    assert len(rewrite.seen) <= 9


def test_the_words_of_a_real_server_reach_the_dead_letter(influx, writer):
    writer.write(["conflict f=1.5 1"])
    batch = [Entry(1, "conflict f=2i 2"), Entry(2, "conflict f=3 3")]
    dead, kept = settle(batch, writer.write)
    assert "already exists as type float" in dead.error
    assert kept == Stored(1)
    assert stored(influx, "conflict") == 2


def test_a_batch_too_large_is_halved(influx, rewrite, writer):
    given, expected = case("INF-04")["input"], case("INF-04")["expected"]
    rewrite.dialect.max_points = given["server"]["max_points_per_request"]
    batch = [Entry(n, f"inf04 f={n}i {n}") for n in range(1, given["batch_points"] + 1)]
    steps = list(settle(batch, writer.write))
    assert all(isinstance(step, Stored) for step in steps)
    assert len(rewrite.seen) == expected["requests"]
    found = {str(status): rewrite.statuses.count(status) for status in rewrite.statuses}
    assert found == expected["responses"]
    assert stored(influx, "inf04") == expected["points_stored"]


def test_one_line_too_large_alone_is_dead():
    writer = Scripted(TooLarge("413: too large"))
    assert list(settle(entries(1), writer.write)) == [Dead(entries(1)[0], "413: too large")]


def test_retry_after_is_honoured_then_the_backoff():
    script = [Unavailable("503", 2.0), Unavailable("503"), None]
    writer = Scripted(*script)
    steps = list(settle(entries(1), writer.write))
    assert steps == [
        Wait(2.0, State.UNAVAILABLE, "503"),
        Wait(backoff_s(2), State.UNAVAILABLE, "503"),
        Stored(1),
    ]
    assert writer.requests == case("INF-05")["expected"]["a"]["requests"]
    assert len(writer.stored) == case("INF-05")["expected"]["a"]["points_stored"]


def test_a_refused_token_is_tried_slowly_with_an_alarm_and_nothing_is_lost():
    expected = case("INF-05")["expected"]["b"]
    writer = Scripted(*[Refused("401", "influx_auth") for _ in range(5)])
    now, asked_at = 0.0, []
    for step in settle(entries(1), writer.write):
        asked_at.append(now)
        if isinstance(step, Wait):
            assert (step.state, step.alarm) == (State.REFUSED, expected["alarm"])
            now += step.seconds
    assert len([at for at in asked_at if at <= 60]) <= 3
    assert len(writer.stored) == expected["points_stored"]


def test_the_backoff_grows_to_its_cap_and_starts_anew_after_an_answer():
    assert [backoff_s(n) for n in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert backoff_s(10_000) == BACKOFF_CAP_S
    down = Unavailable("down")
    writer = Scripted(down, down, Rejected("400"), down, None)
    waits = [s.seconds for s in settle(entries(2), writer.write) if isinstance(s, Wait)]
    assert waits == [1.0, 2.0, 1.0]


def test_a_very_long_retry_after_is_bounded():
    (wait, _) = settle(entries(1), Scripted(Unavailable("503", 1e9)).write)
    assert wait.seconds == MAX_RETRY_AFTER_S


def test_requests_are_bounded_by_bytes():
    size = len(entries(1)[0].text) + 1
    writer = Scripted()
    steps = list(settle(entries(5), writer.write, max_bytes=2 * size))
    assert steps == [Stored(2), Stored(2), Stored(1)]
    assert writer.stored == [entry.text for entry in entries(5)]
    assert list(settle(entries(2), writer.write, max_bytes=1)) == [Stored(1), Stored(1)]


def test_nothing_to_write_is_no_request():
    writer = Scripted()
    assert list(settle([], writer.write)) == []
    assert writer.requests == 0


@pytest.mark.parametrize(
    ("status", "kind", "alarm"),
    [
        (400, Rejected, None),
        (422, Rejected, None),
        (201, Rejected, None),
        (413, TooLarge, None),
        (401, Refused, "influx_auth"),
        (403, Refused, "influx_auth"),
        (404, Refused, "influx_bucket"),
        (405, Refused, "influx_answer"),
        (302, Refused, "influx_answer"),
        (200, Refused, "influx_answer"),
        (429, Unavailable, None),
        (500, Unavailable, None),
        (503, Unavailable, None),
    ],
)
def test_what_a_status_means(scripted, status, kind, alarm):
    writer, script = scripted
    script.append(Answer(status, {"Content-Type": "text/html"}, b"<p>the server's words</p>"))
    with pytest.raises(kind, match=str(status)) as found:
        writer.write(["m f=1 1"])
    assert getattr(found.value, "alarm", None) == alarm
    if status >= 300:
        assert "the server's words" in str(found.value)
    assert script.maxlen is None
    assert not script


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "30"}, 30.0),
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}, "later"),
    ],
)
def test_what_retry_after_means(scripted, headers, seconds):
    writer, script = scripted
    script.append(Answer(503, headers))
    with pytest.raises(Unavailable) as found:
        writer.write(["m f=1 1"])
    asked = found.value.retry_after_s
    assert asked > 1e6 if seconds == "later" else asked == seconds


def test_a_page_in_another_encoding_is_no_crash(scripted):
    writer, script = scripted
    script.append(Answer(502, {}, "Störung".encode("latin-1")))
    with pytest.raises(Unavailable, match="UTF-8"):
        writer.write(["m f=1 1"])


def test_no_server_is_unavailable():
    with pytest.raises(Unavailable, match="refused"):
        InfluxWriter(Target(NOWHERE, "o", "fleet")).write(["m f=1 1"])


def test_a_corrected_token_is_read_without_a_restart(influx, rewrite, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")
    rewrite.dialect.token = "new"
    writer = InfluxWriter(Target(rewrite.url, "o", influx.database, token))
    steps = settle([Entry(1, "inf05b f=1i 1")], writer.write)
    refused = next(steps)
    assert (refused.state, refused.alarm) == (State.REFUSED, "influx_auth")
    token.write_text("new\n")
    assert list(steps) == [Stored(1)]
    assert stored(influx, "inf05b") == 1
    writer.close()


@pytest.mark.parametrize("content", [None, b"", b"one\ntwo", "tökén".encode()])
def test_a_token_file_without_a_token_is_a_refusal(tmp_path, content):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    writer = InfluxWriter(Target(NOWHERE, "o", "fleet", path))
    with pytest.raises(Refused, match="token file") as found:
        writer.write(["m f=1 1"])
    assert found.value.alarm == "influx_auth"
