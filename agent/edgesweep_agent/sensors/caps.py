"""The live limits of a box, gathered from its files: what its performance state is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import jetson
from edgesweep_agent.core.cpu_info import count
from edgesweep_agent.core.performance_state import Caps, Policy

from . import gpu_devfreq, memory_clock
from .board import device_tree
from .files import Missing

if TYPE_CHECKING:
    from .files import Files
    from .nvml import Nvml

_CPUS = "sys/devices/system/cpu"
_PACKAGE = "sys/class/powercap/intel-rapl:0"


def caps(files: Files, nvml: Nvml | Missing) -> Caps:
    """Read the limits now: they change under a run, by nvpmodel, jetson_clocks or a BIOS."""
    gpu = gpu_devfreq.node(files)
    card = next(
        (
            path
            for path in files.names("sys/class/drm", r"card\d+")
            if files.has(f"{path}/gt_max_freq_mhz")
        ),
        "",
    )
    return Caps(
        online=count(files.text(f"{_CPUS}/online")) or None,
        quota=_quota(files),
        policies=tuple(
            policy
            for path in files.names(f"{_CPUS}/cpufreq", r"policy\d+")
            if (policy := _policy(files, path)) is not None
        ),
        gpu_max_khz=_scaled(files.integer(f"{gpu}/max_freq"), 1e-3),
        gpu_min_khz=_scaled(files.integer(f"{gpu}/min_freq"), 1e-3),
        igpu_max_khz=_scaled(files.integer(f"{card}/gt_max_freq_mhz"), 1e3),
        gpu_mask=files.integer(f"{gpu}/device/tpc_pg_mask") if gpu else None,
        memory_max_khz=next(
            (hz // 1000 for path in memory_clock.CAPS if (hz := files.integer(path))), None
        ),
        package_limits_uw=_package_limits(files),
        gpu_limits_mw=() if isinstance(nvml, Missing) else nvml.power_limits_mw(),
        turbo=_turbo(files),
        unlocked=jetson.is_super(device_tree(files, "compatible")),
    )


def _policy(files: Files, path: str) -> Policy | None:
    highest = files.integer(f"{path}/scaling_max_freq")
    if highest is None:
        return None
    cpus = files.text(f"{path}/related_cpus") or files.text(f"{path}/affected_cpus")
    return Policy(
        max_khz=highest,
        min_khz=files.integer(f"{path}/scaling_min_freq") or 0,
        cpus=count(cpus),
        governor=files.text(f"{path}/scaling_governor"),
        preference=files.text(f"{path}/energy_performance_preference"),
    )


def _scaled(value: int | None, factor: float) -> int | None:
    return None if value is None else round(value * factor)


def _package_limits(files: Files) -> tuple[int, ...]:
    """RAPL's long and short term limit, in that order, as far as they are set."""
    by_name = {
        files.text(f"{_PACKAGE}/constraint_{n}_name"): files.integer(
            f"{_PACKAGE}/constraint_{n}_power_limit_uw"
        )
        for n in (0, 1)
    }
    limits = (by_name.get(name) for name in ("long_term", "short_term"))
    return tuple(limit for limit in limits if limit)


def _turbo(files: Files) -> bool | None:
    off = files.integer(f"{_CPUS}/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = files.integer(f"{_CPUS}/cpufreq/boost")
    return None if boost is None else boost == 1


def _quota(files: Files) -> float | None:
    """Processors' worth of time of our own control group; the tightest of its ancestors."""
    own = files.text("proc/self/cgroup")
    group = next((line[4:] for line in own.splitlines() if line.startswith("0::/")), "")
    parts = [part for part in group.split("/") if part and part != ".."]
    folders = ["/".join(["sys/fs/cgroup", *parts[:n]]) for n in range(len(parts) + 1)]
    shares = [share for path in folders if (share := _share(files.text(f"{path}/cpu.max")))]
    old = files.integer("sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = files.integer("sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if old is not None and period and old > 0:
        shares.append(old / period)
    return min(shares, default=None)


def _share(text: str) -> float | None:
    quota, _, period = text.partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None
