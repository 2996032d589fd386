"""Graphics cards that the kernel drives itself: AMD's and Intel's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import temperatures

from .files import Missing, absent
from .readings import nothing, of_file, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_CARDS = "sys/class/drm"
_AMD, _INTEL = "0x1002", "0x8086"


def cards(files: Files, vendor: str) -> list[str]:
    """The folders of a maker's cards, connectors left out."""
    return [
        path
        for path in files.names(_CARDS, r"card\d+")
        if files.text(f"{path}/device/vendor") == vendor
    ]


class AmdGpu:
    """``amdgpu_load``, its memory (an APU's models sit in GTT, not in VRAM), power, clock."""

    name = "amdgpu"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Each file is optional: an APU lacks some, and the busy share can be refused."""
        found = [
            one for at, card in enumerate(cards(self._files, _AMD)) for one in self._card(at, card)
        ]
        return found or nothing("amdgpu_load", "percent", "no AMD GPU")

    def _card(self, at: int, card: str) -> list[Reading]:
        head = "amdgpu" if at == 0 else f"amdgpu{at}"
        device, chip = f"{card}/device", next(iter(self._files.names(f"{card}/device/hwmon")), "")
        files = {
            f"{head}_load": ("percent", f"{device}/gpu_busy_percent", 1.0),
            f"{head}_vram_total": ("bytes", f"{device}/mem_info_vram_total", 1.0),
            f"{head}_vram_used": ("bytes", f"{device}/mem_info_vram_used", 1.0),
            f"{head}_gtt_total": ("bytes", f"{device}/mem_info_gtt_total", 1.0),
            f"{head}_gtt_used": ("bytes", f"{device}/mem_info_gtt_used", 1.0),
            f"{head}_frequency": ("Hz", f"{chip}/freq1_input", 1.0),
        }
        found = [
            of_file(self._files, name, unit, path, scale=scale)
            for name, (unit, path, scale) in files.items()
        ]
        return [
            *found,
            reading(f"temperature_{head}", "C", self._celsius(f"{chip}/temp1_input")),
            reading(f"power_{head}", "W", self._watts(chip), boundary="gpu"),
        ]

    def _celsius(self, path: str) -> float | Missing:
        milli = self._files.number(path)
        if isinstance(milli, Missing):
            return milli
        celsius = temperatures.believable(milli / 1000)
        return absent(f"/{path}: {milli} is no temperature") if celsius is None else celsius

    def _watts(self, chip: str) -> float | Missing:
        average = self._files.number(f"{chip}/power1_average")
        found = (
            self._files.number(f"{chip}/power1_input") if isinstance(average, Missing) else average
        )
        return found if isinstance(found, Missing) else found * 1e-6


class IntelGpu:
    """``igpu_frequency`` and what holds it down.

    Its load needs CAP_PERFMON, and its power is RAPL's ``uncore``.
    """

    name = "intel_gpu"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """The i915 driver's files, or those of xe."""
        card = next(iter(cards(self._files, _INTEL)), "")
        if not card:
            return nothing("igpu_frequency", "Hz", "no Intel GPU")
        old = self._files.has(f"{card}/gt_act_freq_mhz")
        clock, gt = (
            (f"{card}/gt_act_freq_mhz", f"{card}/gt/gt0/throttle_reason_")
            if old
            else (
                f"{card}/device/tile0/gt0/freq0/act_freq",
                f"{card}/device/tile0/gt0/freq0/throttle/reason_",
            )
        )
        found = [of_file(self._files, "igpu_frequency", "Hz", clock, scale=1e6)]
        return found + [
            of_file(self._files, f"throttle_igpu_{why}", "1", f"{gt}{why}")
            for why in ("thermal", "pl1", "pl2", "prochot")
            if self._files.has(f"{gt}{why}")
        ]
