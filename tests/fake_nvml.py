"""A stand-in for ``pynvml`` made from the answers of a real one."""

from __future__ import annotations

from types import SimpleNamespace


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__({3: "Not Supported", 15: "GPU is lost"}.get(value, f"error {value}"))


class FakeNvml:
    """Answers from ``told``; a text that names an error raises it.

    A list under ``memory`` or ``uuid`` has an answer for each GPU.
    """

    NVMLError = NVMLError

    def __init__(self, told: dict) -> None:
        self.told = told
        self.asked: list[str] = []

    def _tell(self, key: str, gpu: int = 0):
        self.asked.append(key)
        told = self.told.get(key, "NVML_ERROR_NOT_SUPPORTED")
        if isinstance(told, list) and key in {"memory", "uuid"}:
            told = told[gpu]
        if told == "NVML_ERROR_NOT_SUPPORTED":
            raise NVMLError(3)
        if told == "NVML_ERROR_GPU_IS_LOST":
            raise NVMLError(15)
        return told

    def nvmlInit(self) -> None:  # noqa: N802
        if self.told.get("init") != "ok":
            raise NVMLError(9)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.told["count"]

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:  # noqa: N802
        return at

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return self._tell("driver_version")

    def nvmlDeviceGetName(self, _gpu: int) -> str:  # noqa: N802
        return self._tell("name")

    def nvmlDeviceGetUUID(self, gpu: int) -> str:  # noqa: N802
        return self._tell("uuid", gpu)

    def nvmlDeviceGetMemoryInfo(self, gpu: int):  # noqa: N802
        told = self._tell("memory", gpu)
        sizes = {kind: told[f"{kind}_mib"] * 2**20 for kind in ("total", "used", "free")}
        return SimpleNamespace(**sizes)

    def nvmlDeviceGetUtilizationRates(self, _gpu: int):  # noqa: N802
        return SimpleNamespace(**self._tell("utilization"))

    def nvmlDeviceGetTemperature(self, _gpu: int, _sensor: int) -> int:  # noqa: N802
        return self._tell("temperature_c")

    def nvmlDeviceGetPowerUsage(self, _gpu: int) -> int:  # noqa: N802
        return self._tell("power_mw")

    def nvmlDeviceGetEnforcedPowerLimit(self, _gpu: int) -> int:  # noqa: N802
        return self._tell("enforced_power_limit_mw")

    def nvmlDeviceGetTotalEnergyConsumption(self, _gpu: int) -> int:  # noqa: N802
        return self._tell("total_energy_mj")

    def nvmlDeviceGetClockInfo(self, _gpu: int, _kind: int) -> int:  # noqa: N802
        return self._tell("clocks_mhz")["sm"]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _gpu: int) -> int:  # noqa: N802
        return self._tell("throttle_reasons")
