"""More of the kinds of ``fixtures/cases/telemetry.json``, whose cases are in other files.

| case | tests |
|---|---|
| TEL-01, 06 | ``test_sensors_programs.py``: ``test_tel_01_*``, ``test_tel_06_*`` |
| TEL-02, 03 | ``test_sensors_sources.py``, ``test_sensors_boards.py``: ``test_tel_02_*`` ... |
| TEL-05 | ``test_sensors_processes.py``: ``test_tel_05_*`` |
"""

from __future__ import annotations

import json

import pytest

import hardware_tree
from edgesweep_agent.core import jtop_values, tegrastats, temperatures
from edgesweep_agent.core.processes import parse_stat
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.cpu_temperature import ChipTemperatures
from edgesweep_agent.sensors.drm import AmdGpu
from edgesweep_agent.sensors.readings import reading
from fake_nvml import FakeNvml


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["x", "x", "x"], ["x", "x_1", "x_2"]),
        (["x", "x", "x_1"], ["x", "x_2", "x_1"]),
        (["x_1", "x", "x"], ["x_1", "x", "x_2"]),
        (["x", "x_1", "x", "x_1"], ["x", "x_1", "x_2", "x_1_1"]),
        ([], []),
    ],
)
def test_tel_02_zones_of_one_name_are_told_apart_whatever_the_others_are_called(names, found):
    assert temperatures.distinct(names) == found


def test_tel_06_a_zone_that_comes_twice_is_kept_twice():
    told = tegrastats.parse("cpu@47.5C CPU-therm@50C gpu@-256C GPU@41C").temperatures_c
    assert told == {"cpu": 47.5, "cpu_1": 50.0, "gpu": None, "gpu_1": 41.0}


@pytest.mark.parametrize(
    ("part", "power"),
    [
        ("VDD_IN 5205mW/4980mW", {"VDD_IN": 5205}),
        ("VDD_IN 5205mW", {"VDD_IN": 5205}),
        ("VDD_IN 5205/4980", {"VDD_IN": 5205}),
        ("VDD_IN -4mW/-4mW", {"VDD_IN": -4}),
        ("RAM 2847/7620MB SWAP 5/9MB IRAM 0/252kB APE 150", {}),
    ],
)
def test_tel_06_power_is_read_with_and_without_its_mean(part, power):
    assert tegrastats.parse(f"{part} cpu [5%@345,off] tj@40C").power_mw == power


def test_tel_06_the_cores_of_an_old_release_are_read():
    assert tegrastats.parse("cpu [4%,off,6%]@345").cpu_load_mean_percent == 5.0


@pytest.mark.parametrize("load", [float("nan"), float("inf"), 10**400, True, "7", None, [7]])
def test_tel_01_what_jtop_says_and_is_no_number_is_null(load):
    told = jtop_values.flatten({"gpu": {"gpu": {"status": {"load": load}}}})
    assert json.loads(json.dumps(told, allow_nan=False))["gpu_load"] is None


@pytest.mark.parametrize("found", [float("nan"), float("-inf"), 10**400, -(2**63)])
def test_tel_02_what_is_no_number_is_a_failed_reading(found):
    told = reading("x", "W", found, scale=1e-3)
    assert (told.state, told.value) == (State.FAILED, None)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"temperature_c": -256}, "temperature_gpu"),
        ({"temperature_c": 255}, "temperature_gpu"),
        ({"temperature_c": 2**32 - 1}, "temperature_gpu"),
        ({"power_mw": 2**32 - 1}, "power_gpu"),
        ({"utilization": {"gpu": 2**32 - 1}}, "gpu_load"),
        ({"total_energy_mj": 2**64 - 1}, "energy_gpu"),
    ],
)
def test_tel_03_what_a_driver_says_in_place_of_a_refusal_is_absent(told, name):
    library = nvml.start(FakeNvml({"init": "ok", "count": 1, "name": "NVIDIA T4", **told}))
    sensor = nvml.NvmlGpu(library, name="nvml", fields=nvml.FIELDS + nvml.POWER_FIELDS)
    found = {one.name: one for one in sensor.read()}
    assert (found[name].state, found[name].value) == (State.ABSENT, None)
    assert "not available" in found[name].reason


def test_tel_02_a_card_that_is_switched_off_has_no_temperature(tmp_path):
    card = "sys/class/drm/card0/device"
    files = hardware_tree.build(
        tmp_path,
        {f"{card}/vendor": "0x1002\n", f"{card}/hwmon/hwmon3/temp1_input": "-256000\n"},
    )
    found = {one.name: one for one in AmdGpu(files).read()}
    assert found["temperature_amdgpu"].state is State.ABSENT


def test_tel_02_a_chip_that_is_plugged_in_later_is_found(tmp_path):
    def drive(number, milli):
        chip = f"sys/class/hwmon/hwmon{number}"
        return {
            f"{chip}/name": "nvme\n",
            f"{chip}/temp1_label": "Composite\n",
            f"{chip}/temp1_input": f"{milli}\n",
        }

    files = hardware_tree.build(tmp_path, drive(0, 40000))
    sensor = ChipTemperatures(files)
    assert [one.value for one in sensor.read()] == [40.0]
    hardware_tree.build(tmp_path, drive(1, 50000))
    assert {one.name: one.value for one in sensor.read()} == {
        "temperature_nvme": 40.0,
        "temperature_nvme_1": 50.0,
    }


@pytest.mark.parametrize("pid", ["²", "x", "1.5", ""])
def test_tel_05_a_line_that_is_no_stat_is_none(pid):
    assert parse_stat(f"{pid} (x) R " + "1 " * 50) is None
    assert parse_stat("1 (x) R " + "q " * 50) is None
