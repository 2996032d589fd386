"""Metrics that are read at each scrape: how far projections are, and what devices last said.

Each class is a collector for a registry of ``prometheus_client``. What it needs is given as
functions that block; while one of them raises :class:`.ArchiveUnavailable`, its metrics are absent
and the others stay. docs/metrics.md lists all of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from .errors import ArchiveUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from edgesweep.records import Heartbeat

    from .projection.follow import Status

HEARD_WITHIN_S = 3600
"""What a device that is silent for longer once said of its spool is no state of today."""

_PROJECTION = ("projection",)
_DEVICE = ("device",)
_COUNTS = {
    "written": "Lines that InfluxDB stored, resends included.",
    "dead_letters": "Lines that InfluxDB refuses for good, kept in the archive.",
    "expired": "Lines older than InfluxDB keeps any.",
    "dropped_fields": "Values that line protocol cannot express.",
    "dropped_points": "Records of which that left nothing.",
    "unknown_metrics": "Values of metrics that this version does not know.",
}


class Backlog(Protocol):
    """What a projection has yet to write."""

    @property
    def rows(self) -> int:
        """How many archived records."""

    @property
    def oldest_ns(self) -> int | None:
        """When the first of them was received, in ns since 1970; ``None`` of none."""


class HeartbeatRow(Protocol):
    """A device's last heartbeat."""

    @property
    def device_id(self) -> str:
        """Whose."""

    @property
    def received_ns(self) -> int:
        """When it came, by our clock, in ns since 1970."""

    @property
    def wall_ns(self) -> int:
        """When it was made, by the device's clock."""

    @property
    def heartbeat(self) -> Heartbeat:
        """What it says."""


class ProjectionGauges:
    """Where the projections stand.

    Args:
        statuses: By projection, its status now.
        backlog: What there is to do for a projection after a row of the archive.
        clock: Nanoseconds since 1970.
    """

    def __init__(
        self,
        statuses: Mapping[str, Callable[[], Status]],
        backlog: Callable[[str, int], Backlog],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._statuses = statuses
        self._backlog = backlog
        self._clock = clock

    def describe(self) -> list[Metric]:
        """The metrics without their values, which are not to be read to register them."""
        return [*_told({}, self._clock()), *_lags({}, self._clock())]

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        now_ns = self._clock()
        statuses = {name: status() for name, status in sorted(self._statuses.items())}
        yield from _told(statuses, now_ns)
        try:
            backlogs = {
                name: self._backlog(name, status.cursor)
                for name, status in statuses.items()
                if not status.standby
            }
        except ArchiveUnavailable:
            backlogs = {}
        yield from _lags(backlogs, now_ns)


def _told(statuses: Mapping[str, Status], now_ns: int) -> Iterator[Metric]:
    for field, text in _COUNTS.items():
        counter = CounterMetricFamily(f"edgesweep_projection_{field}", text, labels=_PROJECTION)
        for name, status in statuses.items():
            counter.add_metric([name], getattr(status, field))
        yield counter
    cursor = _gauge("projection_cursor", "Last archive row that is done.", _PROJECTION)
    age = _gauge(
        "projection_cursor_age_seconds",
        "Since the cursor last moved, or nothing was left to do.",
        _PROJECTION,
    )
    up = _gauge("projection_up", "1 if the last request was taken.", _PROJECTION)
    standby = _gauge("projection_standby", "1 while another collector projects.", _PROJECTION)
    alarm = _gauge(
        "projection_alarm", "1 for what a person has to put right.", ("projection", "alarm")
    )
    for name, status in statuses.items():
        cursor.add_metric([name], status.cursor)
        up.add_metric([name], float(status.state.value == "ok"))
        standby.add_metric([name], float(status.standby))
        if status.moved_ns and not status.standby:
            age.add_metric([name], (now_ns - status.moved_ns) / 1e9)
        if status.alarm:
            alarm.add_metric([name, status.alarm], 1.0)
    yield from (cursor, age, up, standby, alarm)


def _lags(backlogs: Mapping[str, Backlog], now_ns: int) -> Iterator[Metric]:
    rows = _gauge("projection_lag_rows", "Archived records yet to be written.", _PROJECTION)
    seconds = _gauge(
        "projection_lag_seconds", "Since the oldest of them was received; 0 of none.", _PROJECTION
    )
    for name, backlog in backlogs.items():
        rows.add_metric([name], backlog.rows)
        oldest_ns = backlog.oldest_ns
        seconds.add_metric([name], 0.0 if oldest_ns is None else (now_ns - oldest_ns) / 1e9)
    yield from (rows, seconds)


class DeviceGauges:
    """What each device said in its last heartbeat, and what it owes.

    Args:
        heartbeats: The last one of each device that was heard since an instant, in ns since 1970.
        missing: By device, how many records never came and were not said to be dropped.
        clock: Nanoseconds since 1970.
    """

    def __init__(
        self,
        heartbeats: Callable[[int], Sequence[HeartbeatRow]],
        missing: Callable[[], Mapping[str, int]],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._heartbeats = heartbeats
        self._missing = missing
        self._clock = clock

    def describe(self) -> list[Metric]:
        """The metrics without their values."""
        return [*_beats((), self._clock()), _gaps({})]

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        now_ns = self._clock()
        try:
            rows = self._heartbeats(now_ns - HEARD_WITHIN_S * 10**9)
            missing = self._missing()
        except ArchiveUnavailable:
            rows, missing = [], {}
        yield from _beats(rows, now_ns)
        yield _gaps(missing)


def _beats(rows: Iterable[HeartbeatRow], now_ns: int) -> Iterator[Metric]:
    age = _gauge("device_heartbeat_age_seconds", "Since the last heartbeat came.", _DEVICE)
    depth = _gauge("device_spool_rows", "Records that wait on the device.", _DEVICE)
    size = _gauge("device_spool_bytes", "What they take on its disk.", _DEVICE)
    skew = _gauge(
        "device_clock_skew_seconds",
        "Our clock less the device's when its last heartbeat came, the way included.",
        _DEVICE,
    )
    dropped = CounterMetricFamily(
        "edgesweep_device_dropped_records",
        "Records that the device dropped since its spool was made.",
        labels=("device", "kind"),
    )
    trouble = _gauge("device_trouble", "1 for each part that is not well.", ("device", "part"))
    for row in rows:
        beat, name = row.heartbeat, row.device_id
        age.add_metric([name], (now_ns - row.received_ns) / 1e9)
        depth.add_metric([name], beat.spool_rows)
        size.add_metric([name], beat.spool_bytes)
        skew.add_metric([name], (row.received_ns - row.wall_ns) / 1e9)
        for kind, count in sorted(beat.dropped.items()):
            dropped.add_metric([name, kind], count)
        for part in sorted(beat.troubles):
            trouble.add_metric([name, part], 1.0)
    yield from (age, depth, size, skew, dropped, trouble)


def _gaps(missing: Mapping[str, int]) -> Metric:
    gauge = _gauge(
        "device_missing_records", "Records that never came and were not dropped.", _DEVICE
    )
    for device_id, count in sorted(missing.items()):
        gauge.add_metric([device_id], count)
    return gauge


def _gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"edgesweep_{name}", text, labels=labels)
