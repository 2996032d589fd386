"""What else is worth knowing of a box: differences to warn of, which are not its class."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from edgesweep_agent.core import dmi, jetson
from edgesweep_agent.core.available import parse_meminfo

from .board import device_tree, dmi_fields
from .files import Missing
from .hwmon import Chips

if TYPE_CHECKING:
    from edgesweep_agent.core.hardware_class import Board

    from .files import Files
    from .nvml import Nvml

_DPKG_BYTES = 16 * 1024 * 1024
_CONTAINERS = {".dockerenv": "docker", "run/.containerenv": "podman"}


def attributes(files: Files, board: Board, nvml: Nvml | Missing) -> dict[str, str]:
    """By name; what is not known is left out. No serial number, no host name in clear."""
    found = {
        **_machine(files, board),
        **_software(files, nvml),
        **(_jetson(files) if jetson.soc(board.compatible) else {}),
        **_memory(files),
    }
    return {name: text for name, text in found.items() if text}


def _machine(files: Files, board: Board) -> dict[str, str]:
    names = {"sys_vendor": "vendor", "product_name": "product", "board_name": "board"}
    told = dmi.told(dmi_fields(files))
    cpu = board.cpu
    return {
        "model": " ".join(device_tree(files, "model")),
        **{name: told.get(key, "") for key, name in names.items()},
        "bios": " ".join(told[key] for key in ("bios_vendor", "bios_version") if key in told),
        "architecture": {"x86": "x86_64", "arm": "aarch64"}.get(cpu.architecture, ""),
        "cpu_model": cpu.name or "+".join(cpu.cores),
        "cpu_cores": str(cpu.present or ""),
        "memory_bytes": str(board.memory_bytes or ""),
        "gpu": ", ".join(gpu.key for gpu in board.gpus),
        "virtual_machine": board.virtual_machine,
    }


def _software(files: Files, nvml: Nvml | Missing) -> dict[str, str]:
    kernel = files.text("proc/sys/kernel/osrelease")
    system = re.search(r'(?m)^PRETTY_NAME="?([^"\n]*)', files.text("etc/os-release"))
    driver = re.search(r"Kernel Module.*?\s(\d+[.\d]+)", files.text("proc/driver/nvidia/version"))
    told = ("", "") if isinstance(nvml, Missing) else (nvml.driver(), nvml.cuda())
    cuda = re.search(
        r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)', files.text("usr/local/cuda/version.json")
    )
    return {
        "kernel": kernel,
        "os": system[1] if system else "",
        "nvidia_driver": driver[1] if driver else told[0],
        "cuda": cuda[1] if cuda else told[1],
        "container": next(
            (kind for path, kind in _CONTAINERS.items() if files.has(path)),
            files.text("run/systemd/container"),
        ),
        "hostname_hash": _hashed_host(files),
    }


def _jetson(files: Files) -> dict[str, str]:
    compatible = device_tree(files, "compatible")
    release = jetson.l4t(files.text("etc/nv_tegra_release"))
    if not release:
        packages = files.read("var/lib/dpkg/status", limit=_DPKG_BYTES)
        release = jetson.l4t("", packages) if isinstance(packages, str) else ""
    status = files.text("var/lib/nvpmodel/status")
    chip = next(iter(Chips(files, "ina3221").find()), "")
    return {
        "module": jetson.module_name(jetson.module(compatible)),
        "carrier": jetson.carrier(compatible),
        "l4t": release,
        "jetpack": jetson.jetpack(release),
        "power_mode": jetson.power_mode(status, files.text("etc/nvpmodel.conf")),
        "fan_profile": jetson.fan_profile(status),
        "power_samples_averaged": files.text(f"{chip}/samples") if chip else "",
    }


def _memory(files: Files) -> dict[str, str]:
    told = parse_meminfo(files.text("proc/meminfo"))
    zram = "/dev/zram" in files.text("proc/swaps")
    swap = told.get("SwapTotal", 0)
    controllers = files.text("sys/fs/cgroup/cgroup.controllers").split()
    version = "v2" if "memory" in controllers else ""
    if not version and files.has("sys/fs/cgroup/memory/memory.limit_in_bytes"):
        version = "v1"
    return {
        "swap": f"{'zram' if zram else 'disk'} {swap // 2**20} MiB" if swap else "none",
        "memory_cgroup": version or "none",
        "pressure": "on" if files.has("proc/pressure/memory") else "off",
    }


def _hashed_host(files: Files) -> str:
    """Tells two boxes with one device id apart; salted, since a host name can be guessed."""
    name, salt = files.text("proc/sys/kernel/hostname"), files.text("etc/machine-id")
    return hashlib.sha256(f"{salt}/{name}".encode()).hexdigest()[:12] if name and salt else ""
