from __future__ import annotations

import re
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from edgesweep.records import (
    Contender,
    Device,
    Distribution,
    LevelResult,
    LevelStatus,
    SensorValue,
    Telemetry,
    Workload,
)
from edgesweep_collector.core.telemetry import telemetry_line, telemetry_series
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.projection.base import Rejected, Unavailable
from edgesweep_collector.projection.follow import Follower, Pace, Status
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import State
from influx import running_influx
from influx_dialects import Answer
from influx_rewrite import rewriting

DOC = Path(__file__).parents[2] / "docs/influxdb.md"
T = 1767225600000000000
NAME = "influx"
pytestmark = pytest.mark.anyio


def level(number, device="n97-01", **changes):
    found = LevelResult(
        run_id="0199-run",
        device=Device(device, "n97-8g"),
        contender=Contender("small", "llama.cpp"),
        session=1,
        workload=Workload("chat-128-256", 128, 256),
        concurrency=number,
        status=LevelStatus.VALID,
        # All in one instant: the row keeps them apart.
        started_wall_ns=T,
        started_mono_ns=number,
    )
    return replace(found, **changes)


@dataclass(frozen=True)
class Row:
    row_id: int
    effective_wall_ns: int
    level: LevelResult

    @property
    def tie(self):
        return self.row_id


@dataclass
class Memory:
    """A source in memory, with what the archive promises."""

    rows: list = field(default_factory=list)
    cursors: dict = field(default_factory=dict)
    letters: dict = field(default_factory=dict)
    failing: list = field(default_factory=list)
    reads: int = 0

    def add(self, *levels):
        for found in levels:
            self.rows.append(Row(len(self.rows) + 1, found.started_wall_ns, found))

    def levels_after(self, row_id, limit):
        self.reads += 1
        if self.failing:
            raise self.failing.pop()
        return [row for row in self.rows if row.row_id > row_id][:limit]

    def cursor(self, name):
        return self.cursors.get(name, 0)

    def set_cursor(self, name, row_id, *, expected=None):
        if expected is not None and self.cursor(name) != expected:
            return False
        self.cursors[name] = row_id
        return True

    def add_dead_letter(self, projection, row_id, line, error, at_ns):
        self.letters[projection, row_id] = (line, error, at_ns)


