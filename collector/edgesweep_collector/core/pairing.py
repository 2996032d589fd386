"""From archived levels to a question: which values of which two contenders may be compared.

Only valid levels enter a curve. A flagged, queued or failed level is a gap, which is not
bridged; a level that was skipped for want of time was never scheduled. Nothing is pooled over
hardware classes, performance states or workloads.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.metrics import REGISTRY, Better, Shape
from edgesweep.records import LevelStatus
from edgesweep_common.errors import UsageError

from .problem import Limit, Problem, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgesweep.records import Contender, LevelResult

    from .problem import Curve, Side, UnitKind

_PLAUSIBLE = (1e-12, 1e12)
"""Seconds, or something a second: what lies outside was never measured."""
_OUT_OF_MEMORY = frozenset({"memory", "memory_floor", "oom"})
"""Reasons that make a level the first that does not fit."""


class PairingError(UsageError):
    """The levels cannot be compared as asked; the text says what to choose instead."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two contenders by letter, and the levels that belong to them."""

    a: Contender
    b: Contender
    levels: tuple[LevelResult, ...]

    def side(self, level: LevelResult) -> Side:
        """``A`` or ``B``."""
        return "A" if level.contender.id == self.a.id else "B"

    def name(self, side: Side) -> str:
        """What people call a side; with the start of its id where both are called the same."""
        own = self.a if side == "A" else self.b
        return own.name if self.a.name != self.b.name else f"{own.name} ({own.id[:8]})"


def pair(levels: Sequence[LevelResult], names: tuple[str, str] | None = None) -> Pair:
    """The two contenders of ``levels``, in the order in which they ran, or as named.

    Raises:
        PairingError: fewer than two contenders, more than two and none named, a name that
            none has, or levels of different cells.
    """
    _one_cell(levels)
    known: dict[str, Contender] = {}
    for level in levels:
        if level.contender.engine != "unknown" or level.n_ok:
            known.setdefault(level.contender.id, level.contender)
    chosen = list(known.values()) if names is None else [_named(known, name) for name in names]
    if len(chosen) != 2 or chosen[0].id == chosen[1].id:
        have = ", ".join(contender.name for contender in known.values()) or "none"
        raise PairingError(f"two contenders are compared; measured were: {have}")
    a, b = chosen
    return Pair(a, b, tuple(level for level in levels if level.contender.id in {a.id, b.id}))


def problem(pair: Pair, metric: str) -> Problem:
    """The comparison of a pair on one metric; a distribution is compared by its median.

    Raises:
        PairingError: no such metric, or none that one can lead on.
    """
    registered = REGISTRY.get(metric)
    if registered is None or registered.better is Better.NEITHER:
        able = ", ".join(m.name for m in REGISTRY.values() if m.better is not Better.NEITHER)
        raise PairingError(f"no metric {metric!r} to compare by; there is {able}")
    units, kind = _units(pair, metric)
    return Problem(
        metric=metric,
        higher_is_better=registered.better is Better.HIGHER,
        units=units,
        engine_a=pair.name("A"),
        engine_b=pair.name("B"),
        unit_kind=kind,
        limit_a=_limit(pair, "A"),
        limit_b=_limit(pair, "B"),
    )


def value(level: LevelResult, metric: str) -> float | None:
    """A level's figure on a metric; ``None`` where it has none, or too few requests for one."""
    if REGISTRY[metric].shape is Shape.SCALAR:
        figure = level.values.get(metric)
    else:
        found = level.distributions.get(metric)
        figure = None if found is None else found.p50
    return figure if figure is not None and _PLAUSIBLE[0] < figure < _PLAUSIBLE[1] else None


def _one_cell(levels: Iterable[LevelResult]) -> None:
    cells = {
        (
            level.device.hardware_class,
            level.device.performance_state,
            level.attributes.get("thermal", ""),
            _policy(level.contender),
            level.workload.name,
            f"{level.workload.prompt_tokens} in, {level.workload.output_tokens} out",
        )
        for level in levels
    }
    if len(cells) > 1:
        found = "; ".join(sorted(" / ".join(part for part in cell if part) for cell in cells))
        raise PairingError(f"levels of different cells are never compared: {found}")


def _policy(contender: Contender) -> str:
    """How slots were chosen: an envelope, or defaults, beside a fixed configuration is no pair."""
    policy = contender.settings.get("policy", "")
    return f"policy {policy}" if policy else ""


def _named(known: Mapping[str, Contender], name: str) -> Contender:
    found = [c for c in known.values() if name == c.name or c.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    have = ", ".join(f"{c.name} ({c.id[:12]})" for c in known.values())
    raise PairingError(f"{name!r} names {len(found)} contenders; measured were: {have}")


def _units(pair: Pair, metric: str) -> tuple[tuple[Unit, ...], UnitKind]:
    """Devices are the units; of a single device, its sessions are, if there are several."""
    by_device, by_session = defaultdict(list), defaultdict(list)
    for level in pair.levels:
        by_device[level.device.device_id].append(level)
        by_session[f"{level.run_id} session {level.session}"].append(level)
    sessions_count = len(by_device) == 1 and len(by_session) > 1
    groups = by_session if sessions_count else by_device
    units = tuple(_unit(name, levels, pair, metric) for name, levels in sorted(groups.items()))
    return units, "session" if sessions_count else "device"


def _unit(name: str, levels: Sequence[LevelResult], pair: Pair, metric: str) -> Unit:
    sides = ([x for x in levels if pair.side(x) == side] for side in ("A", "B"))
    a, b = (_curve(own, metric) for own in sides)
    return Unit(name, a, b)


def _curve(levels: Iterable[LevelResult], metric: str) -> Curve:
    values: defaultdict[int, list[float]] = defaultdict(list)
    gaps: set[int] = set()
    for level in levels:
        if level.status is LevelStatus.VALID:
            figure = value(level, metric)
            if figure is not None:
                values[level.concurrency].append(figure)
        elif level.status is not LevelStatus.SKIPPED or level.reason in _OUT_OF_MEMORY:
            gaps.add(level.concurrency)
    known: dict[int, tuple[float, ...] | None] = {c: tuple(v) for c, v in values.items()}
    return known | dict.fromkeys(gaps - values.keys())


def _limit(pair: Pair, side: Side) -> Limit | None:
    """Where memory stopped a contender, on the unit that it stopped first."""
    own = [level for level in pair.levels if pair.side(level) == side]
    failed = [level.concurrency for level in own if level.reason in _OUT_OF_MEMORY]
    if not failed:
        return None
    ok = [x.concurrency for x in own if x.n_ok and x.concurrency < min(failed)]
    return Limit(last_ok=max(ok, default=0), first_failed=min(failed))
