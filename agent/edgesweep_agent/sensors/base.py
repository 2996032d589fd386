"""What a sensor offers. Absent, failed and zero are three things."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class State(Enum):
    """What became of a reading.

    ``ABSENT``: this box has no such thing, or has it switched off. ``FAILED``: it has one, and
    reading it did not work.
    """

    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one sensor.

    Attributes:
        name: Stable over kernels and boards: ``temperature_cpu``, ``power_vdd_in``, ``gpu_load``.
        unit: ``C``, ``W``, ``J``, ``Hz``, ``s``, ``rpm``, ``bytes``, ``percent``, ``1``.
        value: ``None`` unless ``state`` is ``OK``.
        reason: Why there is no value, and what to do about it if anything can be done.
        boundary: For power and energy, what is inside: ``input``, ``rails``, ``package``, ``gpu``
            (graphics cards), ``wall``. Readings with the same one add up; a part of another
            reading has none.
    """

    name: str
    unit: str
    state: State = State.OK
    value: float | None = None
    reason: str = ""
    boundary: str = ""


class Sensor(Protocol):
    """One source of readings.

    Attributes:
        name: Its word in ``edgesweep_sensor_up``.
        fast: Cheap and fresh enough to be read ten times a second.
    """

    name: str
    fast: bool

    def read(self) -> Sequence[Reading]:
        """What it says now; never raises, never blocks longer than a file read."""
