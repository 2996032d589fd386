"""What Prometheus sees of the projections and of the devices; docs/metrics.md lists all of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import wire
from edgesweep.records import Heartbeat, Kind, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.gauges import HEARD_WITHIN_S, DeviceGauges, ProjectionGauges
from edgesweep_collector.projection.follow import Status
from edgesweep_collector.projection.replay import FOLLOWED
from edgesweep_collector.projection.settle import State
from edgesweep_collector.web.sensors import SensorStates

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
NOW_NS = wire.MADE_NS + 90 * 10**9


@dataclass
class Backlog:
    rows: int
    oldest_ns: int | None


def scraped(*collectors):
    registry = CollectorRegistry()
    for one in collectors:
        registry.register(one)
    lines = generate_latest(registry).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


@pytest.fixture
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    yield made
    made.close()


def test_where_a_projection_stands():
    status = Status(
        cursor=17,
        moved_ns=NOW_NS - 4 * 10**9,
        written=12,
        dead_letters=1,
        expired=2,
        dropped_fields=3,
        dropped_points=4,
        unknown_metrics=5,
        state=State.REFUSED,
        alarm="influx_auth",
    )
    asked = []

    def backlog(name, cursor):
        asked.append((name, cursor))
        return Backlog(9, NOW_NS - 30 * 10**9)

    found = scraped(ProjectionGauges({"influx": lambda: status}, backlog, lambda: NOW_NS))
    assert asked == [("influx", 17)]
    label = '{projection="influx"}'
    assert found == {
        f"edgesweep_projection_written_total{label}": "12.0",
        f"edgesweep_projection_dead_letters_total{label}": "1.0",
        f"edgesweep_projection_expired_total{label}": "2.0",
        f"edgesweep_projection_dropped_fields_total{label}": "3.0",
        f"edgesweep_projection_dropped_points_total{label}": "4.0",
        f"edgesweep_projection_unknown_metrics_total{label}": "5.0",
        f"edgesweep_projection_cursor{label}": "17.0",
        f"edgesweep_projection_cursor_age_seconds{label}": "4.0",
        f"edgesweep_projection_up{label}": "0.0",
        f"edgesweep_projection_standby{label}": "0.0",
        'edgesweep_projection_alarm{alarm="influx_auth",projection="influx"}': "1.0",
        f"edgesweep_projection_lag_rows{label}": "9.0",
        f"edgesweep_projection_lag_seconds{label}": "30.0",
    }


def test_one_that_stands_by_has_no_lag_of_its_own():
    standing = Status(cursor=17, moved_ns=1, standby=True)

    def backlog(_name, _cursor):
        raise AssertionError("nothing is to be asked")

    found = scraped(ProjectionGauges({"influx": lambda: standing}, backlog, lambda: NOW_NS))
    assert found['edgesweep_projection_standby{projection="influx"}'] == "1.0"
    assert not [name for name in found if "lag" in name or "age" in name]


def test_nothing_left_to_do_is_no_lag():
    gauges = ProjectionGauges({"x": Status}, lambda *_: Backlog(0, None), lambda: NOW_NS)
    found = scraped(gauges)
    assert found['edgesweep_projection_lag_seconds{projection="x"}'] == "0.0"
    assert 'edgesweep_projection_cursor_age_seconds{projection="x"}' not in found


def test_the_lag_is_what_the_archive_holds(archive):
    readings = Telemetry((SensorValue("x", "W", 1.0),))
    records = [wire.level(1), readings, wire.level(2), readings, readings]
    archive.append([wire.received(one, n, received_ns=NOW_NS + n) for n, one in enumerate(records)])
    statuses = {"influx": lambda: Status(cursor=1), "influx_telemetry": Status}
    gauges = ProjectionGauges(
        statuses,
        lambda name, cursor: archive.backlog(FOLLOWED[name], cursor),
        lambda: NOW_NS + 2 + 5 * 10**9,
    )
    found = scraped(gauges)
    assert found['edgesweep_projection_lag_rows{projection="influx"}'] == "1.0"
    assert found['edgesweep_projection_lag_seconds{projection="influx"}'] == "5.0"
    assert found['edgesweep_projection_lag_rows{projection="influx_telemetry"}'] == "3.0"
    assert archive.backlog(Kind.TELEMETRY, 2, 4).rows == 1


def test_what_a_device_said_last(archive):
    beats = [
        Heartbeat(1, spool_rows=7, spool_bytes=4096, dropped={"telemetry": 3, "heartbeat": 1}),
        Heartbeat(9, spool_rows=2, spool_bytes=512, troubles={"certificate": "ends in 3 d"}),
        Heartbeat(1, spool_rows=99, spool_bytes=99),
    ]
    names = ["n97-01", "n97-02", "n97-03"]
    came = [wire.MADE_NS + 2 * 10**9, NOW_NS, NOW_NS - (HEARD_WITHIN_S + 1) * 10**9]
    archive.append(
        [
            wire.received(beat, 1, device_id=name, received_ns=at)
            for beat, name, at in zip(beats, names, came, strict=True)
        ]
    )
    found = scraped(DeviceGauges(archive.heartbeats, lambda: {"n97-02": 12}, lambda: NOW_NS))
    assert found == {
        'edgesweep_device_heartbeat_age_seconds{device="n97-01"}': "88.0",
        'edgesweep_device_heartbeat_age_seconds{device="n97-02"}': "0.0",
        'edgesweep_device_spool_rows{device="n97-01"}': "7.0",
        'edgesweep_device_spool_rows{device="n97-02"}': "2.0",
        'edgesweep_device_spool_bytes{device="n97-01"}': "4096.0",
        'edgesweep_device_spool_bytes{device="n97-02"}': "512.0",
        'edgesweep_device_clock_skew_seconds{device="n97-01"}': "2.0",
        'edgesweep_device_clock_skew_seconds{device="n97-02"}': "90.0",
        'edgesweep_device_dropped_records_total{device="n97-01",kind="heartbeat"}': "1.0",
        'edgesweep_device_dropped_records_total{device="n97-01",kind="telemetry"}': "3.0",
        'edgesweep_device_trouble{device="n97-02",part="certificate"}': "1.0",
        'edgesweep_device_missing_records{device="n97-02"}': "12.0",
    }


def test_the_others_are_there_while_the_archive_does_not_answer():
    def down(*_):
        raise ArchiveUnavailable("disk full")

    projections = ProjectionGauges({"influx": Status}, down, lambda: NOW_NS)
    found = scraped(projections, DeviceGauges(down, down, lambda: NOW_NS))
    assert found['edgesweep_projection_up{projection="influx"}'] == "1.0"
    assert not [name for name in found if "lag" in name or "device" in name]


def registered():
    """Every metric there is, by the name under which it is scraped."""
    counters = Counters()
    for one in (
        ProjectionGauges({}, lambda *_: Backlog(0, None)),
        DeviceGauges(lambda _: [], dict),
        SensorStates(None),
    ):
        counters.registry.register(one)
    # Only what describes itself can be listed without an archive.
    families = [f for one in counters.registry._collector_to_names for f in one.describe()]
    return {f.name + ("_total" if f.type == "counter" else ""): f for f in families}


def test_the_page_lists_every_metric_with_its_labels_and_its_meaning():
    rows = re.findall(
        r"^\| `(edgesweep_\w+)(?:\{([\w,]+)\})?` \| (.*) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    listed = {name: (labels, text) for name, labels, text in rows}
    found = registered()
    assert listed.keys() == found.keys()
    assert {name: text for name, (_, text) in listed.items()} == {
        name: family.documentation for name, family in found.items()
    }
    for name, family in found.items():
        if labels := getattr(family, "_labelnames", ()):
            assert listed[name][0] == ",".join(labels), name