class Keeping:
    """A writer in memory that can be told what to raise next."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.lines = []

    def write(self, lines):
        if self.errors:
            raise self.errors.pop(0)
        self.lines += lines


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
    found = InfluxWriter(Target(rewrite.url, "o", influx.database, timeout_s=5))
    yield found
    found.close()


@asynccontextmanager
async def following(follower):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        yield follower
        tasks.cancel_scope.cancel()


async def until(holds):
    with anyio.fail_after(20):
        while not holds():
            await anyio.sleep(0.01)


async def no_sleep(_):
    await anyio.sleep(0.02)


def count(influx, device):
    where = f"FROM \"edgesweep_level\" WHERE device = '{device}'"
    rows = influx.rows(f'SELECT count("concurrency") AS n {where}')
    return rows[0]["n"] if rows else 0


async def test_every_archived_level_is_one_point_and_a_rebuild_makes_no_other(influx, writer):
    source = Memory()
    source.add(*[level(n, "rebuilt") for n in range(1, 24)])
    for _ in range(2):
        async with following(Follower(source, writer, name=NAME, pace=Pace(batch=5))):
            await until(lambda: source.cursor(NAME) == 23)
        assert count(influx, "rebuilt") == 23
        source.set_cursor(NAME, 0)


async def test_a_restarted_follower_goes_on_from_its_cursor(influx, rewrite, writer):
    source = Memory()
    source.add(*[level(n, "restarted") for n in range(1, 8)])
    async with following(Follower(source, writer, name=NAME)):
        await until(lambda: source.cursor(NAME) == 7)
    source.add(*[level(n, "restarted") for n in range(8, 11)])
    async with following(Follower(source, writer, name=NAME)) as follower:
        await until(lambda: source.cursor(NAME) == 10)
    assert [seen.lines for seen in rewrite.seen] == [7, 3]
    assert count(influx, "restarted") == 10
    assert replace(follower.status, moved_ns=0) == Status(cursor=10, written=3)


async def test_nothing_is_lost_while_the_database_is_down(influx, writer):
    source = Memory()
    source.add(*[level(n, "down") for n in range(1, 6)])
    async with following(Follower(source, writer, name=NAME, sleep=no_sleep)) as follower:
        await until(lambda: source.cursor(NAME) == 5)
        await anyio.to_thread.run_sync(influx.stop)
        source.add(*[level(n, "down") for n in range(6, 12)])
        follower.notify()
        await until(lambda: follower.status.state is State.UNAVAILABLE)
        assert follower.status.lag_rows == 6
        assert "refused" in follower.status.last_error
        await anyio.to_thread.run_sync(influx.start)
        await until(lambda: source.cursor(NAME) == 11)
    assert follower.status.state is State.OK
    assert count(influx, "down") == 11


async def test_a_stop_while_the_database_is_down_leaves_all_unconfirmed(influx, rewrite, writer):
    rewrite.dialect.script.append(Answer(503, {"Retry-After": "600"}))
    source = Memory()
    source.add(*[level(n, "stopped") for n in range(1, 501)])
    async with following(Follower(source, writer, name=NAME)) as follower:
        await until(lambda: follower.status.state is State.UNAVAILABLE)
    assert source.cursor(NAME) == 0
    async with following(Follower(source, writer, name=NAME)):
        await until(lambda: source.cursor(NAME) == 500)
    assert count(influx, "stopped") == 500


async def test_a_line_refused_for_good_is_kept_with_the_words_and_the_rest_goes_on():
    source, writer = Memory(), Keeping(Rejected("400"), Rejected("400: field type conflict"))
    source.add(level(1), level(2), level(3))
    async with following(Follower(source, writer, name=NAME, clock=lambda: 77)) as follower:
        await until(lambda: source.cursor(NAME) == 3)
    ((key, (line, error, at_ns)),) = source.letters.items()
    assert (key, error, at_ns) == ((NAME, 1), "400: field type conflict", 77)
    assert line.endswith(str(T + 1))
    assert len(writer.lines) == 2
    assert (follower.status.dead_letters, follower.status.written) == (1, 2)


async def test_news_wakes_the_follower_at_once():
    source, writer = Memory(), Keeping()
    async with following(Follower(source, writer, name=NAME, pace=Pace(poll_s=600))) as follower:
        await until(lambda: source.reads == 1)
        source.add(level(1))
        follower.notify()
        await until(lambda: source.cursor(NAME) == 1)
    assert len(writer.lines) == 1


async def test_without_news_it_looks_again_after_a_while():
    source, writer = Memory(), Keeping()
    async with following(Follower(source, writer, name=NAME, pace=Pace(poll_s=0.05))):
        await until(lambda: source.reads == 1)
        source.add(level(1))
        await until(lambda: source.cursor(NAME) == 1)
    assert len(writer.lines) == 1


async def test_a_stop_lets_the_request_in_flight_end():
    began, may_end = threading.Event(), threading.Event()

    class Slow(Keeping):
        def write(self, lines):
            began.set()
            may_end.wait(10)
            super().write(lines)

    source, writer = Memory(), Slow()
    source.add(level(1))
    async with following(Follower(source, writer, name=NAME)):
        await until(began.is_set)
        threading.Timer(0.1, may_end.set).start()
    assert len(writer.lines) == 1


async def test_news_does_not_shorten_the_wait_for_a_server_that_is_down():
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await anyio.lowlevel.checkpoint()

    errors = [Unavailable("down"), Unavailable("down", 7.0), Unavailable("down")]
    source, writer = Memory(), Keeping(*errors)
    source.add(level(1))
    async with following(Follower(source, writer, name=NAME, sleep=sleep)) as follower:
        follower.notify()
        await until(lambda: source.cursor(NAME) == 1)
    assert len(writer.lines) == 1
    assert slept == [1.0, 7.0, 4.0]


async def test_an_archive_that_does_not_answer_is_asked_again():
    source, writer = Memory(), Keeping()
    source.add(level(1))
    source.failing += [ArchiveUnavailable("locked"), ArchiveUnavailable("locked")]
    seen = []

    async def sleep(seconds):
        seen.append((seconds, follower.status.state, follower.status.alarm))

    follower = Follower(source, writer, name=NAME, sleep=sleep)
    async with following(follower):
        await until(lambda: follower.status.cursor == 1)
    assert seen == [(1.0, State.UNAVAILABLE, "archive"), (2.0, State.UNAVAILABLE, "archive")]
    assert (follower.status.state, follower.status.alarm) == (State.OK, "")


async def test_a_cursor_set_back_is_followed_without_a_restart():
    source, writer = Memory(), Keeping()
    source.add(level(1), level(2))
    async with following(Follower(source, writer, name=NAME)) as follower:
        await until(lambda: follower.status.cursor == 2)
        source.set_cursor(NAME, 0)
        follower.notify()
        await until(lambda: len(writer.lines) == 4)
    assert writer.lines[:2] == writer.lines[2:]


def queries():
    return re.findall(r"```sql\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)


async def test_every_query_of_the_document_answers(influx, writer):
    now = time.time_ns()
    ttft = {"ttft_s": Distribution(20, 0.5, 0.1, 0.9, p50=0.4)}
    source = Memory()
    for n, device in ((1, "asked"), (4, "asked"), (4, "asked-too")):
        values = {"output_tokens_per_s": 10.0 * n}
        measured = {"values": values, "distributions": ttft, "started_wall_ns": now}
        source.add(level(n, device, **measured))
    source.add(level(8, "asked", started_wall_ns=now, status=LevelStatus.FAILED, reason="oom"))
    async with following(Follower(source, writer, name=NAME)):
        await until(lambda: source.cursor(NAME) == 4)
    readings = (
        SensorValue("power_vdd_in", "W", 9.0),
        SensorValue("temperature_cpu", "C", 47.0),
        SensorValue("sensor_up_power_rails", "1", 1.0),
    )
    graz = Device("asked", labels={"site": "graz"})
    series = telemetry_series("asked", graz, "0")
    writer.write([telemetry_line(series, Telemetry(readings), now).text])
    assert len(queries()) >= 4
    for query in queries():
        rows = influx.rows(" ".join(query.split()))
        assert rows, query
        assert all(value is not None for value in rows[0].values()), query


async def test_what_is_left_out_of_a_line_is_counted():
    source, writer = Memory(), Keeping()
    values = {"window_s": float("nan"), "quantum_s": 1.0}
    source.add(level(1, values=values), level(2))
    async with following(Follower(source, writer, name=NAME)) as follower:
        await until(lambda: source.cursor(NAME) == 2)
    assert (follower.status.dropped_fields, follower.status.unknown_metrics) == (1, 1)
