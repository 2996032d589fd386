"""The classes of hardware that can be simulated, with two contenders each and what is true of them.

Speeds, crossings and limits are of the order that was published for such boxes; none is a
measurement of ours. Classes and performance states are spelled as agents spell them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from edgesweep.records import Contender, Workload

from .shapes import OUTPUT_TOKENS, PROMPT_TOKENS, Curve

WORKLOAD = Workload("chat-512-128", PROMPT_TOKENS, OUTPUT_TOKENS)
CONTEXT = 1024
MIB, GIB = 2**20, 2**30
RESERVE_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its name, and what a token of context takes, in bytes."""

    name: str
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class Engine:
    """One side of the comparison on a class.

    Attributes:
        curve: Its speed; of the second contender its form, where a crossing is planted.
        weights_bytes: Of the model in its format.
        runtime_bytes: What it takes beside weights and context.
        ready_s: From its start to its first answer.
    """

    contender: Contender
    curve: Curve
    weights_bytes: int
    runtime_bytes: int
    ready_s: float


@dataclass(frozen=True, slots=True)
class SensorShape:
    """A sensor between idle and full load."""

    name: str
    unit: str
    idle: float
    full: float


@dataclass(frozen=True)
class HardwareClass:
    """A kind of box.

    Attributes:
        key: What the command line calls it.
        hardware_class, performance_state: What its devices say of themselves.
        crossover: Where the second contender overtakes in throughput; ``None`` if the first leads
            at every level.
    """

    key: str
    hardware_class: str
    performance_state: str
    memory_bytes: int
    available_bytes: int
    cores: int
    model: Model
    first: Engine
    second: Engine
    crossover: float | None
    levels: tuple[int, ...]
    power: tuple[float, float]
    sensors: tuple[SensorShape, ...]

    @cached_property
    def engines(self) -> tuple[Engine, Engine]:
        """Both, with their slots and speeds as they are on this class."""
        first, second = (_sized(self, engine) for engine in (self.first, self.second))
        if self.crossover is not None:
            curve = first.curve.crossed_by(second.curve, self.crossover)
            second = replace(second, curve=curve)
        return first, second

    def needed_bytes(self, engine: Engine, requests: int) -> tuple[tuple[str, int], ...]:
        """What so many requests at the stated context need, by name."""
        return (
            ("weights", engine.weights_bytes),
            ("compute", engine.runtime_bytes),
            ("kv", requests * CONTEXT * self.model.kv_bytes),
        )

    def fits(self, engine: Engine, requests: int) -> bool:
        """Whether that is there, the reserve left alone."""
        needed = sum(size for _, size in self.needed_bytes(engine, requests))
        return needed <= self.available_bytes - RESERVE_BYTES


def _sized(of: HardwareClass, engine: Engine) -> Engine:
    slots = max(level for level in of.levels if of.fits(engine, level))
    contender = replace(engine.contender, slots=slots, context_per_request=CONTEXT)
    return replace(engine, contender=contender, curve=replace(engine.curve, slots=slots))


def _llama(model: Model, curve: Curve, weights_gib: float) -> Engine:
    contender = Contender(
        name="llama.cpp",
        engine="llama.cpp",
        engine_version="b6500",
        build="cuda12.6",
        model=model.name,
        weight_format="Q4_K_M",
        managed=True,
        launcher="process",
        settings={"kv_dtype": "f16", "prefix_cache": "off", "sampler": "greedy"},
    )
    return Engine(contender, curve, round(weights_gib * GIB), 320 * MIB, ready_s=14.0)


def _vllm(model: Model, curve: Curve, weights_gib: float, runtime_gib: float = 3.0) -> Engine:
    contender = Contender(
        name="vLLM",
        engine="vllm",
        engine_version="0.11.0",
        build="cuda12.6",
        model=model.name,
        weight_format="W4A16",
        managed=True,
        launcher="container",
        settings={"kv_dtype": "auto", "prefix_cache": "off", "sampler": "greedy"},
    )
    runtime_bytes = round(runtime_gib * GIB)
    return Engine(contender, curve, round(weights_gib * GIB), runtime_bytes, ready_s=75.0)


def _sensors(hottest_c: float, *more: SensorShape) -> tuple[SensorShape, ...]:
    return (
        SensorShape("cpu_load", "percent", 4.0, 55.0),
        SensorShape("temperature_cpu", "C", 41.0, hottest_c - 4.0),
        SensorShape("temperature_highest", "C", 44.0, hottest_c),
        SensorShape("swap_used", "bytes", 0.0, 0.0),
        SensorShape("pressure_memory_full", "percent", 0.0, 0.4),
        SensorShape("disk_free", "bytes", 64e9, 63e9),
        *more,
    )


_JETSON = (
    SensorShape("gpu_load", "percent", 0.5, 97.0),
    SensorShape("temperature_gpu", "C", 40.0, 71.0),
    SensorShape("fan_speed", "rpm", 1100.0, 3900.0),
)
_CARD = (
    SensorShape("gpu_load", "percent", 0.0, 98.0),
    SensorShape("temperature_gpu", "C", 36.0, 74.0),
    SensorShape("gpu_frequency", "Hz", 210e6, 1980e6),
)
_QWEN_0B5 = Model("Qwen2.5-0.5B-Instruct", 12_288)
_QWEN_1B5 = Model("Qwen2.5-1.5B-Instruct", 28_672)
_QWEN_7B = Model("Qwen2.5-7B-Instruct", 57_344)
_LLAMA_8B = Model("Llama-3.1-8B-Instruct", 131_072)
_QWEN_32B = Model("Qwen3-32B", 262_144)


def _curve(
    single: float, contention: float, coherency: float, prefill: float, wait: float
) -> Curve:
    return Curve(single, contention, coherency, 1, prefill, wait)


