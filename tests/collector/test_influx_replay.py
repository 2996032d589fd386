"""``replay``: a bucket that was wiped is the same again, and a running collector notices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import anyio
import pytest

import wire
from edgesweep.records import Birth, Kind, SensorValue, Telemetry
from edgesweep_collector import service
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.cli.replay import _instant_ns
from edgesweep_collector.projection import batch
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.replay import FOLLOWED, Replay, planned, replay
from influx import running_influx
from influx_rewrite import rewriting
from programs import invoke

HOUR_NS = 3600 * 10**9
START_NS = time.time_ns() - 48 * HOUR_NS
MAIN = "from edgesweep_collector.cli import main; main()"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    yield made
    made.close()


def filled(archive, hours=10):
    """A level and a telemetry record an hour, one row after the other."""
    moved = replace(wire.DEVICE, labels={"site": "graz"})
    archive.append([wire.received(Birth(wire.DEVICE, 1, 1), 1)])
    for hour in range(hours):
        at = {"wall_ns": START_NS + hour * HOUR_NS}
        readings = Telemetry((SensorValue("power_vdd_in", "W", 9.0 + hour),))
        archive.append(
            [
                wire.received(wire.level(hour + 1), 10 + 2 * hour, **at),
                wire.received(readings, 11 + 2 * hour, **at),
            ]
        )
        if hour == hours // 2:
            archive.append([wire.received(Birth(moved, 1, 2), 2)])


def configured(tmp_path, influx_url="http://127.0.0.1:9", bucket="fleet"):
    path = tmp_path / "collector.toml"
    path.write_text(
        f'[archive]\nurl = "sqlite:///{tmp_path / "archive.db"}"\n'
        f'[influx]\nurl = "{influx_url}"\nbucket = "{bucket}"\n'
    )
    return path


def command(tmp_path, *options):
    arguments = ["replay", "--config", str(tmp_path / "collector.toml"), *options]
    return invoke(PROGRAM.run, arguments, env={"COLUMNS": "200"})


def test_it_knows_every_projection_of_the_service():
    assert FOLLOWED.keys() == service.PROJECTIONS.keys()


def test_a_time_is_the_first_row_at_or_after_it(either_archive):
    archive = either_archive
    filled(archive)
    archive.set_cursor("influx", 21)
    archive.set_cursor("influx_telemetry", 22)
    since_ns = START_NS + 7 * HOUR_NS
    found = planned(archive, "influx", since_ns)
    assert found.rows == 3
    assert archive.levels_after(found.back_to, 99)[0].effective_wall_ns == since_ns
    assert planned(archive, "influx", None) == Replay("influx", 21, 0, 10)
    assert planned(archive, "influx_telemetry", since_ns).rows == 3


def test_rows_that_are_not_written_yet_are_not_counted_and_the_cursor_never_goes_on(archive):
    filled(archive)
    archive.set_cursor("influx", 5)
    assert planned(archive, "influx", START_NS + 7 * HOUR_NS) == Replay("influx", 5, 5, 0)
    assert replay(archive, "influx", START_NS + 99 * HOUR_NS) == Replay("influx", 5, 5, 0)
    assert archive.cursor("influx") == 5


def test_a_row_that_came_late_with_an_early_time_does_not_hide_the_others(archive):
    for n, hour in enumerate([5, 1, 6], 1):
        at = START_NS + hour * HOUR_NS
        archive.append([wire.received(wire.level(n), n, wall_ns=at)])
    archive.set_cursor("influx", 3)
    assert planned(archive, "influx", START_NS + 5 * HOUR_NS) == Replay("influx", 3, 0, 3)


def test_an_empty_archive_has_nothing_to_write_again(archive):
    assert planned(archive, "influx", None) == Replay("influx", 0, 0, 0)
    assert planned(archive, "influx_telemetry", START_NS) == Replay("influx_telemetry", 0, 0, 0)


def test_a_follower_that_goes_on_meanwhile_is_not_overtaken(archive):
    filled(archive)
    archive.set_cursor("influx", 10)

    class Moving:
        """Whose follower commits just after the cursor was read."""

        moved = False

        def __getattr__(self, name):
            return getattr(archive, name)

        def cursor(self, name):
            found = archive.cursor(name)
            if not self.moved:
                self.moved = True
                archive.set_cursor(name, 21)
            return found

    assert replay(Moving(), "influx", None) == Replay("influx", 21, 0, 10)
    assert archive.cursor("influx") == 0


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("all", None),
        ("2h", 10**18 - 2 * HOUR_NS),
        ("2026-11-30", 1795996800 * 10**9),
        ("2026-11-30T12:00Z", 1796040000 * 10**9),
        ("2026-11-30T12:00:00.250+02:00", 1796032800 * 10**9 + 250_000_000),
        ("1969-12-31T23:59:59Z", -(10**9)),
    ],
)
def test_a_time_may_be_written_in_three_ways(text, expected_ns):
    assert _instant_ns(text, 10**18) == expected_ns


@pytest.mark.parametrize("text", ["", "yesterday", "-2h", "2026-13-01", "9" * 400 + "d", "0s"])
def test_any_other_time_is_refused(tmp_path, archive, text):
    configured(tmp_path)
    done = command(tmp_path, "--since", text)
    assert done.exit_code == 2
    assert "write all, 36h, 2026-11-30" in " ".join(done.output.split())


def test_an_unknown_projection_is_refused(tmp_path, archive):
    configured(tmp_path)
    done = command(tmp_path, "--since", "all", "--projection", "grafana")
    assert done.exit_code == 2
    assert "there is influx, influx_telemetry" in " ".join(done.output.replace("│", "").split())


def test_a_dry_run_changes_nothing_and_says_what_would_be(tmp_path, archive):
    configured(tmp_path)
    filled(archive)
    archive.set_cursor("influx", 21)
    done = command(tmp_path, "--since", "all", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "influx: 10 records would be written again, of the archive's order 1 to 21",
        "influx_telemetry: nothing would be written again",
    ]
    assert archive.cursor("influx") == 21
    done = command(tmp_path, "--since", "all", "--projection", "influx", "--json")
    assert json.loads(done.stdout) == {
        "dry_run": False,
        "replays": [{"projection": "influx", "cursor": 21, "back_to": 0, "rows": 10}],
    }
    assert archive.cursor("influx") == 0


QUERIES = [
    'SELECT * FROM "edgesweep_level" ORDER BY time',
    'SELECT * FROM "edgesweep_telemetry" ORDER BY time',
    'SELECT mean("power_vdd_in_w") FROM "edgesweep_telemetry" GROUP BY "site"',
    "SHOW SERIES",
]


def answers(influx):
    return [influx.query(query) for query in QUERIES]


@pytest.mark.anyio
async def test_a_bucket_that_was_wiped_is_the_same_again_beside_a_running_collector(
    influx, archive, tmp_path
):
    filled(archive)
    last = {"influx": 21, "influx_telemetry": 22}

    async def done():
        with anyio.fail_after(20):
            while any(archive.cursor(name) < row for name, row in last.items()):
                await anyio.sleep(0.02)

    with rewriting(influx.url) as rewrite:
        configured(tmp_path, rewrite.url, influx.database)
        writers = [InfluxWriter(Target(rewrite.url, "", influx.database)) for _ in last]
        readers = [batch.levels, batch.telemetry]
        async with anyio.create_task_group() as tasks:
            for name, writer, read in zip(last, writers, readers, strict=True):
                pace = Pace(batch=3, poll_s=0.02)
                follower = Follower(archive, writer, name=name, read=read, pace=pace)
                tasks.start_soon(follower.run)
            await done()
            before = answers(influx)
            assert all(before)
            for table in ("edgesweep_level", "edgesweep_telemetry"):
                await anyio.to_thread.run_sync(influx.query, f'DROP MEASUREMENT "{table}"', "POST")
            assert not any(answers(influx))
            told = await anyio.to_thread.run_sync(command, tmp_path, "--since", "all")
            assert told.exit_code == 0, told.output
            await done()
            assert answers(influx) == before

            told = await anyio.to_thread.run_sync(command, tmp_path, "--since", "44h", "--json")
            rows = {one["projection"]: one["rows"] for one in json.loads(told.stdout)["replays"]}
            assert rows == {"influx": 5, "influx_telemetry": 5}
            await done()
            assert answers(influx) == before
            tasks.cancel_scope.cancel()
        for writer in writers:
            writer.close()


def test_it_runs_as_a_program_and_names_what_is_wrong_with_its_settings(tmp_path):
    path = tmp_path / "collector.toml"
    path.write_text('[archive]\nurl = "sqlite:///nowhere.db"\n')
    command = [sys.executable, "-c", MAIN, "replay", "--since", "all", "--config", str(path)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "there is no archive at" in done.stderr
    path.write_text("")
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 78


def test_kinds_are_those_that_are_followed():
    assert set(FOLLOWED.values()) == {Kind.LEVEL, Kind.TELEMETRY}
