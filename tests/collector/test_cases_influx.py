"""Every case of influx.json by its whole kind: from the archive to a real InfluxDB.

What projections of other products lost, doubled or choked on; the sources are in the cases.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import wire
from edgesweep.records import SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.core.lineprotocol import Point, line
from edgesweep_collector.projection import batch
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import State
from influx import running_influx
from influx_dialects import Answer, Speaks
from influx_rewrite import rewriting

pytestmark = pytest.mark.anyio
CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "fixtures/cases/influx.json").read_text(encoding="utf-8")
    )
}
MAIN = "from edgesweep_collector.cli import main; main()"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


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
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    yield made
    made.close()


def reading(points):
    """A reader of rows that hold points of a test's own making."""
    lines = [(row_id, line(point)) for row_id, point in enumerate(points, 1)]

    def read(_source, after, limit):
        return batch.of_lines([one for one in lines if one[0] > after][:limit])

    return read


@asynccontextmanager
async def following(archive, writer, **options):
    follower = Follower(archive, writer, name="influx", pace=Pace(poll_s=0.02), **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        yield follower
        tasks.cancel_scope.cancel()


async def until(holds):
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.01)


def archived(archive, records):
    archive.append([wire.received(record, n) for n, record in enumerate(records, 1)])


async def test_inf_01_nan_and_infinity_are_dropped_and_counted_and_nothing_empty_is_sent(
    influx, rewrite, writer, archive
):
    case = CASES["INF-01"]
    special = {"NaN": float("nan"), "+Inf": float("inf")}
    points = [
        Point(
            one["measurement"],
            one["tags"],
            {name: special.get(value, value) for name, value in one["fields"].items()},
            one["time_ns"],
        )
        for one in case["input"]["variants"].values()
    ]
    assert [line(one).text for one in points] == [case["expected"][v]["line"] for v in "ab"]
    async with following(archive, writer, read=reading(points)) as follower:
        await until(lambda: archive.cursor("influx") == 2)
    assert follower.status.dropped_fields == case["expected"]["dropped_fields_total"]
    assert follower.status.dropped_points == case["expected"]["dropped_points_total"]
    assert [seen.lines for seen in rewrite.seen] == [1]

    rewrite.seen.clear()
    archive.set_cursor("influx", 0)
    async with following(archive, writer, read=reading(points[1:])):
        await until(lambda: archive.cursor("influx") == 1)
    assert len(rewrite.seen) == case["expected"]["b"]["http_requests"]
    assert [row["a"] for row in influx.rows('SELECT "a" FROM "bench"')] == [1.5]


async def test_inf_02_hostile_names_make_their_points_and_no_other(influx, writer, archive):
    given, expected = CASES["INF-02"]["input"], CASES["INF-02"]["expected"]
    points = [
        Point("bench02", {"model": model}, given["fields"], given["time_ns"])
        for model in given["tags"].values()
    ]
    texts = [line(one).text.replace("bench02", "bench", 1) for one in points]
    assert texts == list(expected["lines"].values())
    for _ in range(2):
        archive.set_cursor("influx", 0)
        async with following(archive, writer, read=reading(points)):
            await until(lambda: archive.cursor("influx") == len(points))
        rows = influx.rows('SELECT * FROM "bench02"')
        assert len(rows) == expected["points_in_db"]
        assert sum(row["tokens"] == 999 for row in rows) == expected["points_with_tokens_999"]
        assert len(influx.rows('SHOW SERIES FROM "bench02"')) == expected["points_in_db"]


async def test_inf_02_the_name_as_it_was_given_is_a_field(influx, writer, archive):
    models = list(CASES["INF-02"]["input"]["tags"].values())
    archived(
        archive,
        [
            wire.level(n, contender=replace(wire.LLAMA, model=model))
            for n, model in enumerate(models, 1)
        ],
    )
    async with following(archive, writer):
        await until(lambda: archive.cursor("influx") == len(models))
    rows = influx.rows('SELECT "concurrency", "model_name" FROM "edgesweep_level"')
    assert {row["concurrency"]: row["model_name"] for row in rows} == dict(enumerate(models, 1))
    influx.query('DROP MEASUREMENT "edgesweep_level"', method="POST")


