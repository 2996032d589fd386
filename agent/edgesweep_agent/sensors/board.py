"""What a box is made of, gathered from its files: what its hardware class is named after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import chip_names, cpu_info, dmi
from edgesweep_agent.core.available import parse_meminfo
from edgesweep_agent.core.hardware_class import Board, Gpu

from .files import Missing

if TYPE_CHECKING:
    from .files import Files
    from .nvml import Nvml

DEVICE_TREE = "proc/device-tree"
_DMI = "sys/class/dmi/id"
_PCI = "sys/bus/pci/devices"
_CPUS = "sys/devices/system/cpu"
_CLOCKS = "sys/devices/system/clocksource/clocksource0/available_clocksource"
_BY_CLOCK = {"kvm-clock": "kvm", "xen": "xen", "hyperv_clocksource_tsc_page": "hyper-v"}
"""What a virtual machine without SMBIOS can be told by."""
_NVIDIA, _INTEL, _AMD = "0x10de", "0x8086", "0x1002"
_MAKERS = frozenset({_NVIDIA, _INTEL, _AMD})
_DISPLAY = "0x03"
"""The PCI class of display controllers."""
_INTEGRATED_SLOT = "0000:00:02.0"
"""Where every Intel processor has its own GPU."""


def board(files: Files, nvml: Nvml | Missing) -> Board:
    """Everything that the class is made from; what is not there is empty."""
    cpu = cpu_info.parse(files.text("proc/cpuinfo"), cpu_info.count(files.text(f"{_CPUS}/present")))
    found = dmi_fields(files)
    compatible = device_tree(files, "compatible")
    hypervisor = dmi.hypervisor(found) or files.text("sys/hypervisor/type")
    if not hypervisor and (cpu.virtual or "linux,dummy-virt" in compatible):
        clocks = files.text(_CLOCKS).split()
        hypervisor = next((kind for clock, kind in _BY_CLOCK.items() if clock in clocks), "unknown")
    return Board(
        cpu=cpu,
        memory_bytes=parse_meminfo(files.text("proc/meminfo")).get("MemTotal", 0),
        compatible=() if hypervisor else compatible,
        module_hints=(
            *(f"p{entry}" for entry in device_tree(files, "nvidia,boardids")),
            *device_tree(files, "nvidia,dtsfilename"),
            files.text("etc/nv_boot_control.conf"),
        ),
        dmi=found,
        gpus=gpus(files, nvml, soc=bool(compatible)),
        virtual_machine=hypervisor,
    )


def device_tree(files: Files, name: str) -> tuple[str, ...]:
    """The texts of a property; the kernel separates and ends them by NUL."""
    return tuple(part for part in files.text(f"{DEVICE_TREE}/{name}").split("\0") if part)


def dmi_fields(files: Files) -> dict[str, str]:
    """SMBIOS as it stands, placeholders too."""
    return {name: text for name in dmi.FIELDS if (text := files.text(f"{_DMI}/{name}"))}


def gpus(files: Files, nvml: Nvml | Missing, *, soc: bool) -> tuple[Gpu, ...]:
    """The GPUs; one that is a part of the named chip (a Jetson's) adds nothing to its name."""
    found = [] if isinstance(nvml, Missing) else _of_nvml(nvml, soc=soc)
    skipped = set() if isinstance(nvml, Missing) else {_NVIDIA}
    return (*found, *_of_pci(files, _MAKERS - skipped))


def _of_pci(files: Files, makers: frozenset[str]) -> list[Gpu]:
    """By PCI id. Screens of a management controller and of a virtual machine are no GPUs."""
    screens = [
        path for path in files.names(_PCI) if files.text(f"{path}/class").startswith(_DISPLAY)
    ]
    screens += [f"{path}/device" for path in files.names("sys/class/drm", r"card\d+")]
    found: dict[str, Gpu] = {}
    for path in screens:
        maker, model = (files.text(f"{path}/{name}") for name in ("vendor", "device"))
        if maker in makers:
            slot = files.target(path)
            kind = "igpu" if (maker, slot) == (_INTEL, _INTEGRATED_SLOT) else "gpu"
            found[slot] = Gpu(f"{kind}-{maker.removeprefix('0x')}:{model.removeprefix('0x')}")
    return list(found.values())


def _of_nvml(nvml: Nvml, *, soc: bool) -> list[Gpu]:
    found = []
    for at, name in enumerate(nvml.names()):
        if soc and chip_names.shares_memory(name):
            continue
        memory = nvml.memory_bytes(at)
        found.append(Gpu(chip_names.gpu(name), None if isinstance(memory, Missing) else memory))
    return found
