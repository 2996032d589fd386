"""jtop and tegrastats: optional, in a process of their own, their death never felt."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING

import pytest

from edgesweep_agent.core import jtop_values, tegrastats
from edgesweep_agent.sensors import jtop_child
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.child import RETRY_S, STALE_S, START_S, LineChild
from edgesweep_agent.sensors.files import Files, Missing
from edgesweep_agent.sensors.jtop import SOCKET, Jtop
from edgesweep_agent.sensors.registry import all_sensors, close_all
from edgesweep_agent.sensors.tegrastats import PROGRAM, TegraStats

if TYPE_CHECKING:
    from pathlib import Path

LINE = (
    "01-02-2026 10:00:00 RAM 2847/7620MB (lfb 5x4MB) SWAP 512/3810MB (cached 3MB) "
    "CPU [12%@1510,5%@1510,off,off,3%@729,0%@729] EMC_FREQ 4%@2133 GR3D_FREQ 37%@[624] "
    "VIC_FREQ 0%@729 cpu@47.5C gpu@-256C tj@48.1C VDD_IN 5205mW/4980mW "
    "VDD_CPU_GPU_CV 801mW/700mW"
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def touch(root: Path, name: str) -> Files:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).touch()
    return Files(root)


def until(condition):
    deadline = time.monotonic() + 10
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


# tegrastats


def test_tel_06_a_line_of_a_new_release_is_read_field_by_field():
    told = tegrastats.parse(LINE)
    assert (told.ram_used_mb, told.ram_total_mb, told.swap_used_mb) == (2847, 7620, 512)
    assert (told.cpu_online, told.cpu_off, told.cpu_load_mean_percent) == (4, 2, 5.0)
    assert (told.gpu_load_percent, told.gpu_freq_mhz) == (37, 624)
    assert told.emc_load_percent == 4
    assert told.temperatures_c == {"cpu": 47.5, "gpu": None, "tj": 48.1}
    assert told.power_in_mw == 5205
    assert told.power_mw == {"VDD_IN": 5205, "VDD_CPU_GPU_CV": 801}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("01-02-2026 10:00:00 ", ""),
        (" (cached 3MB)", ""),
        ("@[624]", ""),
        ("@[624]", "@624"),
        ("@[624]", "@[624,0]"),
        ("5205mW/4980mW", "5205/4980"),
        ("5205mW/4980mW", "5205mW/4980mW/9000mW"),
        ("VIC_FREQ 0%@729 ", "VIC_FREQ off NVENC off NVDEC off APE 200 "),
    ],
)
def test_tel_06_the_other_fields_do_not_depend_on_one_form(old, new):
    told = tegrastats.parse(LINE.replace(old, new))
    assert (told.ram_used_mb, told.gpu_load_percent, told.power_in_mw) == (2847, 37, 5205)
    assert told.temperatures_c["tj"] == 48.1


def test_tel_06_jetpack_4_has_bare_power_and_a_constant_pmic():
    told = tegrastats.parse(
        "RAM 1903/3964MB (lfb 2x4MB) IRAM 0/252kB(lfb 252kB) CPU [5%@102,0%@102,off,off] "
        "EMC_FREQ 0% GR3D_FREQ 0% PLL@34C CPU@36.5C PMIC@100C GPU@35C AO@43C thermal@35.75C "
        "POM_5V_IN 1022/1022 POM_5V_GPU 0/0 POM_5V_CPU 124/124"
    )
    assert told.power_in_mw == 1022
    assert told.temperatures_c["cpu"] == 36.5
    assert told.temperatures_c["pmic"] is None
    assert told.swap_used_mb is None


def test_tel_06_a_line_without_a_gpu_load_leaves_it_unknown():
    told = tegrastats.parse("RAM 1/2MB GR3D_FREQ @[1049,1049,1049] VDD_GPU -392mW/-392mW")
    assert told.gpu_load_percent is None
    assert told.gpu_freq_mhz == 1049
    assert told.power_mw == {"VDD_GPU": -392}


@pytest.mark.parametrize("line", ["", "tegrastats: command not found", "CPU [off,off]"])
def test_tel_06_a_line_that_says_nothing_gives_nothing(line):
    told = tegrastats.parse(line)
    assert told.cpu_load_mean_percent is None
    assert told.power_in_mw is None
    assert told.temperatures_c == {}


def test_tegrastats_is_read_while_it_runs(tmp_path):
    command = [sys.executable, "-c", f"import time; print({LINE!r}, flush=True); time.sleep(60)"]
    sensor = TegraStats(touch(tmp_path, PROGRAM), clock=time.monotonic, command=command)
    try:
        until(lambda: sensor.read()[0].state is State.OK)
        found = {one.name: one.value for one in sensor.read()}
    finally:
        close_all([sensor])
    assert found["tegrastats_emc_load"] == 4
    assert found["tegrastats_power_vdd_in"] == 5.205
    assert found["tegrastats_temperature_gpu"] is None


# jtop


def test_tel_01_without_the_socket_sysfs_is_the_source_and_nothing_is_started(tmp_path):
    zone = tmp_path / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("cpu-thermal\n")
    (zone / "temp").write_text("47400\n")
    found = {one.name: one for sensor in all_sensors(tmp_path) for one in sensor.read()}
    assert found["temperature_cpu"].value == 47.4
    assert found["gpu_load"].value is None if "gpu_load" in found else True
    assert found["jtop_gpu_load"].state is State.ABSENT


def test_tel_01_a_service_without_its_library_says_what_to_install(tmp_path):
    sensor = Jtop(
        touch(tmp_path, SOCKET), clock=Clock(), command=["/nowhere"], installed=lambda: False
    )
    (found,) = sensor.read()
    assert found.state is State.ABSENT
    assert "edgesweep[jetson]" in found.reason


def test_tel_01_the_real_child_tells_why_it_cannot(tmp_path):
    code = (
        "import sys; sys.modules['jtop'] = None\n"
        "from edgesweep_agent.sensors.jtop_child import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code]
    sensor = Jtop(
        touch(tmp_path, SOCKET), clock=time.monotonic, command=command, installed=lambda: True
    )
    try:
        found = until(lambda: [one for one in sensor.read() if "Error" in one.reason])
    finally:
        close_all([sensor])
    assert found[0].state is State.FAILED
    assert "jtop" in found[0].reason


def test_tel_01_it_is_tried_and_told_of_once_a_minute(caplog):
    clock = Clock()
    child = LineChild("jtop", [sys.executable, "-c", "print('no service')"], clock=clock)
    with caplog.at_level(logging.WARNING):
        until(lambda: "ended" in getattr(child.latest(), "reason", ""))
        for _ in range(50):
            clock.now += 1.0
            assert isinstance(child.latest(), Missing)
        assert len(caplog.records) == 1
        clock.now = RETRY_S
        until(lambda: len(caplog.records) == 2 or child.latest() is None)
    assert "no service" in caplog.records[0].message


def test_tel_01_a_program_that_is_not_there_is_a_reason():
    found = LineChild("jtop", ["/nowhere/jtop"], clock=Clock()).latest()
    assert found.state is State.FAILED
    assert "No such file" in found.reason


def test_tel_01_a_child_that_falls_silent_is_given_up():
    clock = Clock()
    command = [sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(60)"]
    child = LineChild("jtop", command, clock=clock)
    try:
        assert until(lambda: child.latest() if child.latest() == "{}" else None)
        clock.now += STALE_S
        assert child.latest() == "{}"
        clock.now += 0.1
        child.latest()
        assert "silent" in child.latest().reason
    finally:
        child.close()


def test_tel_01_a_child_has_time_to_start():
    clock = Clock()
    child = LineChild("jtop", [sys.executable, "-c", "import time; time.sleep(60)"], clock=clock)
    try:
        assert "not said" in child.latest().reason
        clock.now += START_S
        assert "not said" in child.latest().reason
        clock.now += 0.1
        child.latest()
        assert "silent" in child.latest().reason
    finally:
        child.close()


@pytest.mark.parametrize("line", ["[]", "warning: old release", '{"error": "KeyError: mem"}'])
def test_tel_01_what_is_no_reading_is_a_reason(tmp_path, line):
    command = [sys.executable, "-c", f"import time; print({line!r}, flush=True); time.sleep(60)"]
    sensor = Jtop(
        touch(tmp_path, SOCKET), clock=time.monotonic, command=command, installed=lambda: True
    )
    try:
        (found,) = until(lambda: [one for one in sensor.read() if "not said" not in one.reason])
    finally:
        sensor.close()
    assert found.state is State.FAILED


class FakeClient:
    """A jtop client whose tables are what a board gave."""

    def __init__(self, updates: int = 1, **tables) -> None:
        self.updates = updates
        self.tables = tables

    def ok(self) -> bool:
        self.updates -= 1
        return self.updates >= 0

    def __getattr__(self, name):
        if name not in self.tables:
            raise KeyError(name)
        return self.tables[name]


ORIN = {
    "memory": {"RAM": {"tot": 7802664, "used": 2915328}, "EMC": {"cur": 2133000, "val": 4}},
    "gpu": {"gpu": {"type": "integrated", "status": {"load": 37.5}, "freq": {"cur": 306000}}},
    "power": {
        "rail": {"VDD_SOC": {"power": 1400}, "NC": {"power": 5}},
        "tot": {"power": 5205, "avg": 4980},
    },
    "temperature": {"cpu": {"temp": 47.5, "online": True}, "cv0": {"temp": -256, "online": False}},
    "fan": {"pwmfan": {"speed": [24.3], "rpm": [1636]}},
}


def followed(client):
    lines = []
    jtop_child.follow(client, lines.append)
    return [json.loads(line) for line in lines]


def test_jtop_comes_in_our_names_and_units():
    (told,) = followed(FakeClient(**ORIN))
    assert told == {
        "gpu_load": 37.5,
        "emc_load": 4,
        "fan_speed": 24.3,
        "ram_used": 2915328 * 1024,
        "ram_total": 7802664 * 1024,
        "power_total": 5.205,
        "power_vdd_soc": 1.4,
        "temperature_cpu": 47.5,
        "temperature_cv0": None,
    }
    assert {jtop_values.unit(name) for name in told} == {"percent", "bytes", "W", "C"}


@pytest.mark.parametrize(
    "gone",
    [
        {"gpu": {}},
        {"gpu": {"gpu": {"status": {}}}},
        {"gpu": {"gpu": None}},
        {"gpu": None},
    ],
)
def test_tel_01_a_reply_without_a_key_is_null_and_the_rest_is_kept(gone):
    (told,) = followed(FakeClient(**{**ORIN, **gone}))
    assert told["gpu_load"] is None
    assert told["power_total"] == 5.205


@pytest.mark.parametrize("table", sorted(ORIN))
def test_tel_01_a_table_that_raises_takes_no_other_with_it(table):
    (told,) = followed(FakeClient(**{name: ORIN[name] for name in ORIN if name != table}))
    assert len([value for value in told.values() if value is not None]) >= 4


def test_a_board_that_measures_no_power_has_none():
    (told,) = followed(FakeClient(**{**ORIN, "power": {}}))
    assert told["power_total"] is None