async def test_inf_03_a_measured_value_is_a_float_and_a_count_an_integer_for_good(
    influx, writer, archive
):
    writes = [write["ttft_ms"] for write in CASES["INF-03"]["input"]["writes"]]
    texts = [line(Point("m", {}, {"ttft_ms": float(value)}, 1)).text for value in writes]
    assert texts == [f"m {text} 1" for text in CASES["INF-03"]["expected"]["field_text"]]

    values = [{"output_tokens_per_s": value, "prompt_tokens": 2560.0} for value in writes]
    archived(archive, [wire.level(n, values=told) for n, told in enumerate(values, 1)])
    async with following(archive, writer) as follower:
        await until(lambda: archive.cursor("influx") == 2)
    assert (follower.status.written, follower.status.dead_letters) == (2, 0)
    kinds = {
        row["fieldKey"]: row["fieldType"]
        for row in influx.rows('SHOW FIELD KEYS FROM "edgesweep_level"')
    }
    assert (kinds["output_tokens_per_s"], kinds["prompt_tokens"]) == ("float", "integer")
    assert kinds["n_ok"] == kinds["ttft_s_n"] == "integer"
    influx.query('DROP MEASUREMENT "edgesweep_level"', method="POST")


@pytest.mark.parametrize("whole", [True, False], ids=["nothing stored", "stored in part"])
async def test_inf_03_a_conflict_is_a_dead_letter_and_the_rest_goes_on(
    influx, rewrite, writer, archive, whole
):
    expected = CASES["INF-03"]["expected"]
    table = f"inf03{whole}".lower()
    writer.write([f"{table},p=p0 tokens=1i 1"])
    rewrite.dialect.speaks = Speaks.V2
    rewrite.dialect.marked = b'tokens="' if whole else b""
    rewrite.seen.clear()
    values = [9, 9, "9", 9, 9]
    points = [
        Point(table, {"p": f"p{n}"}, {"tokens": value}, n + 1) for n, value in enumerate(values, 1)
    ]
    async with following(archive, writer, read=reading(points)) as follower:
        await until(lambda: archive.cursor("influx") == len(points))
    assert len(influx.rows(f'SELECT * FROM "{table}"')) == 1 + expected["points_stored"]
    assert len(rewrite.seen) <= 9
    (letter,) = archive.dead_letters("influx")
    assert (letter.row_id, letter.line) == (3, line(points[2]).text)
    assert "field type conflict" in letter.error
    assert follower.status.dead_letters == expected["dead_letter"]


async def test_inf_04_too_large_is_halved_also_when_a_proxy_says_so_in_html(
    influx, rewrite, writer, archive
):
    given, expected = CASES["INF-04"]["input"], CASES["INF-04"]["expected"]
    rewrite.dialect.max_points = given["server"]["max_points_per_request"]
    points = [Point("inf04", {}, {"f": n}, n) for n in range(1, given["batch_points"] + 1)]
    async with following(archive, writer, read=reading(points)):
        await until(lambda: archive.cursor("influx") == len(points))
    assert len(rewrite.seen) == expected["requests"]
    found = {str(status): rewrite.statuses.count(status) for status in rewrite.statuses}
    assert found == expected["responses"]
    assert len(influx.rows('SELECT * FROM "inf04"')) == expected["points_stored"]
    assert len(archive.dead_letters("influx")) == expected["dead_letter"]


async def test_inf_04_a_request_is_bounded_by_bytes_and_one_line_alone_is_a_dead_letter(
    influx, rewrite, writer, archive
):
    rewrite.dialect.max_bytes = 600_000
    sizes = [100_000] * 5 + [700_000, 100_000]
    points = [Point("inf04b", {}, {"s": "x" * size}, n) for n, size in enumerate(sizes, 1)]
    async with following(archive, writer, read=reading(points)):
        await until(lambda: archive.cursor("influx") == len(points))
    assert len(influx.rows('SELECT "s" FROM "inf04b"')) == 6
    (letter,) = archive.dead_letters("influx")
    assert (letter.row_id, letter.error[:4]) == (6, "413:")


