"""``edgesweep_sensor_up`` on ``/metrics``: the archive is asked at each scrape."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import GaugeMetricFamily

from edgesweep_collector.errors import ArchiveUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HEARD_WITHIN_S = 3600
"""What a device that is silent for longer once said of its sensors is no state of today."""


class Heartbeats(Protocol):
    """What is needed of the archive; the call blocks."""

    def sensors_up(self, since_ns: int) -> Mapping[str, Mapping[str, bool]]:
        """By device and sensor."""


class SensorStates:
    """A collector for a registry of ``prometheus_client``."""

    def __init__(self, archive: Heartbeats, clock: Callable[[], int] = time.time_ns) -> None:
        self._archive = archive
        self._clock = clock

    def describe(self) -> list[GaugeMetricFamily]:
        """The metric without its values, which are not to be read to register it."""
        return [_family()]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge a sensor; none while the archive does not answer, which others tell of."""
        family = _family()
        try:
            found = self._archive.sensors_up(self._clock() - HEARD_WITHIN_S * 10**9)
        except ArchiveUnavailable:
            found = {}
        for device_id, sensors in sorted(found.items()):
            for name, up in sorted(sensors.items()):
                family.add_metric([device_id, name], float(up))
        yield family


def _family() -> GaugeMetricFamily:
    text = (
        "1 if a sensor of a device had a value at its last reading, by the last heartbeat of "
        "the past hour."
    )
    return GaugeMetricFamily("edgesweep_sensor_up", text, labels=["device", "sensor"])
