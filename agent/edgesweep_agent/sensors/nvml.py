"""NVIDIA's management library, field by field: one that is refused takes no other with it.

On a Jetson it starts, counts one device, and refuses everything that matters; a GPU that shares
the board's memory has none of its own to report (ollama/ollama#12283, GB10, Thor).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgesweep_agent.core import chip_names, temperatures
from edgesweep_agent.core.gpu_memory import Gpu

from .base import State
from .files import Missing, absent, failed
from .readings import nothing, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .base import Reading
    from .files import Files

EXTRA = "pip install 'edgesweep[nvidia]'"
_POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT; ``nvmlDeviceGetPowerUsage`` is a mean of 1 s since Ampere."""
_REFUSED = (2, 3, 13)
"""Invalid argument, not supported, function not found: this GPU or driver will never have it."""
_ALL_BITS = frozenset({2**32 - 1, 2**64 - 1, -1})
"""NVML_VALUE_NOT_AVAILABLE, in the widths that it comes in."""
_THERMAL = 0x20 | 0x40
_POWER_BRAKE = 0x80
_POWER_CAP = 0x04
"""The steady state of a 70 W card: told, and no fault."""


@dataclass(frozen=True, slots=True)
class Field:
    """One figure of a GPU: how to ask for it, and what one unit of it is."""

    name: str
    unit: str
    ask: Callable[[Any, Any], float]
    scale: float = 1.0
    boundary: str = ""


