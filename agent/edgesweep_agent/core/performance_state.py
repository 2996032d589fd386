"""The caps a box runs under just now: the other half of a comparison cell.

Live limits, never the name of a mode: ``15W`` on an Orin Nano is 1497.6 / 612 MHz under one
release and 1510.4 / 624.75 MHz under another, and a mode can be set while its clocks are not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """One cpufreq policy; ``cpus`` is 0 where the kernel does not say how many it has."""

    max_khz: int
    min_khz: int = 0
    cpus: int = 0
    governor: str = ""
    preference: str = ""


@dataclass(frozen=True, slots=True)
class Caps:
    """Every limit that was found; ``None`` where there is no such thing or it cannot be read.

    Attributes:
        online: Processors online.
        quota: Processors' worth of time a container may use.
        igpu_max_khz: Cap of an Intel processor's own GPU.
        gpu_mask: GPU units switched off, as the driver's bit mask.
        memory_max_khz: Cap of the memory clock.
        package_limits_uw: RAPL's long and short term limits.
        gpu_limits_mw: Enforced power limit of each graphics card.
        unlocked: The firmware has the higher ("super") modes.
    """

    online: int | None = None
    quota: float | None = None
    policies: tuple[Policy, ...] = ()
    gpu_max_khz: int | None = None
    gpu_min_khz: int | None = None
    igpu_max_khz: int | None = None
    gpu_mask: int | None = None
    memory_max_khz: int | None = None
    package_limits_uw: tuple[int, ...] = ()
    gpu_limits_mw: tuple[int, ...] = ()
    turbo: bool | None = None
    unlocked: bool = False


def performance_state(caps: Caps) -> str:
    """``cpu6@1497.6,gpu@612,emc@2133,schedutil,free``: MHz and watts, in a fixed order."""
    parts = [
        _cpu(caps),
        f"quota@{caps.quota:g}" if caps.quota is not None else "",
        f"gpu@{_mhz(caps.gpu_max_khz)}" if caps.gpu_max_khz is not None else "",
        f"igpu@{_mhz(caps.igpu_max_khz)}" if caps.igpu_max_khz is not None else "",
        f"tpc-off@{caps.gpu_mask:#x}" if caps.gpu_mask else "",
        f"emc@{_mhz(caps.memory_max_khz)}" if caps.memory_max_khz is not None else "",
        *(f"pl{n}@{uw / 1e6:g}w" for n, uw in enumerate(caps.package_limits_uw, start=1)),
        *(f"gpu-pl@{mw / 1e3:g}w" for mw in caps.gpu_limits_mw),
        "super" if caps.unlocked else "",
        "no-turbo" if caps.turbo is False else "",
        *sorted({_governor(policy) for policy in caps.policies}),
        _pinned(caps),
    ]
    return ",".join(part for part in parts if part)


def _cpu(caps: Caps) -> str:
    head = "cpu" if caps.online is None else f"cpu{caps.online}"
    counts: dict[int, int] = {}
    for policy in caps.policies:
        counts[policy.max_khz] = counts.get(policy.max_khz, 0) + policy.cpus
    speeds = sorted(counts, reverse=True)
    if not speeds:
        return head if caps.online is not None else ""
    if len(speeds) == 1:
        return f"{head}@{_mhz(speeds[0])}"
    shown = (f"{counts[khz]}x{_mhz(khz)}" if counts[khz] else _mhz(khz) for khz in speeds)
    return f"{head}@{'+'.join(shown)}"


def _governor(policy: Policy) -> str:
    return "/".join(word for word in (policy.governor, policy.preference) if word)


def _pinned(caps: Caps) -> str:
    """Pinned: no policy and no GPU can go below its cap (what ``jetson_clocks`` does)."""
    if not caps.policies:
        return ""
    floors = [(policy.min_khz, policy.max_khz) for policy in caps.policies]
    if caps.gpu_max_khz is not None and caps.gpu_min_khz is not None:
        floors.append((caps.gpu_min_khz, caps.gpu_max_khz))
    return "pinned" if all(low >= high for low, high in floors) else "free"


def _mhz(khz: int) -> str:
    return f"{khz / 1000:.3f}".rstrip("0").rstrip(".")