_KNOWN = (
    HardwareClass(
        key="jetson.orin-nano-8g",
        hardware_class="jetson.tegra234.p3767-0005.8g.6c",
        performance_state="cpu6@1497.6,gpu@612,tpc-off@0xfc,emc@2133,super,schedutil,free",
        memory_bytes=7_990_000_000,
        available_bytes=round(5.6 * GIB),
        cores=6,
        model=_QWEN_1B5,
        first=_llama(_QWEN_1B5, _curve(30.0, 0.25, 0.001, 800.0, 0.30), 1.1),
        second=_vllm(_QWEN_1B5, _curve(16.0, 0.04, 0.0005, 600.0, 0.12), 1.6),
        crossover=5.7,
        levels=(1, 2, 4, 6, 8, 16, 32),
        power=(5.1, 14.6),
        sensors=_sensors(73.0, *_JETSON, SensorShape("power_vdd_in", "W", 5.1, 14.6)),
    ),
    HardwareClass(
        key="jetson.orin-nx-16g",
        hardware_class="jetson.tegra234.p3767-0000.16g.8c",
        performance_state="cpu8@1497.6,gpu@408,emc@3199,schedutil,free",
        memory_bytes=16_000_000_000,
        available_bytes=round(13.5 * GIB),
        cores=8,
        model=_QWEN_7B,
        first=_llama(_QWEN_7B, _curve(11.0, 0.22, 0.001, 350.0, 0.30), 4.4),
        second=_vllm(_QWEN_7B, _curve(7.0, 0.03, 0.0005, 420.0, 0.10), 5.2),
        crossover=4.6,
        levels=(1, 2, 4, 5, 8, 16, 32),
        power=(7.0, 24.0),
        sensors=_sensors(76.0, *_JETSON, SensorShape("power_vdd_in", "W", 7.0, 24.0)),
    ),
    HardwareClass(
        key="jetson.agx-orin-64g",
        hardware_class="jetson.tegra234.p3701-0005.64g.12c",
        performance_state="cpu12@2201.6,gpu@1300.5,emc@3199,schedutil,free",
        memory_bytes=64_000_000_000,
        available_bytes=round(57.0 * GIB),
        cores=12,
        model=_LLAMA_8B,
        first=_llama(_LLAMA_8B, _curve(34.0, 0.30, 0.001, 1500.0, 0.25), 4.6),
        second=_vllm(_LLAMA_8B, _curve(28.0, 0.12, 0.0002, 1900.0, 0.08), 5.4),
        crossover=2.4,
        levels=(1, 2, 3, 4, 8, 16, 32),
        power=(12.0, 52.0),
        sensors=_sensors(68.0, *_JETSON, SensorShape("power_vdd_in", "W", 12.0, 52.0)),
    ),
    HardwareClass(
        key="x86.n97-8g",
        hardware_class="x86.6-190.intel-n97.onlogic-cl260.8g.igpu-8086:46d1.4c",
        performance_state="cpu4@3600,igpu@1200,pl1@12w,pl2@25w,powersave/balance_performance,free",
        memory_bytes=8_150_000_000,
        available_bytes=round(6.1 * GIB),
        cores=4,
        model=_QWEN_0B5,
        first=_llama(_QWEN_0B5, _curve(15.0, 0.50, 0.004, 160.0, 0.60), 0.4),
        second=_vllm(_QWEN_0B5, _curve(7.0, 0.42, 0.004, 110.0, 0.50), 1.0, 2.2),
        crossover=None,
        levels=(1, 2, 4, 8),
        power=(6.5, 17.0),
        sensors=_sensors(83.0, SensorShape("power_cpu_package", "W", 2.2, 12.0)),
    ),
    HardwareClass(
        key="x86.rtx-a2000-12g",
        hardware_class="x86.6-151.intel-i7-12700e.advantech-mic-770v3w.32g.rtx-a2000-12g.20c",
        performance_state="cpu20@4800+3600,gpu-pl@70w,performance,free",
        memory_bytes=33_000_000_000,
        available_bytes=round(11.6 * GIB),
        cores=20,
        model=_QWEN_7B,
        first=_llama(_QWEN_7B, _curve(38.0, 0.35, 0.001, 1800.0, 0.25), 4.4),
        second=_vllm(_QWEN_7B, _curve(32.0, 0.03, 0.0004, 2400.0, 0.06), 5.2, 1.4),
        crossover=1.6,
        levels=(1, 2, 4, 8, 16, 32),
        power=(31.0, 128.0),
        sensors=_sensors(79.0, *_CARD, SensorShape("power_gpu", "W", 9.0, 70.0)),
    ),
    HardwareClass(
        key="arm.gb10-128g",
        hardware_class="arm.cortex-x925+cortex-a725.nvidia-dgx-spark.128g.gb10.20c",
        performance_state="cpu20@3900+2800,performance,free",
        memory_bytes=128_000_000_000,
        available_bytes=round(115.0 * GIB),
        cores=20,
        model=_QWEN_32B,
        first=_llama(_QWEN_32B, _curve(11.0, 0.030, 0.0001, 700.0, 0.25), 18.4),
        second=_vllm(_QWEN_32B, _curve(9.0, 0.008, 0.00005, 1400.0, 0.08), 19.0),
        crossover=19.2,
        levels=(1, 4, 8, 16, 20, 32, 64),
        power=(38.0, 170.0),
        sensors=_sensors(77.0, *_CARD, SensorShape("power_gpu", "W", 14.0, 95.0)),
    ),
)
CLASSES: dict[str, HardwareClass] = {one.key: one for one in _KNOWN}
"""By the names that ``--classes`` takes."""
