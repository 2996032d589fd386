"""Telemetry and the state of sensors on the receiving side: archived, shown, projected."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import pytest
from prometheus_client import generate_latest

import wire
from edgesweep.records import Birth, Device, Heartbeat, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.migrations import MIGRATIONS, TYPES
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.core.lineprotocol import Line
from edgesweep_collector.core.telemetry import MEASUREMENT, telemetry_line, telemetry_series
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.projection import batch
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.web.app import application
from edgesweep_collector.web.sensors import SensorStates
from programs import invoke

DOC = Path(__file__).parents[2] / "docs/influxdb.md"
T = 1767225600000000000
READINGS = (
    SensorValue("power_vdd_in", "W", 9.0),
    SensorValue("power_vdd_cpu_cv", "W", -0.398),
    SensorValue("gpu_load", "percent", 0.0),
    SensorValue("energy_package_0", "J", None, "only root may read it"),
    SensorValue("sensor_up_rapl", "1", 0.0),
)
TELEMETRY = Telemetry(READINGS)


@pytest.fixture
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    yield made
    made.close()


def config(tmp_path):
    path = tmp_path / "collector.toml"
    path.write_text(f'[archive]\nurl = "sqlite:///{tmp_path / "archive.db"}"\n')
    return path


def devices(tmp_path, *options):
    command = ["devices", "--config", str(config(tmp_path)), *options]
    done = invoke(PROGRAM.run, command, env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.stdout


def told(device, *readings, time_ns=T):
    return telemetry_line(telemetry_series("n97-01", device, "5f"), Telemetry(readings), time_ns)


def test_the_line_of_a_record():
    assert told(wire.DEVICE, *READINGS).text == (
        "edgesweep_telemetry,device=n97-01,hardware_class=n97-16g,performance_state=pl-15w,"
        "site=ulm,spool=5f "
        "gpu_load_percent=0,power_vdd_cpu_cv_w=-0.398,power_vdd_in_w=9,sensor_up_rapl=0 "
        f"{T}"
    )


def test_a_device_that_has_not_described_itself_has_its_id():
    text = f"edgesweep_telemetry,device=n97-01,spool=5f power_vdd_in_w=9 {T}"
    assert told(None, READINGS[0]) == Line(text)


def test_a_record_without_a_value_is_no_line():
    assert told(None, READINGS[3]) == Line(None)
    assert told(None) == Line(None)


@pytest.mark.parametrize(
    ("reading", "labels", "field"),
    [
        (SensorValue("device", "1", 2.0), {}, "reading_device"),
        (SensorValue("time", "", 2.0), {}, "reading_time"),
        (SensorValue("_field", "1", 2.0), {}, "reading__field"),
        (SensorValue("line", "1", 2.0), {"line": "3"}, "reading_line"),
        (SensorValue("l\\a", "1", 2.0), {"l/a": "3"}, "reading_l/a"),
        (SensorValue("line", "1", 2.0), {}, "line"),
        (SensorValue("speed", "m/s\n", 2.0), {}, r"speed_m/s\ "),
        (SensorValue("s" * 200, "W", 2.0), {}, f"{'s' * 200}_w"),
    ],
)
def test_a_field_never_takes_the_name_of_a_tag(reading, labels, field):
    text = told(Device("d", labels=labels), reading).text
    assert text.endswith(f" {field}=2 {T}")


def test_two_readings_of_one_name_are_one_field_and_the_other_is_counted():
    made = told(None, SensorValue("a\\b", "W", 1.0), SensorValue("a/b", "w", 2.5))
    assert made == Line(
        f"edgesweep_telemetry,device=n97-01,spool=5f a/b_w=2.5 {T}", dropped_fields=1
    )


def test_what_is_not_finite_or_has_no_name_is_left_out_and_counted():
    odd = [SensorValue("x", "W", value) for value in (math.nan, math.inf, -math.inf)]
    assert told(None, *odd, SensorValue("", "", 1.0)) == Line(None, dropped_fields=4)
    assert told(None, *odd, READINGS[0]).dropped_fields == 3


def test_it_is_archived_and_shown(archive, tmp_path):
    beat = Heartbeat(1, 0, 0, sensor_up={"rapl": False, "power_rails": True})
    records = [Birth(wire.DEVICE, 1, 1), TELEMETRY, beat]
    kept = archive.append([wire.received(one, n) for n, one in enumerate(records, 1)])
    assert kept == [Kept.STORED] * 3
    (device,) = json.loads(devices(tmp_path, "--json"))["devices"]
    assert device["sensor_up"] == {"power_rails": True, "rapl": False}
    assert device["telemetry_ns"] == wire.MADE_NS
    assert device["readings"][0] == {
        "name": "power_vdd_in",
        "unit": "W",
        "value": 9.0,
        "reason": "",
    }
    assert device["readings"][3]["value"] is None
    assert device["readings"][3]["reason"] == "only root may read it"
    assert "1 of 2 up: not rapl" in devices(tmp_path)


def test_a_device_that_tells_of_no_sensor_is_shown_without(archive, tmp_path):
    archive.append([wire.received(Heartbeat(1, 0, 0), 1)])
    (device,) = json.loads(devices(tmp_path, "--json"))["devices"]
    assert (device["sensor_up"], device["readings"], device["telemetry_ns"]) == ({}, [], None)
    assert " up" not in devices(tmp_path)


def test_strict_json_even_of_a_value_that_is_no_number(archive, tmp_path):
    odd = Telemetry((SensorValue("x", "W", math.inf),))
    archive.append([wire.received(odd, 1)])
    (device,) = json.loads(devices(tmp_path, "--json"), parse_constant=pytest.fail)["devices"]
    assert device["readings"][0]["value"] is None


def test_the_newest_telemetry_stands_whatever_arrives_late(archive):
    newer, older = Telemetry(READINGS[:1]), Telemetry(READINGS[1:2])
    archive.append([wire.received(newer, 9), wire.received(older, 3)])
    (device,) = archive.devices()
    assert device.telemetry == newer


class Keeping:
    def __init__(self):
        self.lines = []

    def write(self, lines):
        self.lines += lines


def followed(archive, until_row):
    """The lines of everything up to a row, from the start."""
    writer = Keeping()

    async def follow():
        follower = Follower(
            archive, writer, name="influx_telemetry", read=batch.telemetry, pace=Pace(2, 0.01)
        )
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follower.run)
                while archive.cursor("influx_telemetry") < until_row:
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    archive.set_cursor("influx_telemetry", 0)
    anyio.run(follow)
    return writer.lines


def test_a_replay_has_the_same_bytes_also_after_new_labels(archive):
    moved = replace(wire.DEVICE, labels={"site": "graz"})
    records = [
        TELEMETRY,
        Birth(wire.DEVICE, 1, 1),
        TELEMETRY,
        wire.level(1),
        Telemetry(()),
        TELEMETRY,
    ]
    archive.append([wire.received(one, n) for n, one in enumerate(records, 1)])
    first = followed(archive, 6)
    assert ["site=ulm" in text for text in first] == [False, True, True]
    assert len({text.rsplit(" ", 1)[1] for text in first}) == 3
    archive.append([wire.received(Birth(moved, 1, 2), 7), wire.received(TELEMETRY, 8)])
    again = followed(archive, 8)
    assert again[:3] == first
    assert "site=graz" in again[3]
    archive.rebuild()
    assert followed(archive, 8) == again


def test_levels_and_telemetry_have_their_own_cursors(archive):
    archive.append([wire.received(wire.level(1), 1), wire.received(TELEMETRY, 2)])
    assert [row.row_id for row in archive.telemetry_after(0, 9)] == [2]
    assert archive.telemetry_after(2, 9) == []
    followed(archive, 2)
    assert archive.cursor("influx") == 0


def test_an_archive_of_the_first_version_is_brought_here(tmp_path):
    old = sqlite3.connect(tmp_path / "old.db")
    old.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
    for statement in MIGRATIONS[0]:
        old.execute(statement.format(**TYPES["sqlite"]))
    old.execute("INSERT INTO schema_version VALUES (1)")
    old.execute("INSERT INTO devices VALUES ('n97-01', 5, 6, NULL, NULL)")
    old.commit()
    old.close()
    archive = Archive.open(f"sqlite:///{tmp_path / 'old.db'}")
    assert archive.append([wire.received(TELEMETRY, 1)]) == [Kept.STORED]
    (device,) = archive.devices()
    assert (device.first_seen_ns, device.telemetry) == (5, TELEMETRY)
    archive.close()


def scraped(archive):
    counters = Counters()
    counters.registry.register(SensorStates(archive))
    text = generate_latest(counters.registry).decode()
    return re.findall(r"(?m)^edgesweep_sensor_up\{.*$", text)


def test_prometheus_sees_every_sensor(archive):
    one = Heartbeat(1, 0, 0, sensor_up={"rapl": False, "power_rails": True})
    archive.append(
        [
            wire.received(one, 1),
            wire.received(Heartbeat(2, 0, 0, sensor_up={"thermal": True}), 1, device_id="n97-02"),
            wire.received(Heartbeat(2, 0, 0), 1, device_id="n97-03"),
        ]
    )
    assert scraped(archive) == [
        'edgesweep_sensor_up{device="n97-01",sensor="power_rails"} 1.0',
        'edgesweep_sensor_up{device="n97-01",sensor="rapl"} 0.0',
        'edgesweep_sensor_up{device="n97-02",sensor="thermal"} 1.0',
    ]


def test_a_device_that_is_silent_has_no_state_of_today(archive):
    beat = Heartbeat(1, 0, 0, sensor_up={"rapl": True})
    long_ago = time.time_ns() - 2 * 3600 * 10**9
    archive.append([wire.received(beat, 1, received_ns=long_ago)])
    assert scraped(archive) == []


def test_the_other_metrics_are_there_while_the_archive_does_not_answer():
    class Down:
        def sensors_up(self, since_ns):
            raise ArchiveUnavailable("disk full")

    counters = Counters()
    counters.registry.register(SensorStates(Down()))
    served = application(Down(), dict, counters.registry)

    async def ask():
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/metrics")

    answer = anyio.run(ask)
    assert answer.status_code == 200
    assert "edgesweep_archive_rows" in answer.text
    assert "edgesweep_sensor_up{" not in answer.text


def test_the_document_names_what_there_is():
    text = DOC.read_text(encoding="utf-8")
    for word in (MEASUREMENT, "`influx_telemetry`", "`sensor_up_`", "edgesweep_sensor_up{device,"):
        assert word in text
