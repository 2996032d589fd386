from __future__ import annotations

import pytest

from edgesweep_collector.projection.base import (
    Expiring,
    Refused,
    Rejected,
    TooLarge,
    Unavailable,
)
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import (
    BACKOFF_CAP_S,
    MAX_RETRY_AFTER_S,
    REFUSED_RETRY_S,
    Dead,
    Entry,
    Expired,
    State,
    Stored,
    Wait,
    backoff_s,
    settle,
)
from influx import running_influx
from influx_dialects import Answer
from influx_rewrite import rewriting

NOWHERE = "http://127.0.0.1:9"


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


def test_the_words_of_a_real_server_reach_the_dead_letter(influx, writer):
    writer.write(["conflict f=1.5 1"])
    batch = [Entry(1, "conflict f=2i 2"), Entry(2, "conflict f=3 3")]
    dead, kept = settle(batch, writer.write)
    assert "already exists as type float" in dead.error
    assert kept == Stored(1)
    assert stored(influx, "conflict") == 2


def test_a_batch_too_large_is_halved():
    class Small(Scripted):
        def write(self, lines):
            if len(lines) > 3:
                self.requests += 1
                raise TooLarge("413")
            super().write(lines)

    writer = Small()
    assert list(settle(entries(8), writer.write)) == [Stored(2)] * 4
    assert writer.requests == 7


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
    assert writer.requests == 3


def test_a_refused_token_is_tried_slowly_with_an_alarm():
    writer = Scripted(*[Refused("401", "influx_auth")] * 5)
    *waits, stored = settle(entries(1), writer.write)
    assert waits == [Wait(REFUSED_RETRY_S, State.REFUSED, "401", "influx_auth")] * 5
    assert stored == Stored(1)


def test_a_batch_that_is_too_old_as_a_whole_needs_one_request():
    writer = Scripted(Expiring("422: beyond", 4))
    assert list(settle(entries(4), writer.write)) == [Expired(4)]
    assert writer.requests == 1


def test_lines_too_old_are_told_from_those_at_fault():
    too_old, both = Expiring("beyond", 1), Rejected("conflict")
    writer = Scripted(both, too_old, too_old, None, Rejected("conflict"))
    steps = list(settle(entries(3), writer.write))
    assert steps == [Expired(1), Stored(1), Dead(entries(3)[2], "conflict")]


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
    with pytest.raises(Unavailable, match=r"502: St.rung"):
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