async def test_inf_05_a_retry_after_is_honoured_then_the_back_off(influx, rewrite, writer, archive):
    expected = CASES["INF-05"]["expected"]["a"]
    for step in CASES["INF-05"]["input"]["variants"]["a"][:-1]:
        headers = {"Retry-After": step["retry-after"]} if "retry-after" in step else {}
        rewrite.dialect.script.append(Answer(step["status"], headers))
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await anyio.lowlevel.checkpoint()

    points = [Point("inf05a", {}, {"f": 1}, 1)]
    async with following(archive, writer, read=reading(points), sleep=sleep):
        await until(lambda: archive.cursor("influx") == 1)
    assert slept == [2.0, 2.0]
    assert len(rewrite.seen) == expected["requests"]
    assert len(influx.rows('SELECT * FROM "inf05a"')) == expected["points_stored"]


@pytest.mark.parametrize("status", [401, 403])
async def test_inf_05_b_a_refused_token_raises_an_alarm_keeps_all_and_needs_no_restart(
    influx, rewrite, archive, tmp_path, status
):
    expected = CASES["INF-05"]["expected"]["b"]
    token = tmp_path / "token"
    token.write_text("old\n")
    rewrite.dialect.token, rewrite.dialect.read_only = "new", status == 403
    writer = InfluxWriter(Target(rewrite.url, "o", influx.database, token))
    now_s, seen = 0.0, []

    async def sleep(seconds):
        nonlocal now_s
        seen.append((now_s, follower.status.state, follower.status.alarm, len(rewrite.seen)))
        now_s += seconds
        if now_s >= 120:
            token.write_text("new\n")
            rewrite.dialect.read_only = False
        await anyio.lowlevel.checkpoint()

    points = [Point(f"inf05b{status}", {}, {"f": 1}, 1)]
    async with following(archive, writer, read=reading(points), sleep=sleep) as follower:
        await until(lambda: archive.cursor("influx") == 1)
    writer.close()
    assert {one[1:3] for one in seen} == {(State.REFUSED, expected["alarm"])}
    assert max(requests for at, *_, requests in seen if at <= 60) <= 3
    assert now_s == 120
    assert rewrite.statuses[-1] == 204
    assert archive.dead_letters("influx") == []
    assert len(influx.rows(f'SELECT * FROM "inf05b{status}"')) == expected["points_stored"]
    assert (follower.status.state, follower.status.alarm) == (State.OK, "")


def serving(config, log):
    with log.open("ab") as out:
        command = [sys.executable, "-c", MAIN, "serve", "--config", str(config)]
        return subprocess.Popen(command, env=ENV, stdout=out, stderr=out)


def ended(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


async def test_inf_05_c_a_stop_with_points_in_memory_leaves_them_for_the_next_start(
    influx, rewrite, archive, tmp_path
):
    count = CASES["INF-05"]["expected"]["c"]["stored_or_unconfirmed"]
    record = Telemetry((SensorValue("inf05c", "W", 1.0),))
    archived(archive, [record] * count)
    config, log = tmp_path / "collector.toml", tmp_path / "collector.log"
    config.write_text(
        f'[archive]\nurl = "sqlite:///{tmp_path / "archive.db"}"\n'
        f'[influx]\nurl = "{rewrite.url}"\nbucket = "{influx.database}"\n'
    )
    rewrite.dialect.script.extend([Answer(503, {"Retry-After": "600"})] * 2)
    process = serving(config, log)
    try:
        await until(lambda: 503 in rewrite.statuses)
        assert ended(process) == 0, log.read_text()
        assert archive.cursor("influx_telemetry") == 0
        assert influx.rows('SELECT * FROM "edgesweep_telemetry"') == []
        rewrite.dialect.script.clear()
        process = serving(config, log)
        await until(lambda: archive.cursor("influx_telemetry") == count)
        assert ended(process) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(10)
    rows = influx.rows('SELECT count("inf05c_w") AS n FROM "edgesweep_telemetry"')
    assert rows[0]["n"] == count
