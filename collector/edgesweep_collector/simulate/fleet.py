"""Who is in the fleet, and what is wrong with whom: everything that is planted is decided here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from edgesweep.records import Device

from .classes import CLASSES, HardwareClass
from .dice import dice, scatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_DEVICES = 100_000
UNIT_SD = 0.02
"""Of a unit's speed in each engine: nobody has published two units of one product."""
OUTLIER = 0.70
"""What an outlier has of its siblings' speed, in both engines."""
REGRESSED = 0.88
"""What the second engine has of its speed after the planted change."""
_MIN_SIBLINGS = 5
_OUTLIERS_OF = 20
_SITES, _LINES = 4, 6


class Fault(Enum):
    """Something that goes wrong on a device, by the word that the truth has for it."""

    GAP_TOLD = "gap_told"
    """Records are dropped now and then, and the collector is told which."""
    GAP_UNTOLD = "gap_untold"
    """Numbers that never come, and nobody says why."""
    CLOCK_UNSET = "clock_unset"
    """Boots in 1970 and is synchronised later, which an event tells."""
    CLOCK_AHEAD = "clock_ahead"
    """Its clock is a day ahead, and it calls that synchronised."""
    DUPLICATES = "duplicates"
    """Sends some records twice."""
    RESTARTS = "restarts"
    """Its agent restarts every few minutes."""
    NEW_EPOCHS = "new_epochs"
    """Its spool is found damaged now and then, and a new one is begun."""
    SENSOR_MISSING = "sensor_missing"
    """One of its sensors fails."""
    LEVELS_FAIL = "levels_fail"
    """The second engine fails at its highest level."""
    LEVELS_FLAGGED = "levels_flagged"
    """It throttles at its two highest levels."""
    LEVELS_SKIPPED = "levels_skipped"
    """Its time budget does not reach the last level."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a fleet is made of.

    Attributes:
        start_ns: When its first device appears, wall time in ns since 1970.
        span_s: How long it lives; ``None`` if nobody knows.
        runs: How many sweeps each device makes before it is silent; ``None`` for no end.
        faults: Whether anything goes wrong.
        regression: What the planted change comes with: ``agent``, ``date`` or ``none``.
        regression_at_s: When it comes, in seconds from the start.
    """

    seed: int
    start_ns: int
    devices: int
    classes: tuple[str, ...] = tuple(CLASSES)
    telemetry_s: float = 60.0
    heartbeat_s: float = 30.0
    pause_s: float = 600.0
    span_s: float | None = None
    runs: int | None = None
    faults: bool = True
    regression: str = "agent"
    regression_at_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Regression:
    """A change for the worse: from when on, in whom, and what people could notice it by.

    Attributes:
        at_s: Seconds from the start of the fleet.
        agent_version: That the agents have from then on; ``None`` if they stay as they are.
    """

    at_s: float
    factor: float
    agent_version: str | None


@dataclass(frozen=True, slots=True)
class SimDevice:
    """One device.

    Attributes:
        joins_s: Seconds from the start of the fleet until it appears.
        speeds: By engine (the first, the second), its speed over that of its class.
    """

    device: Device
    of: HardwareClass
    options: Options
    joins_s: float
    speeds: tuple[float, float]
    outlier: bool = False
    faults: frozenset[Fault] = frozenset()
    regression: Regression | None = None

    @property
    def device_id(self) -> str:
        """Its name."""
        return self.device.device_id

    @property
    def words(self) -> tuple[object, ...]:
        """What all its draws begin with."""
        return self.options.seed, self.options.start_ns, self.device_id


@dataclass(frozen=True, slots=True)
class Fleet:
    """All devices, in the order of their names' numbers."""

    options: Options
    devices: tuple[SimDevice, ...]
    regressed: str | None = None
    by_class: Mapping[str, tuple[SimDevice, ...]] = field(default_factory=dict)

    @property
    def regressions(self) -> frozenset[Regression]:
        """The planted change, if there is one."""
        return frozenset(one.regression for one in self.devices if one.regression)


def fleet(options: Options) -> Fleet:
    """The fleet of these options, the same for the same ones."""
    keys = [options.classes[n % len(options.classes)] for n in range(options.devices)]
    faults = dict(_faults(options))
    outliers = _outliers(options, keys)
    regressed = options.classes[0] if options.regression != "none" else None
    devices = tuple(
        SimDevice(
            device=_device(options, n, CLASSES[key]),
            of=CLASSES[key],
            options=options,
            joins_s=dice(options.seed, "join", n).uniform(0.0, min(30.0, options.heartbeat_s)),
            speeds=_speeds(options, n, outlier=n in outliers),
            outlier=n in outliers,
            faults=faults.get(n, frozenset()),
            regression=_regression(options) if key == regressed else None,
        )
        for n, key in enumerate(keys)
    )
    by_class = {key: tuple(one for one in devices if one.of.key == key) for key in options.classes}
    return Fleet(options, devices, regressed, by_class)


def _device(options: Options, n: int, of: HardwareClass) -> Device:
    board = of.key.partition(".")[2]
    return Device(
        device_id=f"sim{options.seed}-{board}-{n:04d}",
        hardware_class=of.hardware_class,
        performance_state=of.performance_state,
        attributes={
            "cpu_cores": str(of.cores),
            "memory_bytes": str(of.memory_bytes),
            "os": "simulated",
        },
        labels={"site": f"plant-{n % _SITES + 1}", "line": str(n // _SITES % _LINES + 1)},
    )


def _speeds(options: Options, n: int, *, outlier: bool) -> tuple[float, float]:
    base = OUTLIER if outlier else 1.0
    first, second = (
        base * math.exp(scatter(UNIT_SD, options.seed, "unit", n, engine)) for engine in (0, 1)
    )
    return first, second


def _outliers(options: Options, keys: Sequence[str]) -> frozenset[int]:
    """One unit in twenty of each class that has enough of them to be compared with."""
    found: set[int] = set()
    for key in options.classes if options.faults else ():
        of_class = [n for n, one in enumerate(keys) if one == key]
        if len(of_class) >= _MIN_SIBLINGS:
            count = max(1, len(of_class) // _OUTLIERS_OF)
            found.update(dice(options.seed, "outliers", key).sample(of_class, count))
    return frozenset(found)


def _faults(options: Options) -> Iterator[tuple[int, frozenset[Fault]]]:
    """One fault for a third of the devices, each fault as often as the others."""
    count = options.devices // 3 if options.faults else 0
    chosen = dice(options.seed, "faults").sample(range(options.devices), count)
    kinds = list(Fault)
    for k, n in enumerate(chosen):
        yield n, frozenset({kinds[k % len(kinds)]})


def _regression(options: Options) -> Regression:
    version = "0.2.0" if options.regression == "agent" else None
    return Regression(options.regression_at_s, REGRESSED, version)
