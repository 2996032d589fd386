"""``inspect``: what a person sees, and what a program gets."""

from __future__ import annotations

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

import hardware_tree
from edgesweep_agent import memory
from edgesweep_agent.cli.inspect import inspect, value_text
from edgesweep_agent.errors import UsageError
from edgesweep_agent.sensors.base import Reading, State

NANO = "jetson-orin-nano-8gb-devkit-jp6-15w"
PI = "raspberry-pi-5-8gb"

app = Typer()
app.command()(inspect)


def run(*arguments):
    return CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "120"})


def told(root):
    return json.loads(run("--root", str(root), "--json").stdout)


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    root = tmp_path_factory.mktemp("nano")
    hardware_tree.box(root, NANO)
    return root


def test_the_json_has_the_keys_of_the_contract(nano):
    found = told(nano)
    assert list(found) == ["hardware_class", "performance_state", "attributes", "memory", "sensors"]
    assert list(found["memory"]) == ["total_bytes", "available_bytes", "limited_by"]
    assert {tuple(one) for one in found["sensors"]} == {
        ("name", "state", "value", "unit", "reason")
    }
    assert {one["state"] for one in found["sensors"]} == {"ok", "absent", "failed"}


def test_a_missing_value_is_null_with_a_reason(nano):
    for one in told(nano)["sensors"]:
        assert (one["state"] == "ok") == (one["value"] is not None) == (one["reason"] == "")


def test_the_memory_is_what_an_engine_could_take(nano):
    found = told(nano)["memory"]
    left = memory.available(root=nano)
    assert found == {
        "total_bytes": left.total_bytes,
        "available_bytes": left.available_bytes,
        "limited_by": left.limited_by,
    }
    assert found["total_bytes"] == 7802664 * 1024


def test_nothing_of_this_machine_is_told_of_a_copy(nano):
    names = {one["name"] for one in told(nano)["sensors"]}
    assert not {"disk_free", "jtop_gpu_load", "tegrastats_emc_load"} & names


def test_a_person_sees_the_class_the_caps_and_what_works_first(nano):
    shown = run("--root", str(nano)).stdout
    lines = shown.splitlines()
    assert "jetson.tegra234.p3767-0005.8g.6c" in lines[0]
    assert "cpu6@1497.6,gpu@612" in lines[1]
    assert "5.40 GiB available of 7.44 GiB, limited by MemAvailable" in lines[2]
    assert "9.25 W (input)" in shown
    assert (
        shown.index("power_vdd_in")
        < shown.index("temperature_cv0")
        < shown.index("energy_package_0")
    )


def test_a_pi_says_that_it_has_no_pressure_information(tmp_path):
    hardware_tree.box(tmp_path, PI)
    assert "psi=1" in run("--root", str(tmp_path)).stdout


def test_words_in_brackets_are_shown_as_they_are(tmp_path):
    hardware_tree.build(tmp_path, {"proc/device-tree/model": "Box [rev 2]\0"})
    assert "Box [rev 2]" in run("--root", str(tmp_path)).stdout


def test_a_root_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="--root"):
        run("--root", str(tmp_path / "gone"))


def test_an_empty_root_is_told_without_an_error(tmp_path):
    found = told(tmp_path)
    assert found["hardware_class"] == "unknown"
    assert found["memory"]["total_bytes"] is None
    assert "cannot be read" in run("--root", str(tmp_path)).stdout


def test_this_machine_can_be_inspected():
    found = json.loads(run("--json").stdout)
    assert found["memory"]["total_bytes"] > 0
    assert "disk_free" in {one["name"] for one in found["sensors"]}


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (Reading("a", "bytes", value=3 * 2**30), "3.00 GiB"),
        (Reading("a", "bytes", value=4 * 2**20), "4 MiB"),
        (Reading("a", "Hz", value=1497.6e6), "1498 MHz"),
        (Reading("a", "1", value=2318275), "2318275"),
        (Reading("a", "W", value=-0.396, boundary="rails"), "-0.40 W (rails)"),
        (Reading("a", "C", value=63.625), "63.62 °C"),
        (Reading("a", "percent", value=0), "0.00 %"),
        (Reading("a", "W", State.ABSENT, reason="none"), ""),
    ],
)
def test_values_are_shown_in_units_that_people_read(reading, text):
    assert value_text(reading) == text
