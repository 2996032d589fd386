"""One error policy for every InfluxDB: what 1.x, 2.x, 3 Core and Cloud answer, through to the end.

Behind each dialect is a real 1.x server: what is counted as stored is what it holds.
"""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from edgesweep_collector.projection.base import Refused, Rejected, TooLarge, Unavailable
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import Dead, Entry, Expired, State, Stored, Wait, settle
from influx import running_influx
from influx_dialects import Answer, Speaks
from influx_rewrite import rewriting

pytestmark = pytest.mark.parametrize("speaks", Speaks, ids=lambda one: one.value)
NOW = time.time_ns()
DAY_NS = 24 * 3600 * 10**9


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture
def rewrite(influx, speaks):
    with rewriting(influx.url) as server:
        server.dialect.speaks = speaks
        yield server


@pytest.fixture
def table(speaks):
    return f"t_{speaks.name.lower()}"


@pytest.fixture
def writer(rewrite, influx):
    found = InfluxWriter(Target(rewrite.url, "o", influx.database))
    yield found
    found.close()


def settled(writer, lines):
    """What became of lines: (stored or not, dead letters, requests that asked to wait)."""
    steps = list(settle([Entry(n, text) for n, text in enumerate(lines, 1)], writer.write))
    dead = {step.entry.row_id: step.error for step in steps if isinstance(step, Dead)}
    return sum(step.count for step in steps if isinstance(step, Stored)), dead


def points(influx, table):
    return sorted(row["f"] for row in influx.rows(f'SELECT "f" FROM "{table}"'))


def test_a_partial_write_by_a_conflict_of_types(influx, writer, table):
    table += "_conflict"
    writer.write([f"{table} f=1.5 1"])
    lines = [f"{table} f=2.5 2", f'{table} f="3" 3', f"{table} f=4.5 4", f"{table} f=5.5 5"]
    stored, dead = settled(writer, lines)
    assert (stored, list(dead)) == (3, [2])
    assert "already exists as type float" in dead[2]
    assert points(influx, table) == [1.5, 2.5, 4.5, 5.5]


def test_a_malformed_line_among_good_ones(influx, writer, table):
    table += "_malformed"
    lines = [f"{table} f={n}.5 {n}" for n in range(1, 6)]
    lines[2] = f"{table} f="
    stored, dead = settled(writer, lines)
    assert (stored, list(dead)) == (4, [3])
    assert "unable to parse" in dead[3]
    assert points(influx, table) == [1.5, 2.5, 4.5, 5.5]


def test_points_older_than_the_retention_policy_are_no_dead_letters(influx, rewrite, table, speaks):
    policy, table = f"day_{table}", f"{table}_old"
    influx.query(
        f'CREATE RETENTION POLICY "{policy}" ON "{influx.database}" DURATION 1d REPLICATION 1',
        method="POST",
    )
    writer = InfluxWriter(Target(rewrite.url, "o", f"{influx.database}/{policy}"))
    old = [f"{table} f={n} {NOW - 3 * DAY_NS + n}" for n in range(8)]
    new = [f"{table} f={n} {NOW + n}" for n in range(3)]
    lines = [Entry(n, text) for n, text in enumerate(old + new, 1)]
    steps = list(settle(lines, writer.write))
    writer.close()
    assert sum(step.count for step in steps if isinstance(step, Expired)) == 8
    assert sum(step.count for step in steps if isinstance(step, Stored)) == 3
    assert not [step for step in steps if isinstance(step, Dead)]
    if speaks in {Speaks.V1, Speaks.V2}:
        # They say how many they dropped: a batch of nothing else needs one request.
        rewrite.seen.clear()
        writer = InfluxWriter(Target(rewrite.url, "o", f"{influx.database}/{policy}"))
        assert list(settle(lines[:8], writer.write)) == [Expired(8)]
        writer.close()
        assert len(rewrite.seen) == 1


def test_too_large_in_the_servers_own_words(influx, rewrite, writer, table):
    table += "_large"
    lines = [f"{table} f={n} {n}" for n in range(1, 9)]
    rewrite.dialect.max_bytes = 3 * (len(lines[0]) + 1)
    stored, dead = settled(writer, lines)
    assert (stored, dead) == (8, {})
    assert rewrite.statuses.count(413) == 3
    assert points(influx, table) == [*range(1, 9)]


def test_one_line_too_large_alone_is_dead_with_the_words(rewrite, writer, table):
    rewrite.dialect.max_bytes = 40
    stored, dead = settled(writer, [f"{table}_alone f=1 1", f'{table}_alone s="{"x" * 60}" 2'])
    assert (stored, list(dead)) == (1, [2])
    assert dead[2].startswith("413: {")


