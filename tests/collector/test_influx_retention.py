"""The commands of docs/influxdb.md for retention and hourly means, on a real 1.x server."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from edgesweep.records import Device, SensorValue, Telemetry
from edgesweep_collector.core.telemetry import telemetry_line, telemetry_series
from edgesweep_collector.projection.influx import InfluxWriter, Target
from edgesweep_collector.projection.settle import Entry, Expired, Stored, settle
from influx import CONTINUOUS, running_influx
from influx_rewrite import rewriting

DOC = Path(__file__).parents[2] / "docs/influxdb.md"
HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS
NOW_NS = time.time_ns()
BEGUN_NS = NOW_NS // HOUR_NS * HOUR_NS - 2 * HOUR_NS


def statements():
    """What the page gives to ``influx -execute``, in its order."""
    text = DOC.read_text(encoding="utf-8").split("## Retention", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"(?m)^influx(?: -database fleet)? -execute '([^']+)'", text)
    return [" ".join(one.split()) for one in found]


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    root = tmp_path_factory.mktemp("influx")
    with running_influx(root, continuous=CONTINUOUS) as server:
        yield server


@pytest.fixture(scope="module")
def prepared(influx):
    """The page's commands, with the continuous query every second instead of every hour."""
    for statement in statements():
        if "SELECT mean" in statement and "CREATE" not in statement:
            continue
        faster = statement.replace("RESAMPLE EVERY 1h", "RESAMPLE EVERY 1s")
        influx.query(faster, method="POST")
    return influx


def line(watts, time_ns):
    readings = Telemetry((SensorValue("power_vdd_in", "W", watts),))
    device = Device("n97-01", labels={"site": "graz"})
    return telemetry_line(telemetry_series("n97-01", device, "0"), readings, time_ns).text


def written(rewrite, lines):
    writer = InfluxWriter(Target(rewrite.url, "", "fleet/raw"))
    steps = list(settle([Entry(n, text) for n, text in enumerate(lines)], writer.write))
    writer.close()
    return steps


def hourly(influx):
    rows = influx.rows('SELECT * FROM "edgesweep_telemetry_hourly" ORDER BY time')
    return {row["time"]: row["mean_power_vdd_in_w"] for row in rows}


def test_the_page_says_how_to_keep_what_for_how_long(prepared):
    policies = {row["name"]: row for row in prepared.rows('SHOW RETENTION POLICIES ON "fleet"')}
    assert policies["raw"]["duration"] == "2160h0m0s"
    assert policies["autogen"]["duration"] == "0s"
    assert policies["autogen"]["default"]
    queries = [row["name"] for row in prepared.rows("SHOW CONTINUOUS QUERIES")]
    assert "telemetry_hourly" in queries


def test_readings_are_kept_for_their_time_and_older_ones_are_told_apart(prepared):
    with rewriting(prepared.url) as rewrite:
        young, old = NOW_NS - 89 * DAY_NS, NOW_NS - 92 * DAY_NS
        steps = written(rewrite, [line(9.0, old), line(9.0, young)])
    assert Expired(1) in steps
    assert Stored(1) in steps
    found = prepared.rows('SELECT * FROM "raw"."edgesweep_telemetry"')
    assert [row["time"] for row in found] == [young]
    assert prepared.rows('SELECT * FROM "autogen"."edgesweep_telemetry"') == []


def test_hourly_means_are_made_by_the_server_and_stay_with_the_results(prepared):
    with rewriting(prepared.url) as rewrite:
        lines = [
            line(float(hour * 10 + minute / 60), BEGUN_NS + hour * HOUR_NS + minute * 60 * 10**9)
            for hour in range(2)
            for minute in range(60)
        ]
        assert written(rewrite, lines) == [Stored(120)]
    deadline = time.monotonic() + 20
    while len(found := hourly(prepared)) < 2:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    expected = {BEGUN_NS: 29.5 / 60, BEGUN_NS + HOUR_NS: 10 + 29.5 / 60}
    assert found == pytest.approx(expected)
    (row, _) = prepared.rows('SELECT * FROM "edgesweep_telemetry_hourly" GROUP BY "site"')
    assert row["site"] == "graz"


def test_means_of_readings_that_came_late_are_made_by_hand(prepared):
    (by_hand,) = (one for one in statements() if one.startswith("SELECT mean"))
    late_ns = BEGUN_NS - 72 * HOUR_NS
    with rewriting(prepared.url) as rewrite:
        assert written(rewrite, [line(4.0, late_ns), line(6.0, late_ns + 1)]) == [Stored(2)]
    assert late_ns not in hourly(prepared)
    prepared.query(by_hand, method="POST")
    assert hourly(prepared)[late_ns] == 5.0
