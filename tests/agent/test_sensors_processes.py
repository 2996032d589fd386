"""An engine's processes: who they are over time, and what they use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

import hardware_tree
from edgesweep_agent.core import processes
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.files import Files
from edgesweep_agent.sensors.processes import EngineProcesses

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Proc:
    """A ``/proc`` whose processes come and go."""

    def __init__(self, root) -> None:
        self.root = root
        self.files = Files(root)

    def put(self, pid, *, start=1000, parent=1, rss=0, cpu_s=0.0, state="S", name="llama-server"):
        folder = self.root / f"proc/{pid}"
        folder.mkdir(parents=True, exist_ok=True)
        fields = [state, parent, pid, pid, 0, -1, 0, 0, 0, 0, 0, round(cpu_s * TICKS), 0]
        fields += [0, 0, 20, 0, 8, 0, start, 10**9, rss // PAGE, 2**64 - 1, 0, 0]
        text = " ".join(str(field) for field in fields)
        (folder / "stat").write_text(f"{pid} ({name}) {text}\n")

    def rollup(self, pid, *, anon=0, shmem=0, file=0):
        text = f"Rss: 1 kB\nPss_Anon: {anon} kB\nPss_File: {file} kB\nPss_Shmem: {shmem} kB\n"
        (self.root / f"proc/{pid}/smaps_rollup").write_text(text)

    def end(self, pid):
        shutil.rmtree(self.root / f"proc/{pid}")


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def values(sensor):
    return {one.name: one.value for one in sensor.read()}


def test_tel_05_the_script_of_the_case(proc):
    clock = Clock()
    sensor = EngineProcesses(proc.files, 500, clock=clock)
    rss, cpu = [], []

    def look(at):
        clock.now = at
        found = values(sensor)
        rss.append(found["engine_rss"])
        cpu.append(found["engine_cpu"])

    proc.put(500, start=1000, rss=3_000_000_512, cpu_s=10)
    look(0)
    proc.put(500, start=1000, rss=3_100_000_256, cpu_s=11.8)
    look(1)
    proc.end(500)
    look(2)
    proc.put(500, start=1002, rss=5_000_000, cpu_s=0.01)
    look(3)
    assert rss == [3_000_000_512, 3_100_000_256, None, None]
    assert cpu == [None, pytest.approx(180.0), None, None]
    assert sensor.exited.at_s == 2
    last = {one.name: one.value for one in sensor.exited.last}
    assert last["engine_rss"] == 3_100_000_256


def test_tel_05_a_number_that_was_given_out_again_between_two_looks_is_a_stranger(proc):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    proc.put(500, start=1000, rss=PAGE)
    assert values(sensor)["engine_rss"] == PAGE
    proc.put(500, start=1002, rss=7 * PAGE)
    assert values(sensor)["engine_rss"] is None
    assert sensor.exited is not None


@pytest.mark.parametrize("state", ["Z", "X"])
def test_tel_05_a_zombie_has_ended(proc, state):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    proc.put(500)
    sensor.read()
    proc.put(500, state=state)
    assert {one.state for one in sensor.read()} == {State.ABSENT}
    assert sensor.exited is not None


def test_tel_05_a_process_that_never_was_is_absent_and_no_exit(proc):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    assert {one.reason for one in sensor.read()} == {"no process 500"}
    assert sensor.exited is None


def test_workers_count_whoever_their_parent_is_by_now(proc):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    proc.put(500, rss=10 * PAGE)
    proc.put(501, parent=500, start=1001, rss=4 * PAGE)
    proc.put(502, parent=501, start=1002, rss=2 * PAGE)
    proc.put(600, parent=1, rss=99 * PAGE)
    assert values(sensor)["engine_rss"] == 16 * PAGE
    proc.end(501)
    proc.put(502, parent=1, start=1002, rss=2 * PAGE)
    found = values(sensor)
    assert found["engine_rss"] == 12 * PAGE
    assert found["engine_processes"] == 2


def test_a_stranger_with_the_number_of_a_dead_worker_stays_out(proc):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    proc.put(500, rss=PAGE)
    proc.put(501, parent=500, start=1001, rss=PAGE)
    sensor.read()
    proc.put(501, parent=1, start=2000, rss=50 * PAGE)
    assert values(sensor)["engine_rss"] == PAGE


def test_a_new_worker_brings_the_time_that_it_has_used(proc):
    clock = Clock()
    sensor = EngineProcesses(proc.files, 500, clock=clock)
    proc.put(500, cpu_s=100)
    sensor.read()
    clock.now = 2
    proc.put(500, cpu_s=101)
    proc.put(501, parent=500, start=1001, cpu_s=1)
    assert values(sensor)["engine_cpu"] == pytest.approx(100)


def test_what_it_has_to_itself_is_told_apart_from_mapped_weights(tmp_path):
    files = hardware_tree.box(tmp_path, "intel-n97-industrial-pc")
    Proc(tmp_path).put(4242, rss=2764800 * 1024)
    found = values(EngineProcesses(files, 4242, clock=Clock()))
    assert found["engine_private"] == 598016 * 1024
    assert found["engine_mapped"] == 2163884 * 1024
    assert found["engine_rss"] == 2764800 * 1024


def test_a_worker_that_ends_between_two_files_does_not_take_the_sum_with_it(proc):
    sensor = EngineProcesses(proc.files, 500, clock=Clock())
    proc.put(500)
    proc.rollup(500, anon=10, shmem=2, file=5)
    proc.put(501, parent=500, start=1001)
    found = values(sensor)
    assert found["engine_private"] == 12 * 1024
    assert found["engine_mapped"] == 5 * 1024


def test_another_users_process_has_a_reason_in_place_of_half_a_sum(tmp_path):
    denied = {"@mode:proc/501/smaps_rollup": "0400"}
    files = hardware_tree.build(tmp_path, denied)
    proc = Proc(tmp_path)
    for pid, parent in ((500, 1), (501, 500)):
        proc.put(pid, parent=parent, rss=PAGE)
        proc.rollup(pid, anon=10)
    found = {one.name: one for one in EngineProcesses(files, 500, clock=Clock()).read()}
    assert found["engine_private"].state is State.FAILED
    assert "root" in found["engine_private"].reason
    assert found["engine_rss"].value == 2 * PAGE


@pytest.mark.parametrize("name", ["llama server", "a) S 1 (b", "((("])
def test_a_name_may_hold_spaces_and_brackets(proc, name):
    proc.put(500, name=name, parent=7)
    stat = processes.parse_stat((proc.root / "proc/500/stat").read_text())
    assert stat.identity == processes.Identity(500, 1000)
    assert stat.parent == 7


@pytest.mark.parametrize("text", ["", "500", "500 (x", "500 (x) S 1"])
def test_half_a_stat_is_none(text):
    assert processes.parse_stat(text) is None


def test_a_real_process_is_measured_until_it_ends():
    code = "import time\nprint(flush=True)\nwhile True: time.sleep(0.01)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child.stdout.readline()
    sensor = EngineProcesses(Files(), child.pid, clock=time.monotonic)
    try:
        first = values(sensor)
        second = values(sensor)
    finally:
        child.kill()
        child.communicate()
    assert first["engine_rss"] > 2**20
    assert first["engine_private"] > 0
    assert first["engine_cpu"] is None
    assert second["engine_cpu"] is not None
    assert values(sensor)["engine_rss"] is None
    assert sensor.exited is not None
