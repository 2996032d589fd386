"""Every sensor on every board: values where there are some, reasons where there are none."""

from __future__ import annotations

import pytest

import hardware_tree
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.files import absent
from edgesweep_agent.sensors.registry import SENSORS, all_sensors

NANO = "jetson-orin-nano-8gb-devkit-jp6-15w"
NX = "jetson-orin-nx-16gb-jp5-25w"
AGX = "jetson-agx-orin-64gb-devkit-jp6-maxn"
N97 = "intel-n97-industrial-pc"
A2000 = "x86-ipc-rtx-a2000-12gb"
PI = "raspberry-pi-5-8gb"


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """The readings of each board as it is, taken once."""
    return {name: readings(tmp_path_factory.mktemp("box"), name) for name in hardware_tree.NAMES}


def readings(root, name, **changed):
    library = hardware_tree.nvml_of(name)
    given = nvml.start(library) if library else absent("no NVML")
    files = hardware_tree.box(root, name, **changed)
    sensors = all_sensors(files=files, library=given)
    found = [one for sensor in sensors for one in sensor.read()]
    assert len({one.name for one in found}) == len(found), "one name, one source"
    return {one.name: one for one in found}


@pytest.mark.parametrize("name", hardware_tree.NAMES)
def test_every_sensor_says_something_and_every_missing_value_has_a_reason(boards, name):
    found = boards[name]
    assert len(found) >= len(SENSORS)
    for one in found.values():
        assert (one.value is None) == (one.state is not State.OK), one
        assert bool(one.reason) == (one.value is None), one


def test_a_box_without_any_file_has_absent_sensors_alone(tmp_path):
    files = hardware_tree.build(tmp_path, {})
    sensors = all_sensors(files=files, library=absent("none"), without={"disk"})
    assert {one.state for sensor in sensors for one in sensor.read()} == {State.ABSENT}


@pytest.mark.parametrize(
    ("board", "name", "value"),
    [
        (NANO, "power_vdd_in", 9.250304),
        (NANO, "power_vdd_cpu_gpu_cv", 2.39232),
        (NANO, "current_of_limit_vdd_in", 100 * 1856 / 4984),
        (NANO, "gpu_load", 0),
        (NANO, "gpu_frequency", 306e6),
        (NANO, "gpu_frequency_cap", 612e6),
        (NANO, "memory_frequency_cap", 2133e6),
        (NANO, "cpu_frequency_floor", 729.6e6),
        (NANO, "fan_drive", 100 * 62 / 255),
        (NANO, "fan_speed", 1636),
        (NANO, "temperature_tj", 63.781),
        (NANO, "temperature_highest", 63.781),
        (NX, "power_vdd_in", 4.62336),
        (NX, "temperature_cpu", 47.25),
        (NX, "memory_frequency_cap", 3199e6),
        (AGX, "power_vdd_cpu_cv", -0.396264),
        (AGX, "power_vddq_vdd2_1v8ao", 0.39744),
        (N97, "temperature_cpu_package", 52),
        (N97, "temperature_nvme", 41.85),
        (N97, "igpu_frequency", 300e6),
        (N97, "throttle_cpu_package_time", 0),
        (A2000, "gpu_memory_total", 12282 * 2**20),
        (A2000, "power_gpu", 8.12),
        (A2000, "energy_gpu", 123456.789),
        (A2000, "temperature_gpu", 41),
        (PI, "undervoltage_alarm", 0),
        (PI, "temperature_cpu", 59.437),
        (PI, "fan_speed", 2830),
    ],
)
def test_known_values_come_out_in_their_unit(boards, board, name, value):
    assert boards[board][name].value == pytest.approx(value)


@pytest.mark.parametrize(
    ("board", "name", "state", "words"),
    [
        (NANO, "temperature_cv0", State.ABSENT, "switched off"),
        (AGX, "temperature_gpu", State.ABSENT, "switched off"),
        (NX, "temperature_cv0", State.ABSENT, "-256"),
        (N97, "temperature_int3400", State.ABSENT, "ENODATA"),
        (NANO, "memory_load", State.FAILED, "root"),
        (N97, "energy_package_0", State.FAILED, "CAP_DAC_READ_SEARCH"),
        (N97, "power_vdd_in", State.ABSENT, "INA3221"),
        (NANO, "gpu_memory_total", State.ABSENT, "shares the board's memory"),
        (NANO, "power_gpu", State.ABSENT, "Not Supported"),
        (PI, "pressure_memory_full", State.ABSENT, "psi=1"),
        (NX, "pressure_memory_full", State.ABSENT, "psi=1"),
        (NX, "jtop_gpu_load", State.ABSENT, "jtop.sock"),
        (A2000, "gpu_frequency_cap", State.ABSENT, "devfreq"),
    ],
)
def test_what_is_missing_says_why_and_what_to_do(boards, board, name, state, words):
    found = boards[board][name]
    assert found.state is state
    assert words in found.reason


@pytest.mark.parametrize(
    ("board", "boundaries"),
    [
        (NANO, {"power_vdd_in": "input", "power_vdd_cpu_gpu_cv": "", "power_vdd_soc": ""}),
        (
            AGX,
            {
                "power_vdd_gpu_soc": "rails",
                "power_vdd_cpu_cv": "rails",
                "power_vin_sys_5v0": "rails",
                "power_vddq_vdd2_1v8ao": "rails",
            },
        ),
        (N97, {"energy_package_0": "package", "energy_core": "", "energy_uncore": ""}),
        (A2000, {"power_gpu": "gpu", "energy_gpu": "gpu", "energy_package_0": "package"}),
    ],
)
def test_only_what_adds_up_to_a_total_has_a_boundary(boards, board, boundaries):
    found = boards[board]
    assert {name: found[name].boundary for name in boundaries} == boundaries


def test_nc_shunt_channels_and_their_sum_are_no_rails(tmp_path):
    changed = {"sys/devices/platform/bus@0/c240000.i2c/i2c-1/1-0041/hwmon/hwmon4/in1_label": "NC\n"}
    rails = [name for name in readings(tmp_path, AGX, **changed) if name.startswith("power_v")]
    assert rails == [
        "power_vdd_gpu_soc",
        "power_vdd_cpu_cv",
        "power_vin_sys_5v0",
        "power_vddq_vdd2_1v8ao",
    ]


def test_tel_02_a_switched_off_gpu_zone_is_null_and_the_hottest_leaves_it_out(tmp_path):
    zone = "sys/devices/virtual/thermal/thermal_zone1"
    found = readings(tmp_path, NANO, **{f"{zone}/temp": "-256000\n"})
    assert found["temperature_gpu"].value is None
    assert found["temperature_highest"].value == pytest.approx(63.781)


def test_tel_03_unified_memory_has_no_gpu_memory_and_mem_available_is_the_limit(tmp_path):
    meminfo = (
        "MemTotal:        7802892 kB\nMemFree:          204800 kB\nMemAvailable:    3145728 kB\n"
        "SwapTotal:       3901440 kB\nSwapFree:        3377152 kB\n"
    )
    found = readings(tmp_path, NANO, **{"proc/meminfo": meminfo})
    assert found["memory_total"].value == 7990161408
    assert found["memory_available"].value == 3221225472
    assert found["swap_used"].value == 536870912
    assert found["gpu_memory_total"].value is None
    assert found["gpu_memory_used"].value is None
    assert found["gpu_load"].value == 0