def test_a_token_that_is_refused_and_corrected(influx, rewrite, table, tmp_path):
    table += "_auth"
    token = tmp_path / "token"
    token.write_text("old")
    rewrite.dialect.token = "new"
    writer = InfluxWriter(Target(rewrite.url, "o", influx.database, token))
    steps = settle([Entry(1, f"{table} f=1 1"), Entry(2, f"{table} f=2 2")], writer.write)
    for _ in range(3):
        wait = next(steps)
        assert isinstance(wait, Wait)
        assert (wait.state, wait.alarm, wait.error[:3]) == (State.REFUSED, "influx_auth", "401")
    token.write_text("new\n")
    assert list(steps) == [Stored(2)]
    writer.close()
    assert points(influx, table) == [1, 2]


def test_a_token_that_may_not_write(influx, rewrite, writer, table):
    table += "_forbidden"
    rewrite.dialect.read_only = True
    steps = settle([Entry(1, f"{table} f=1 1")], writer.write)
    wait = next(steps)
    assert (wait.state, wait.alarm, wait.error[:3]) == (State.REFUSED, "influx_auth", "403")
    rewrite.dialect.read_only = False
    assert list(steps) == [Stored(1)]


def test_a_bucket_that_is_not_there_and_then_is(influx, rewrite, speaks, table):
    bucket = f"later_{table}"
    writer = InfluxWriter(Target(rewrite.url, "o", bucket))
    steps = settle([Entry(1, f"{table} f=1 1")], writer.write)
    # 3 Core creates what it is given.
    if speaks is not Speaks.V3:
        wait = next(steps)
        assert (wait.state, wait.alarm, wait.error[:3]) == (State.REFUSED, "influx_bucket", "404")
        assert bucket in wait.error
        influx.query(f'CREATE DATABASE "{bucket}"', method="POST")
    assert list(steps) == [Stored(1)]
    writer.close()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_in_both_forms(influx, rewrite, writer, table, status, form):
    asked = "17" if form == "seconds" else formatdate(time.time() + 17, usegmt=True)
    words = json.dumps({"code": "unavailable", "message": "try again later"}).encode()
    rewrite.dialect.script.append(Answer(status, {"Retry-After": asked}, words))
    rewrite.dialect.script.append(Answer(status))
    first, second, stored = settle([Entry(1, f"{table}_again f=1 1")], writer.write)
    assert (first.state, second.state) == (State.UNAVAILABLE, State.UNAVAILABLE)
    assert first.seconds == 17 if form == "seconds" else 15 <= first.seconds <= 17
    assert second.seconds == 2.0
    assert stored == Stored(1)


PAGE = "<h1>Störung</h1>".encode("latin-1")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Rejected), (401, Refused), (413, TooLarge), (502, Unavailable)]
)
def test_a_page_of_a_proxy_in_another_encoding_means_what_its_status_says(
    rewrite, writer, status, kind
):
    rewrite.dialect.script.append(Answer(status, {"Content-Type": "text/html"}, PAGE))
    with pytest.raises(kind, match=rf"{status}: <h1>St.rung"):
        writer.write(["m f=1 1"])


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("unexpected error writing points to database: partial write: dropped=1", Rejected),
        ("unexpected error writing points to database: timeout", Unavailable),
    ],
)
def test_a_partial_write_that_is_called_an_internal_error(rewrite, writer, words, kind):
    body = json.dumps({"code": "internal error", "message": words}).encode()
    rewrite.dialect.script.append(Answer(500, {"Content-Type": "application/json"}, body))
    with pytest.raises(kind, match="500: "):
        writer.write(["m f=1 1"])


@pytest.mark.parametrize(
    "words",
    [
        "partial write: points beyond retention policy dropped=2",
        (
            "failure writing points to database: partial write: dropped 2 points outside "
            "retention policy of duration 24h0m0s - oldest point t at 2022-01-01T08:00:00Z "
            "dropped because it violates a Retention Policy Lower Bound at 2025-05-20T16:00:00Z"
        ),
    ],
)
def test_both_ways_to_say_that_points_are_too_old(rewrite, writer, words):
    body = json.dumps({"message": words}).encode()
    rewrite.dialect.script.append(Answer(422, {}, body))
    assert list(settle([Entry(1, "m f=1 1"), Entry(2, "m f=2 2")], writer.write)) == [Expired(2)]


def test_a_conflict_that_names_the_retention_policy_is_a_dead_letter(rewrite, writer):
    words = (
        'partial write: field type conflict: input field "f" on measurement "m" is type integer, '
        "already exists as type float dropped=1 for database: x for retention policy: autogen"
    )
    rewrite.dialect.script.append(Answer(400, {}, json.dumps({"error": words}).encode()))
    (dead,) = settle([Entry(1, "m f=1i 1")], writer.write)
    assert isinstance(dead, Dead)