class Nvml:
    """An initialised library and its GPUs. Handles do not survive a fork; we never fork.

    Args:
        module: ``pynvml``, started.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.handles = [
            module.nvmlDeviceGetHandleByIndex(at) for at in range(module.nvmlDeviceGetCount())
        ]
        self._gone: dict[tuple[int, str], Missing] = {}

    def names(self) -> list[str]:
        """The name of each GPU; "" for one that does not tell it."""
        return [_text(self.ask(at, "name", _name)) for at in range(len(self.handles))]

    def memory_bytes(self, at: int) -> int | Missing:
        """Memory of its own."""
        if chip_names.shares_memory(self.names()[at]):
            return absent("this GPU shares the board's memory: memory_available is the limit")
        found = self.ask(
            at, "memory_total", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total
        )
        return found if isinstance(found, Missing) else int(found)

    def gpus(self) -> tuple[Gpu, ...]:
        """Those with memory of their own; one that does not answer just now tells no figures."""
        found = ((at, self.memory_bytes(at)) for at in range(len(self.handles)))
        return tuple(
            Gpu(at, self._uuid(at), _known(total), _known(self._free_bytes(at)))
            for at, total in found
            if not _is_absent(total)
        )

    def _uuid(self, at: int) -> str:
        return _text(self.ask(at, "uuid", lambda nvml, gpu: nvml.nvmlDeviceGetUUID(gpu)))

    def _free_bytes(self, at: int) -> int | Missing:
        found = self.ask(
            at, "memory_free", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free
        )
        return found if isinstance(found, Missing) else int(found)

    def driver(self) -> str:
        """The driver's version; "" if it does not tell it."""
        return _text(self._call("driver", lambda nvml: nvml.nvmlSystemGetDriverVersion()))

    def cuda(self) -> str:
        """The newest CUDA that the driver serves, ``12.4``."""
        found = self._call("cuda", lambda nvml: nvml.nvmlSystemGetCudaDriverVersion())
        return f"{found // 1000}.{found % 1000 // 10}" if isinstance(found, int) else ""

    def power_limits_mw(self) -> tuple[int, ...]:
        """The enforced limit of each GPU that has one."""
        found = (
            self.ask(at, "limit", lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu))
            for at in range(len(self.handles))
        )
        return tuple(int(limit) for limit in found if not isinstance(limit, Missing))

    def ask(self, at: int, name: str, question: Callable[[Any, Any], Any]) -> Any | Missing:
        """One figure of one GPU; what it does not support is not asked for again."""
        if (at, name) in self._gone:
            return self._gone[at, name]
        found = self._call(name, lambda nvml: question(nvml, self.handles[at]))
        if _is_absent(found):
            self._gone[at, name] = found
        return found

    def _call(self, name: str, question: Callable[[Any], Any]) -> Any | Missing:
        try:
            return question(self.module)
        except AttributeError:
            return absent(f"{name}: this release of nvidia-ml-py does not know it")
        except self.module.NVMLError as error:
            code = getattr(error, "value", None)
            if code in _REFUSED:
                return absent(f"{name}: this GPU or its driver does not offer it ({error})")
            return failed(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 - ctypes: a driver of another layout, a bad string
            return failed(f"{name}: {type(error).__name__}: {error}")


def host(files: Files) -> Nvml | Missing:
    """The library of this machine, if it is there; a copy of another box has none."""
    if str(files.root) != "/":
        return absent("not asked: these are another box's files")
    return library(files, lambda: importlib.import_module("pynvml"))


def library(files: Files, load: Callable[[], Any]) -> Nvml | Missing:
    """What ``load`` gives, started; without it, whether it is missed here."""
    here = files.has("proc/driver/nvidia/version") or files.has("dev/nvidiactl")
    try:
        module = load()
    except ImportError:
        if here:
            return failed(f"an NVIDIA GPU is here and nvidia-ml-py is not: {EXTRA}")
        return absent("no NVIDIA driver on this box")
    return start(module)


def start(module: Any) -> Nvml | Missing:
    """Start a library that was imported."""
    try:
        module.nvmlInit()
        return Nvml(module)
    except module.NVMLError as error:
        return absent(f"NVML does not start: {error}")


class NvmlGpu:
    """Some fields of every GPU; the first GPU's names have no number.

    Args:
        name: The sensor's word.
        fields: What to ask for.
        fast: Whether the fields are worth ten readings a second.
    """

    def __init__(
        self, nvml: Nvml | Missing, *, name: str, fields: Iterable[Field], fast: bool = False
    ) -> None:
        self.name = name
        self.fast = fast
        self._nvml = nvml
        self._fields = tuple(fields)

    def read(self) -> list[Reading]:
        """A reading for every field of every GPU."""
        if isinstance(self._nvml, Missing):
            return [reading(one.name, one.unit, self._nvml) for one in self._fields[:1]]
        if not self._nvml.handles:
            return nothing(self._fields[0].name, self._fields[0].unit, "NVML sees no GPU")
        return [
            self._field(self._nvml, at, one)
            for at in range(len(self._nvml.handles))
            for one in self._fields
        ]

    def _field(self, nvml: Nvml, at: int, one: Field) -> Reading:
        name = one.name if at == 0 else one.name.replace("gpu", f"gpu{at}", 1)
        if one.name.startswith("gpu_memory_") and one.unit == "bytes":
            own = nvml.memory_bytes(at)
            if isinstance(own, Missing):
                return reading(name, one.unit, own)
        found = _believed(one, nvml.ask(at, one.name, one.ask))
        return reading(name, one.unit, found, scale=one.scale, boundary=one.boundary)


def _believed(field: Field, found: Any | Missing) -> Any | Missing:
    """What some drivers answer in place of a refusal is none: all bits set, -256 degC."""
    if isinstance(found, Missing):
        return found
    if found in _ALL_BITS or (field.unit == "C" and temperatures.believable(found) is None):
        return absent(f"{field.name}: {found} is what this driver says for not available")
    return found


def _is_absent(found: int | Missing) -> bool:
    return isinstance(found, Missing) and found.state is State.ABSENT


def _known(found: int | Missing) -> int | None:
    return None if isinstance(found, Missing) else found


def _name(nvml: Any, gpu: Any) -> Any:
    return nvml.nvmlDeviceGetName(gpu)


def _text(found: Any | Missing) -> str:
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found if isinstance(found, str) else ""


def _power(nvml: Any, gpu: Any) -> float:
    """The power now where the driver has it, else its mean of the last second."""
    fields = getattr(nvml, "nvmlDeviceGetFieldValues", None)
    if fields is not None:
        (told,) = fields(gpu, [_POWER_INSTANT])
        if told.nvmlReturn == 0 and told.value.uiVal:
            return float(told.value.uiVal)
    return float(nvml.nvmlDeviceGetPowerUsage(gpu))


def _reason(mask: int) -> Callable[[Any, Any], float]:
    def ask(nvml: Any, gpu: Any) -> float:
        old = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        now = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", old)
        if now is None:
            raise AttributeError("no clock event reasons")
        return float(bool(now(gpu) & mask))

    return ask


POWER_FIELDS = (
    Field("power_gpu", "W", _power, 1e-3, "gpu"),
    Field(
        "energy_gpu",
        "J",
        lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
        1e-3,
        "gpu",
    ),
)
"""Worth ten readings a second; energy is since the driver was loaded (Volta and later)."""

FIELDS = (
    Field("gpu_load", "percent", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
    Field("gpu_memory_total", "bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total),
    Field("gpu_memory_used", "bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    Field("gpu_memory_free", "bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free),
    Field("temperature_gpu", "C", lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, 0)),
    Field("gpu_frequency", "Hz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, 1), 1e6),
    Field("throttle_gpu_thermal", "1", _reason(_THERMAL)),
    Field("throttle_gpu_power_brake", "1", _reason(_POWER_BRAKE)),
    Field("gpu_power_capped", "1", _reason(_POWER_CAP)),
)
