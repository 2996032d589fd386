"""Memory while an engine runs: when it has to end, and what the level came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgesweep.sizes import size_text

SHORTEST_S = 0.01
"""Between two looks when memory goes fast."""
_LOOKS_TO_FLOOR = 4
"""How many looks there should be before a fall at the present rate reaches the reserve."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a level must keep to.

    ``reserve_bytes`` stay free for the application on the box; ``mapped_bytes``, weights and
    libraries, are in the file cache and needed.
    """

    reserve_bytes: int
    mapped_bytes: int = 0
    period_s: float = 0.125


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the kernel's figures; counters run since boot. ``None`` is not told."""

    at_s: float
    available_bytes: int | None
    limited_by: str = "MemAvailable"
    used_bytes: int | None = None
    swap_in_bytes: int = 0
    swap_used_bytes: int = 0
    refault_bytes: int = 0
    oom_kills: int = 0


@dataclass(frozen=True, slots=True)
class GuardReport:
    """What memory did during a level. ``breach`` says why the engine was ended, if it was."""

    looks: int = 0
    longest_gap_s: float = 0.0
    minimum_available_bytes: int | None = None
    limited_by: str = ""
    used_start_bytes: int | None = None
    used_peak_bytes: int | None = None
    swap_in_bytes: int = 0
    swap_growth_bytes: int = 0
    refault_bytes: int = 0
    oom_kills: int = 0
    breach: str | None = None
    breach_at_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the level has failed: ``oom``, ``memory_floor``, or nothing."""
        if self.oom_kills:
            return "oom"
        return "memory_floor" if self.breach else ""


@dataclass(slots=True)
class Pressure:
    """Takes looks in their order; says once when the engine has to end."""

    limits: Limits
    notes: list[str] = field(default_factory=list)
    _first: Look | None = None
    _last: Look | None = None
    _minimum: Look | None = None
    _looks: int = 0
    _gap_s: float = 0.0
    _rates: tuple[float, float] = (0.0, 0.0)
    _used_peak: int | None = None
    _swap_peak: int = 0
    _breach: str | None = None
    _breach_at_s: float | None = None

    def observe(self, look: Look) -> str | None:
        """The reason to end the engine, told once: under the reserve, or there by the next look."""
        self._follow(look)
        if self._breach is not None or look.available_bytes is None:
            return None
        reserve = self.limits.reserve_bytes
        expected = look.available_bytes - self._rate * self.next_s()
        if expected >= reserve:
            return None
        fell = "is" if look.available_bytes < reserve else "will at the next look be"
        self._breach_at_s = look.at_s
        self._breach = (
            f"memory_floor: available {size_text(look.available_bytes)} ({look.limited_by}) "
            f"{fell} under the reserve of {size_text(reserve)}, "
            f"falling by {size_text(round(self._rate))} a second"
        )
        return self._breach

    def next_s(self) -> float:
        """Seconds until the next look: fewer as the reserve comes near."""
        last, period = self._last, self.limits.period_s
        fastest = self._rates[1]
        if last is None or last.available_bytes is None or fastest <= 0:
            return period
        to_floor = (last.available_bytes - self.limits.reserve_bytes) / fastest
        return min(period, max(SHORTEST_S, to_floor / _LOOKS_TO_FLOOR))

    def report(self) -> GuardReport:
        """The figures up to the last look; those of swap and refaults since the first."""
        first, last, minimum = self._first, self._last, self._minimum
        if first is None or last is None:
            return GuardReport(notes=tuple(self.notes))
        return GuardReport(
            looks=self._looks,
            longest_gap_s=self._gap_s,
            minimum_available_bytes=minimum.available_bytes if minimum else None,
            limited_by=(minimum or last).limited_by,
            used_start_bytes=first.used_bytes,
            used_peak_bytes=self._used_peak,
            swap_in_bytes=last.swap_in_bytes - first.swap_in_bytes,
            swap_growth_bytes=max(0, self._swap_peak - first.swap_used_bytes),
            refault_bytes=last.refault_bytes - first.refault_bytes,
            oom_kills=last.oom_kills - first.oom_kills,
            breach=self._breach,
            breach_at_s=self._breach_at_s,
            notes=tuple(self.notes),
        )

    @property
    def _rate(self) -> float:
        """Bytes a second that two falls agree on: one step, as the KV taken at start, is none."""
        return max(0.0, min(self._rates))

    def _follow(self, look: Look) -> None:
        last = self._last
        self._first = self._first or look
        if last is not None:
            self._gap_s = max(self._gap_s, look.at_s - last.at_s)
            self._rates = (self._rates[1], _fall(last, look))
        if look.available_bytes is not None and (
            self._minimum is None or look.available_bytes < (self._minimum.available_bytes or 0)
        ):
            self._minimum = look
        if look.used_bytes is not None:
            self._used_peak = max(self._used_peak or 0, look.used_bytes)
        self._swap_peak = max(self._swap_peak, look.swap_used_bytes)
        self._last, self._looks = look, self._looks + 1


def _fall(last: Look, look: Look) -> float:
    if last.available_bytes is None or look.available_bytes is None or look.at_s <= last.at_s:
        return 0.0
    return (last.available_bytes - look.available_bytes) / (look.at_s - last.at_s)
