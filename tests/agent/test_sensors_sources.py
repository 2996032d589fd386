"""Sources one by one, where the boards of the fixtures do not reach."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import hardware_tree
from edgesweep_agent.core import temperatures
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.cooling import CoolingDevices
from edgesweep_agent.sensors.cpu_temperature import ChipTemperatures
from edgesweep_agent.sensors.cpufreq import CpuFrequency
from edgesweep_agent.sensors.disk import Disk
from edgesweep_agent.sensors.drm import AmdGpu, IntelGpu
from edgesweep_agent.sensors.fan import Fan
from edgesweep_agent.sensors.files import Files, Missing
from edgesweep_agent.sensors.gpu_devfreq import GpuDevfreq
from edgesweep_agent.sensors.meminfo import MemInfo
from edgesweep_agent.sensors.memory_clock import MemoryClock
from edgesweep_agent.sensors.power_rails import PowerRails
from edgesweep_agent.sensors.rapl import Rapl
from edgesweep_agent.sensors.registry import all_sensors
from edgesweep_agent.sensors.soctherm import OverCurrent
from edgesweep_agent.sensors.thermal import ThermalZones
from edgesweep_agent.sensors.x86_throttle import X86Throttle
from fake_nvml import FakeNvml

NANO = "jetson-orin-nano-8gb-devkit-jp6-15w"
NX = "jetson-orin-nx-16gb-jp5-25w"
N97 = "intel-n97-industrial-pc"
A2000 = "x86-ipc-rtx-a2000-12gb"


def values(sensor):
    return {one.name: one.value for one in sensor.read()}


def tree(root, **files):
    return hardware_tree.build(root, files)


# Temperatures


@pytest.mark.parametrize(
    ("celsius", "kept"),
    [(47.4, 47.4), (-40, -40), (150, 150), (-256, None), (-256.0, None), (151, None), (None, None)],
)
def test_tel_02_outside_of_minus_40_to_150_degrees_is_no_temperature(celsius, kept):
    assert temperatures.believable(celsius) == kept


def test_tel_02_mean_and_maximum_leave_out_what_is_missing():
    told = {"cpu": 47.4, "gpu": -256.0, "cv0": -256, "tj": 48.1}
    kept = [temperatures.believable(value) for value in told.values()]
    assert temperatures.highest(kept) == 48.1
    assert temperatures.mean(kept) == pytest.approx(47.75)
    assert temperatures.highest([None]) is None
    assert temperatures.mean([]) is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("cpu-thermal", "cpu"),
        ("CPU-therm", "cpu"),
        ("tj-thermal", "tj"),
        ("gpu-thermal", "gpu"),
        ("soc012-thermal", "soc012"),
        ("x86_pkg_temp", "x86_pkg"),
        ("INT3400 Thermal", "int3400"),
        ("acpitz", "acpitz"),
        ("thermal", "thermal"),
        ("", "unnamed"),
    ],
)
def test_a_zone_has_one_name_over_all_kernels(kind, name):
    assert temperatures.zone(kind) == name


def test_the_constant_of_a_pmic_is_no_temperature():
    assert temperatures.of_zone("PMIC-Die", 100.0) is None
    assert temperatures.of_zone("CPU-therm", 100.0) == 100.0


def test_two_zones_of_one_kind_are_told_apart(tmp_path):
    zones = {f"sys/class/thermal/thermal_zone{n}/type": "acpitz\n" for n in (0, 1)}
    temps = {f"sys/class/thermal/thermal_zone{n}/temp": f"{n}000\n" for n in (0, 1)}
    found = values(ThermalZones(tree(tmp_path, **zones, **temps)))
    assert found == {"temperature_acpitz": 0, "temperature_acpitz_1": 1, "temperature_highest": 1}


def test_one_zone_that_fails_spoils_no_other(tmp_path):
    zone = "sys/devices/virtual/thermal/thermal_zone0/temp"
    changed = {zone: None, f"@errno:{zone}": "EINVAL"}
    files = hardware_tree.box(tmp_path, NANO, parts="thermal_zone", **changed)
    found = {one.name: one for one in ThermalZones(files).read()}
    assert found["temperature_cpu"].state is State.FAILED
    assert found["temperature_tj"].value == 63.781


def test_amd_and_many_cores_come_to_few_series(tmp_path):
    chip = "sys/class/hwmon/hwmon4"
    told = {
        f"{chip}/name": "k10temp\n",
        f"{chip}/temp1_label": "Tctl\n",
        f"{chip}/temp1_input": "61250\n",
    }
    assert values(ChipTemperatures(tree(tmp_path, **told))) == {"temperature_cpu_tctl": 61.25}


# Power


def test_a_chip_is_found_by_its_name_after_its_number_has_changed(tmp_path):
    rails = PowerRails(hardware_tree.box(tmp_path, NX, parts="i2c|class/hwmon"))
    before = values(rails)
    folder = tmp_path / "sys/devices/platform/c240000.i2c/i2c-1/1-0040/hwmon"
    (folder / "hwmon3").rename(folder / "hwmon6")
    (tmp_path / "sys/class/hwmon/hwmon3").unlink()
    (tmp_path / "sys/class/hwmon/hwmon6").symlink_to(folder / "hwmon6")
    assert values(rails) == before
    assert before["power_vdd_in"] == pytest.approx(4.62336)


def test_a_driver_that_comes_later_is_found(tmp_path):
    files = tree(tmp_path)
    rails = PowerRails(files)
    assert rails.read()[0].state is State.ABSENT
    hardware_tree.box(tmp_path, NX, parts="i2c|class/hwmon")
    assert rails.read()[0].state is State.OK


def test_jetpack_4_has_its_rails_under_iio(tmp_path):
    device = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    told = {
        f"{device}/rail_name_0": "POM_5V_IN\n",
        f"{device}/rail_name_1": "POM_5V_GPU\n",
        f"{device}/rail_name_2": "NC\n",
        f"{device}/in_power0_input": "1022\n",
        f"{device}/in_power1_input": "0\n",
        f"{device}/in_power2_input": "77\n",
    }
    found = PowerRails(tree(tmp_path, **told)).read()
    assert [(one.name, one.value, one.boundary) for one in found] == [
        ("power_pom_5v_in", pytest.approx(1.022), "input"),
        ("power_pom_5v_gpu", 0, ""),
    ]


def test_thor_is_measured_at_its_ina238_and_its_rails_are_parts_of_it(tmp_path):
    rails, whole = "sys/class/hwmon/hwmon2", "sys/class/hwmon/hwmon3"
    told = {
        f"{rails}/name": "ina3221\n",
        f"{rails}/in1_label": "VDD_GPU\n",
        f"{rails}/in1_input": "11976\n",
        f"{rails}/curr1_input": "-33\n",
        f"{rails}/in3_label": "VIN_SYS_5V0\n",
        f"{rails}/in3_input": "5000\n",
        f"{rails}/curr3_input": "1000\n",
        f"{whole}/name": "ina238\n",
        f"{whole}/power1_input": "30250000\n",
        "sys/class/power_supply/ucsi-source-psy-1/current_now": "5000000\n",
    }
    found = {one.name: one for one in PowerRails(tree(tmp_path, **told)).read()}
    assert found["power_vin"].value == pytest.approx(30.25)
    assert {name: one.boundary for name, one in found.items()} == {
        "power_vdd_gpu": "",
        "power_vin_sys_5v0": "",
        "power_vin": "input",
    }
    assert found["power_vdd_gpu"].value == pytest.approx(-0.395208)


def test_a_rapl_counter_goes_on_over_its_turn(tmp_path):
    files = hardware_tree.box(tmp_path, A2000, as_root=True, parts="rapl")
    counter = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    rapl = Rapl(files)
    seen = []
    for raw in (262_143_000_000, 1_000_000, 2_000_000, 500_000):
        counter.write_text(f"{raw}\n")
        seen.append(rapl.read()[0].value)
    assert seen[1] - seen[0] == pytest.approx(1.328850)
    assert seen[2] - seen[1] == pytest.approx(1.0)
    assert seen[3] - seen[2] == pytest.approx(262_143.328850 - 1.5)


def test_the_mmio_view_of_a_package_is_not_counted_twice(tmp_path):
    files = hardware_tree.box(tmp_path, A2000, as_root=True, parts="rapl")
    twin = tmp_path / "sys/class/powercap/intel-rapl-mmio:0"
    twin.symlink_to(tmp_path / "sys/class/powercap/intel-rapl:0")
    assert [one.name for one in Rapl(files).read()] == ["energy_package_0"]


# Clocks and load


@pytest.mark.parametrize(
    ("load", "percent"), [("22@300000000Hz\n", 22), ("0@300000000Hz\n", 0), ("busy\n", None)]
)
def test_rockchip_tells_its_load_in_percent_at_a_clock(tmp_path, load, percent):
    gpu = "sys/class/devfreq/fb000000.gpu"
    told = {f"{gpu}/load": load, f"{gpu}/cur_freq": "300000000\n"}
    assert values(GpuDevfreq(tree(tmp_path, **told)))["gpu_load"] == percent


@pytest.mark.parametrize(("load", "percent"), [("0\n", 0), ("375\n", 37.5), ("1000\n", 100)])
def test_tegra_tells_its_load_in_permille(tmp_path, load, percent):
    node = "sys/devices/platform/bus@0/17000000.gpu/load"
    files = hardware_tree.box(tmp_path, NANO, **{node: load}, parts="gpu")
    assert values(GpuDevfreq(files))["gpu_load"] == percent


def thor(root):
    gpu = "sys/class/devfreq/gpu-gpc-0"
    return tree(root, **{f"{gpu}/cur_freq": "1049000000\n", f"{gpu}/max_freq": "1575000000\n"})


def test_a_gpu_without_a_load_file_is_unknown_and_not_idle(tmp_path):
    found = {one.name: one for one in GpuDevfreq(thor(tmp_path)).read()}
    assert found["gpu_load"].value is None
    assert found["gpu_frequency"].value == 1049e6


def test_thor_takes_its_load_from_nvml_under_the_same_name(tmp_path):
    library = nvml.start(
        FakeNvml({"init": "ok", "count": 1, "name": "NVIDIA Thor", "utilization": {"gpu": 61}})
    )
    sensors = all_sensors(files=thor(tmp_path), library=library)
    loads = [one for sensor in sensors for one in sensor.read() if one.name == "gpu_load"]
    assert [one.value for one in loads] == [61]


def test_memory_load_is_activity_over_the_clock(tmp_path):
    found = values(MemoryClock(hardware_tree.box(tmp_path, NANO, as_root=True, parts="sys/kernel")))
    assert found["memory_frequency"] == 665.6e6
    assert found["memory_load"] == pytest.approx(3.2001, rel=1e-3)


def test_a_floor_that_was_undone_is_seen(tmp_path):
    policy = "sys/devices/system/cpu/cpufreq/policy4/scaling_min_freq"
    files = hardware_tree.box(tmp_path, NANO, **{policy: "115200\n"}, parts="cpufreq")
    assert values(CpuFrequency(files))["cpu_frequency_floor"] == 115.2e6


def test_a_policy_without_a_clock_is_left_out_of_the_mean(tmp_path):
    clock = "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq"
    files = hardware_tree.box(tmp_path, NANO, **{clock: None}, parts="cpufreq")
    assert values(CpuFrequency(files))["cpu_frequency"] == 1497.6e6


# Throttling


def test_oc3_comes_as_a_count_and_as_time(tmp_path):
    counter = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon3/oc3_event_cnt"
    ticks = "sys/kernel/debug/bpmp/debug/soctherm/oc2/event_time"
    changed = {counter: "27390\n", ticks: f"{27390 * 33569}\n"}
    found = values(
        OverCurrent(
            hardware_tree.box(
                tmp_path, NANO, as_root=True, **changed, parts="soctherm|sys/kernel|hwmon"
            )
        )
    )
    assert found["throttle_oc3_events"] == 27390
    assert found["throttle_oc3_time"] == pytest.approx(29.4, abs=0.1)


def test_a_fan_that_turns_is_no_throttling(tmp_path):
    cooling = "sys/devices/virtual/thermal/cooling_device"
    changed = {f"{cooling}3/cur_state": "3\n", f"{cooling}4/cur_state": "1\n"}
    found = values(CoolingDevices(hardware_tree.box(tmp_path, NANO, parts="cooling", **changed)))
    assert {name for name, value in found.items() if value} == {"throttle_alert_cpu"}
    assert not [name for name in found if "fan" in name]


def test_a_package_that_counts_on_each_of_its_cores_counts_once(tmp_path):
    cpus = "sys/devices/system/cpu/cpu"
    changed = {f"{cpus}{n}/thermal_throttle/package_throttle_count": "7\n" for n in range(4)}
    changed[f"{cpus}2/thermal_throttle/package_throttle_total_time_ms"] = "1500\n"
    found = values(X86Throttle(hardware_tree.box(tmp_path, N97, parts="throttle", **changed)))
    assert found["throttle_cpu_package_events"] == 7
    assert found["throttle_cpu_package_time"] == 1.5


# Graphics cards


def amd(root, **more):
    device = "sys/class/drm/card0/device"
    return tree(
        root,
        **{
            f"{device}/vendor": "0x1002\n",
            f"{device}/gpu_busy_percent": "37\n",
            f"{device}/mem_info_vram_total": "536870912\n",
            f"{device}/mem_info_gtt_used": "4294967296\n",
            f"{device}/hwmon/hwmon5/power1_input": "15250000\n",
            f"{device}/hwmon/hwmon5/temp1_input": "52000\n",
            "sys/class/drm/card0-HDMI-A-1/status": "connected\n",
            **more,
        },
    )


def test_an_apu_lacks_some_files_and_keeps_the_others(tmp_path):
    found = {one.name: one for one in AmdGpu(amd(tmp_path)).read()}
    assert found["amdgpu_load"].value == 37
    assert found["power_amdgpu"].value == 15.25
    assert found["temperature_amdgpu"].value == 52
    assert found["amdgpu_gtt_used"].value == 4294967296
    assert found["amdgpu_vram_used"].state is State.ABSENT


@pytest.mark.parametrize(("code", "state"), [("EOPNOTSUPP", State.ABSENT), ("EBUSY", State.FAILED)])
def test_a_load_that_is_refused_takes_no_other_file_with_it(tmp_path, code, state):
    busy = "sys/class/drm/card0/device/gpu_busy_percent"
    files = amd(tmp_path, **{f"@errno:{busy}": code})
    found = {one.name: one for one in AmdGpu(files).read()}
    assert found["amdgpu_load"].state is state
    assert found["power_amdgpu"].value == 15.25


def test_the_xe_driver_has_its_clock_elsewhere(tmp_path):
    told = {
        "sys/class/drm/card1/device/vendor": "0x8086\n",
        "sys/class/drm/card1/device/tile0/gt0/freq0/act_freq": "1150\n",
    }
    assert values(IntelGpu(tree(tmp_path, **told))) == {"igpu_frequency": 1150e6}


# NVML

CARD = {"init": "ok", "count": 1, "name": "NVIDIA RTX A2000 12GB"}


def card(**told):
    return nvml.NvmlGpu(
        nvml.start(FakeNvml({**CARD, **told})), name="nvml", fields=nvml.FIELDS + nvml.POWER_FIELDS
    )


def test_tel_03_one_call_that_is_refused_disables_that_field_alone():
    found = {
        one.name: one
        for one in card(utilization={"gpu": 0}, temperature_c=35, power_mw=11170).read()
    }
    assert found["gpu_load"].value == 0
    assert found["temperature_gpu"].value == 35
    assert found["power_gpu"].value == pytest.approx(11.17)
    assert found["gpu_memory_total"].state is State.ABSENT
    assert found["energy_gpu"].state is State.ABSENT


def test_what_a_gpu_does_not_support_is_asked_once():
    library = FakeNvml(CARD)
    sensor = nvml.NvmlGpu(nvml.start(library), name="nvml", fields=nvml.POWER_FIELDS)
    sensor.read()
    asked = library.asked.count("total_energy_mj")
    sensor.read()
    assert asked == library.asked.count("total_energy_mj") == 1


def test_a_lost_card_has_failed_and_is_not_taken_for_unified_memory():
    found = {one.name: one for one in card(memory="NVML_ERROR_GPU_IS_LOST").read()}
    assert found["gpu_memory_total"].state is State.FAILED
    assert "lost" in found["gpu_memory_total"].reason


@pytest.mark.parametrize("name", ["Orin (nvgpu)", "NVIDIA Thor", "NVIDIA GB10"])
def test_tel_03_a_gpu_of_the_board_has_no_memory_of_its_own_whatever_it_says(name):
    memory = {"total_mib": 0, "used_mib": 0, "free_mib": 0}
    found = {one.name: one for one in card(name=name, memory=memory).read()}
    assert found["gpu_memory_total"].value is None
    assert "memory_available" in found["gpu_memory_total"].reason


def test_a_second_card_has_its_number_in_the_name():
    names = [one.name for one in card(count=2).read()]
    assert {"gpu_load", "gpu1_load", "temperature_gpu1", "power_gpu1"} <= set(names)


@pytest.mark.parametrize(
    ("mask", "raised"),
    [
        (0x1, set()),
        (0x4, {"gpu_power_capped"}),
        (0x20, {"throttle_gpu_thermal"}),
        (0x40, {"throttle_gpu_thermal"}),
        (0x80, {"throttle_gpu_power_brake"}),
    ],
)
def test_a_power_cap_is_told_apart_from_throttling(mask, raised):
    found = values(card(throttle_reasons=mask))
    flags = {"gpu_power_capped", "throttle_gpu_thermal", "throttle_gpu_power_brake"}
    assert {name for name in flags if found[name]} == raised


def test_the_power_now_is_preferred_to_the_mean_of_a_second():
    library = FakeNvml({**CARD, "power_mw": 8000})
    now = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=12500))
    library.nvmlDeviceGetFieldValues = lambda _gpu, _ids: [now]
    sensor = nvml.NvmlGpu(nvml.start(library), name="nvml", fields=nvml.POWER_FIELDS)
    assert values(sensor)["power_gpu"] == 12.5
    now.nvmlReturn = 3
    assert values(sensor)["power_gpu"] == 8.0


def test_an_error_that_the_library_does_not_name_is_a_failed_field():
    library = FakeNvml({**CARD, "clocks_mhz": {}})
    sensor = nvml.NvmlGpu(nvml.start(library), name="nvml", fields=nvml.FIELDS)
    found = {one.name: one for one in sensor.read()}
    assert found["gpu_frequency"].state is State.FAILED
    assert "KeyError" in found["gpu_frequency"].reason


def test_a_library_that_does_not_start_is_absent_with_its_words():
    found = nvml.start(FakeNvml({"init": "driver not loaded"}))
    assert isinstance(found, Missing)
    assert "does not start" in found.reason


def not_installed():
    raise ImportError("No module named 'pynvml'")


def test_a_gpu_without_the_extra_says_what_to_install(tmp_path):
    found = nvml.library(hardware_tree.box(tmp_path, A2000), not_installed)
    assert found.state is State.FAILED
    assert "edgesweep[nvidia]" in found.reason


def test_a_box_without_an_nvidia_driver_misses_nothing(tmp_path):
    assert nvml.library(Files(tmp_path), not_installed).state is State.ABSENT


def test_nothing_of_this_machine_is_taken_for_a_copy_of_another(tmp_path):
    found = nvml.host(Files(tmp_path))
    assert found.state is State.ABSENT
    assert "another box" in found.reason


# The rest


def test_contiguous_and_nvmap_memory_are_told_where_the_kernel_tells_them(tmp_path):
    told = {
        "proc/meminfo": "MemTotal: 100 kB\nMemFree: 50 kB\nNvMapMemUsed: 25 kB\nCmaFree: 4 kB\n",
        "proc/buddyinfo": "Node 0, zone      DMA      1      0      3      0\n",
    }
    found = values(MemInfo(tree(tmp_path, **told)))
    assert found["memory_nvmap"] == 25 * 1024
    assert found["memory_cma_free"] == 4 * 1024
    assert found["memory_largest_free_block"] == 4096 * 4
    assert found["memory_available"] is None


def test_jetpack_4_drives_its_fan_elsewhere(tmp_path):
    fan = "sys/devices/pwm-fan"
    told = {f"{fan}/target_pwm": "255\n", f"{fan}/rpm_measured": "3100\n"}
    assert values(Fan(tree(tmp_path, **told))) == {"fan_drive": 100, "fan_speed": 3100}


def test_a_disk_that_is_gone_is_a_failed_reading(tmp_path):
    assert values(Disk(tmp_path))["disk_free"] > 0
    assert {one.state for one in Disk(tmp_path / "gone").read()} == {State.FAILED}
