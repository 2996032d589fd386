"""The sampler: ten readings a second in a window, and no sensor that can stop the others."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from edgesweep_agent.core.energy import best
from edgesweep_agent.core.window import Window
from edgesweep_agent.sensors.base import Reading, State
from edgesweep_agent.sensors.sampler import Pace, Sampler

S = 1_000_000_000
QUICK = Pace(fast_s=0.01, all_s=0.05, block_s=0.1, retry_s=0.2)


class Fake:
    """A sensor whose readings are what ``say`` gives."""

    def __init__(self, name, say, fast=False):
        self.name = name
        self.fast = fast
        self.say = say
        self.reads = 0

    def read(self):
        self.reads += 1
        return self.say()


def watts(value=9.0, name="power_vdd_in", boundary="input"):
    return [Reading(name, "W", value=value, boundary=boundary)]


def degrees(value=55.0):
    return [Reading("temperature_cpu", "C", value=value)]


def until(condition, within_s=5.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def span(seconds):
    """A window that is over when this returns."""
    start = time.monotonic_ns()
    time.sleep(seconds)
    return Window(start, time.monotonic_ns())


def test_a_window_is_read_ten_times_as_often_and_only_by_the_fast():
    power, heat = Fake("rails", watts, fast=True), Fake("thermal", degrees)
    with Sampler([heat, power], pace=QUICK) as sampler:
        until(sampler.latest)
        idle = span(0.3)
        sampler.fast(True)
        busy = span(0.3)
        sampler.fast(False)
        slow = len(sampler.series("power_vdd_in", idle.start_ns, idle.end_ns))
        quick = len(sampler.series("power_vdd_in", busy.start_ns, busy.end_ns))
        heats = len(sampler.series("temperature_cpu", busy.start_ns, busy.end_ns))
    assert 4 <= slow <= 9
    assert 18 <= quick <= 36
    assert 4 <= heats <= 9


def test_the_default_pace_is_ten_hertz_in_a_window_and_one_outside():
    pace = Pace()
    assert (pace.fast_s, pace.all_s) == (0.1, 1.0)


def test_energy_of_a_window_from_the_sampler():
    with Sampler(
        [Fake("rails", watts, fast=True), Fake("thermal", degrees)], pace=QUICK
    ) as sampler:
        sampler.fast(True)
        until(sampler.latest)
        window = span(0.3)
        time.sleep(0.05)
        found = best(sampler.power(window.start_ns, window.end_ns), window, period_s=0.05)
    assert found.joules == pytest.approx(9.0 * window.seconds)
    assert found.boundary == "input"


def test_a_window_that_opens_is_read_at_once():
    power = Fake("rails", watts, fast=True)
    with Sampler([power], pace=Pace(fast_s=0.01, all_s=30)) as sampler:
        until(lambda: power.reads == 1)
        sampler.fast(True)
        until(lambda: power.reads > 3, within_s=1)
        assert power.reads > 3


def test_series_reach_over_both_edges_and_know_only_values():
    values = iter([*watts(1.0), Reading("power_vdd_in", "W", State.FAILED, reason="EIO")] * 1000)
    with Sampler([Fake("rails", lambda: [next(values)], fast=True)], pace=QUICK) as sampler:
        sampler.fast(True)
        until(lambda: sampler.series("power_vdd_in", 0, time.monotonic_ns()))
        window = span(0.3)
        time.sleep(0.1)
        points = sampler.series("power_vdd_in", window.start_ns, window.end_ns)
    assert points[0][0] <= window.start_ns < points[1][0]
    assert points[-2][0] < window.end_ns <= points[-1][0]
    assert all(before < after for (before, _), (after, _) in pairwise(points))
    assert {value for _, value in points} == {1.0}
    assert sampler.series("no_such", 0, 2**62) == []


def test_memory_is_bounded_and_the_oldest_go_first():
    count = iter(range(10**6))
    counting = Fake("c", lambda: watts(float(next(count))), fast=True)
    pace = Pace(fast_s=0.005, all_s=0.005, keep_s=0.1)
    with Sampler([counting], pace=pace) as sampler:
        until(lambda: counting.reads > 60)
    points = sampler.series("power_vdd_in", 0, 2**62)
    assert len(points) == 20
    values = [value for _, value in points]
    assert values == [float(n) for n in range(int(values[0]), int(values[0]) + 20)]
    assert values[0] >= 40


def test_a_sensor_that_raises_is_taken_out_and_tried_again():
    def say():
        if bad.reads == 2:
            raise TypeError("can't concat NoneType to bytes")
        return degrees()

    bad, good = Fake("thermal", say), Fake("rails", watts)
    with Sampler([bad, good], pace=QUICK) as sampler:
        until(lambda: bad.reads == 2)
        until(lambda: not sampler.up()["thermal"])
        said = {one.name: one for one in sampler.latest()}
        assert said["temperature_cpu"].state is State.FAILED
        assert said["temperature_cpu"].value is None
        assert "thermal is left alone for now: TypeError: can't" in said["temperature_cpu"].reason
        assert sampler.up()["rails"]
        before = good.reads
        until(lambda: sampler.up() == {"thermal": True, "rails": True})
        assert good.reads - before >= 2
        assert bad.reads >= 3


def test_a_sensor_that_takes_long_is_taken_out():
    def say():
        time.sleep(0.15)
        return degrees()

    slow = Fake("thermal", say)
    with Sampler([slow, Fake("rails", watts)], pace=QUICK) as sampler:
        time.sleep(0.3)  # nobody asks, so that it comes back before anybody could wonder
        said, _ = sampler.latest()
        assert "it took 0." in said.reason
        assert (said.name, said.state) == ("thermal", State.FAILED)
        assert sampler.up() == {"thermal": False, "rails": True}


def test_a_sensor_that_hangs_does_not_hold_up_the_others():
    release = threading.Event()

    def say():
        if not release.is_set():
            release.wait(10)
        return degrees()

    hung, good = Fake("thermal", say), Fake("rails", watts)
    with Sampler([hung, good], pace=QUICK) as sampler:
        until(lambda: sampler.up().get("thermal") is False)
        before = good.reads
        until(lambda: good.reads > before + 3)
        assert hung.reads == 1
        assert "does not come back" in sampler.latest()[0].reason
        release.set()
        until(lambda: sampler.up().get("thermal") is True)
        assert hung.reads >= 2


def test_a_stop_does_not_wait_for_a_sensor_that_hangs():
    release = threading.Event()
    hung = Fake("thermal", lambda: release.wait(10) and degrees())
    began = time.monotonic()
    with Sampler([hung], pace=QUICK):
        until(lambda: hung.reads == 1)
    assert time.monotonic() - began < 2
    release.set()


def test_hardware_that_is_not_there_is_no_sensor_that_is_down():
    missing = Fake("rails", lambda: [Reading("power_vdd_in", "W", State.ABSENT, reason="none")])
    denied = Fake("rapl", lambda: [Reading("energy_package_0", "J", State.FAILED, reason="root")])
    asleep = Fake("gpu", lambda: degrees() if asleep.reads < 2 else missing.say())
    with Sampler([missing, denied, asleep, Fake("none", list)], pace=QUICK) as sampler:
        until(lambda: asleep.reads > 2)
        assert sampler.up() == {"rapl": False, "gpu": False}


def test_two_sensors_of_one_name_are_not_mixed():
    first, second = Fake("hwmon", lambda: watts(5.0)), Fake("jtop", lambda: watts(7.0))
    with Sampler([first, second], pace=QUICK) as sampler:
        until(lambda: second.reads > 3)
        assert [one.value for one in sampler.latest()] == [5.0]
        assert {v for _, v in sampler.series("power_vdd_in", 0, 2**62)} == {5.0}


def test_a_box_without_sensors():
    with Sampler([], pace=QUICK) as sampler:
        sampler.fast(True)
        assert (sampler.latest(), sampler.up(), sampler.power(0, 1)) == ((), {}, [])


def test_an_idle_sampler_sleeps():
    heat = Fake("thermal", degrees)
    with Sampler([heat], pace=Pace(all_s=30)):
        until(lambda: heat.reads == 1)
        before = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - before < 0.02
    assert heat.reads == 1
