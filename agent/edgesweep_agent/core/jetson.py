"""What NVIDIA's modules and releases are called, from what their firmware and files say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MODULES = {
    "p2888-0001": "Jetson AGX Xavier 16GB",
    "p2888-0003": "Jetson AGX Xavier 32GB",
    "p2888-0004": "Jetson AGX Xavier 32GB",
    "p2888-0005": "Jetson AGX Xavier 64GB",
    "p2888-0006": "Jetson AGX Xavier 8GB",
    "p2888-0008": "Jetson AGX Xavier Industrial",
    "p3310-1000": "Jetson TX2",
    "p3448-0000": "Jetson Nano (developer kit)",
    "p3448-0002": "Jetson Nano",
    "p3448-0003": "Jetson Nano 2GB",
    "p3489-0000": "Jetson TX2i",
    "p3489-0888": "Jetson TX2 4GB",
    "p3636-0001": "Jetson TX2 NX",
    "p3668-0000": "Jetson Xavier NX (developer kit)",
    "p3668-0001": "Jetson Xavier NX",
    "p3668-0003": "Jetson Xavier NX 16GB",
    "p3701-0000": "Jetson AGX Orin (developer kit)",
    "p3701-0002": "IGX Orin",
    "p3701-0004": "Jetson AGX Orin 32GB",
    "p3701-0005": "Jetson AGX Orin 64GB",
    "p3767-0000": "Jetson Orin NX 16GB",
    "p3767-0001": "Jetson Orin NX 8GB",
    "p3767-0003": "Jetson Orin Nano 8GB",
    "p3767-0004": "Jetson Orin Nano 4GB",
    "p3767-0005": "Jetson Orin Nano 8GB (developer kit)",
    "p3834-0008": "Jetson AGX Thor",
}
_FAMILIES = frozenset(key[:5] for key in _MODULES)
_JETPACK = {
    "35.1.0": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5.0": "5.1.3",
    "35.6.0": "5.1.4",
    "36.2.0": "6.0 DP",
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "38.4.0": "7.1",
    "39.2.0": "7.2",
}
_JETPACK_SERIES = {"32.7": "4.6", "38.2": "7.0"}
_BOARD = re.compile(r"p(\d{4})-(\d{4})")
_TNSPEC = re.compile(r"\b(\d{4})-\d{3}-(\d{4})-")


def soc(compatible: Sequence[str]) -> str:
    """``tegra234``; "" for what is no Tegra. JetPack 5 adds a ``tegra23x``, which is none."""
    names = (entry.partition(",")[2] for entry in compatible)
    return next((name for name in names if re.fullmatch(r"tegra\d{3}", name)), "")


def module(compatible: Sequence[str], hints: Iterable[str] = ()) -> str:
    """The module's part number, ``p3767-0005``; "" if nothing names it.

    ``compatible`` is ``carrier+module``. ``hints`` are asked next: JetPack 4's ``boardids`` and
    the name of the device tree's source, and TNSPEC of ``nv_boot_control.conf``
    (``3767-301-0003-...``). The text in ``/proc/device-tree/model`` is never asked: it changes
    with the release and is wrong on other makers' carriers.
    """
    for entry in compatible:
        found = _BOARD.search(entry.rpartition("+")[2])
        if found and f"p{found[1]}" in _FAMILIES:
            return found[0]
    for text in hints:
        for family, part in _BOARD.findall(text) + _TNSPEC.findall(text):
            if f"p{family}" in _FAMILIES:
                return f"p{family}-{part}"
    families = (found for text in hints for found in re.findall(r"\bp\d{4}\b(?!-)", text))
    return next((found for found in families if found in _FAMILIES), "")


def carrier(compatible: Sequence[str]) -> str:
    """The carrier board's part number; "" if the firmware does not name one."""
    for entry in compatible:
        head, plus, _ = entry.partition("+")
        found = _BOARD.search(head)
        if plus and found:
            return found[0]
    return ""


def is_super(compatible: Sequence[str]) -> bool:
    """Whether the firmware unlocked the higher modes: written by UEFI, not a setting."""
    return any(entry.endswith("-super") for entry in compatible)


def module_name(part: str) -> str:
    """What the module is sold as; "" for one that we do not know."""
    return _MODULES.get(part, "")


def l4t(release: str, packages: str = "") -> str:
    """``36.4.3`` from ``/etc/nv_tegra_release``, else from dpkg's ``nvidia-l4t-core``."""
    found = re.search(r"# R(\d+) \(release\), REVISION: (\d+)\.(\d+)", release)
    if found is None:
        found = re.search(
            r"(?m)^Package: nvidia-l4t-core\n(?:.+\n)*?Version: (\d+)\.(\d+)\.(\d+)", packages
        )
    return ".".join(found.groups()) if found else ""


def jetpack(l4t_version: str) -> str:
    """The label of a release; "" for one that we do not know: L4T is the fact."""
    series, _, patch = l4t_version.rpartition(".")
    if series in _JETPACK_SERIES:
        label = _JETPACK_SERIES[series]
        return f"{label}.{patch}" if series == "32.7" else label
    return _JETPACK.get(l4t_version, "")


def power_mode(status: str, configuration: str) -> str:
    """``15W (0)`` from nvpmodel's status file and configuration, without starting nvpmodel.

    A label alone: names and ids differ between releases, and the mode can be set while the
    clocks are not (rbonghi/jetson_stats#567 has none at all: "").
    """
    found = re.search(r"pmode:(\d+)", status)
    if found is None:
        return ""
    number = int(found[1])
    name = re.search(rf"<\s*POWER_MODEL\s+ID={number}\s+NAME=(\S+)\s*>", configuration)
    return f"{name[1]} ({number})" if name else str(number)


def fan_profile(status: str) -> str:
    """``quiet`` from nvpmodel's status file; "" where it has none."""
    found = re.search(r"fmode:(?:fan_mode_)?(\w+)", status)
    return found[1] if found else ""
