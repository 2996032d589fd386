"""Faults planted around a watched level: for real where that is cheap, else in the files of a
device, its clocks or its sensors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from edgesweep_agent.core.counters import Counters, MetricsState
from edgesweep_agent.core.steadiness import ClockLook
from edgesweep_agent.core.validity import Expectations, LevelFacts, flags
from edgesweep_agent.sensors.base import Reading, State
from edgesweep_agent.sensors.files import Files
from edgesweep_agent.sensors.registry import all_sensors
from edgesweep_agent.watch.clocks import both_clocks
from edgesweep_agent.watch.host import PAGE_BYTES
from edgesweep_agent.watch.listener import attached
from edgesweep_agent.watch.watch import EVERY_S, Watch, Watched

pytestmark = pytest.mark.anyio
LEVEL = LevelFacts(concurrency=1, in_flight=1, requests=12)
MIB_PAGES = (1 << 20) // PAGE_BYTES


def found(evidence, **expected):
    return {flag.name: flag.detail for flag in flags(LEVEL, evidence, Expectations(**expected))}


def counters(
    running=0,
    waiting=0,
    slots=None,
    counted=MappingProxyType({"decodes": 1.0}),
    process_start=None,
):
    return Counters(
        MetricsState.OK,
        running=running,
        waiting=waiting,
        slots=slots,
        counted=counted,
        process_start=process_start,
    )


def scraping(*scrapes):
    """Tells these, and then the last one for ever."""
    left = list(scrapes)

    async def scrape():
        return left.pop(0) if len(left) > 1 else left[0]

    return scrape


class Device:
    """The files of a device of two cores, with one process for each of its parts."""

    def __init__(self, root):
        self.root = root
        self.busy = self.steal = 0
        self.vmstat = {"pswpin": 5, "pswpout": 5, "workingset_refault_file": 9, "oom_kill": 1}
        self.stalled_us = 1000
        self.ticks = {10: 0, 20: 0, 21: 0, 30: 0, 40: 0}
        self.parents = {10: 1, 20: 1, 21: 20, 30: 2, 40: 1}
        self.reaped = dict.fromkeys(self.ticks, 0)
        self.starts = dict.fromkeys(self.ticks, 500)
        self.write()

    def write(self):
        (self.root / "proc/pressure").mkdir(parents=True, exist_ok=True)
        cpu = f"{self.busy} 0 0 900 5 0 77 {self.steal} 0 0"
        (self.root / "proc/stat").write_text(f"cpu  {cpu}\ncpu0 {cpu}\ncpu1 {cpu}\nintr 9\n")
        lines = (f"{name} {value}\n" for name, value in self.vmstat.items())
        (self.root / "proc/vmstat").write_text("".join(lines))
        some = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={self.stalled_us}\n"
        (self.root / "proc/pressure/memory").write_text(some + some.replace("some", "full"))
        for pid, ticks in self.ticks.items():
            folder = self.root / f"proc/{pid}"
            folder.mkdir(exist_ok=True)
            times = f"{ticks} 0 {self.reaped[pid]} 0"
            rest = f"0 0 0 0 0 0 0 0 0 {times} 20 0 1 0 {self.starts[pid]} 0 {pid * 100} 0"
            (folder / "stat").write_text(f"{pid} (p {pid}) S {self.parents[pid]} {rest}\n")


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


class Hands:
    """Clocks that are moved by hand."""

    def __init__(self):
        self.mono_ns, self.wall_ns = 10**9, 10**18

    def __call__(self):
        return ClockLook(self.mono_ns, self.wall_ns)

    def move(self, seconds, step_s=0.0):
        self.mono_ns += round(seconds * 1e9)
        self.wall_ns += round((seconds + step_s) * 1e9)


async def watched(device, change, *, seconds=20.0, watch=None):
    """A level of ``seconds`` on the device, with ``change`` made while it ran."""
    clock = Hands()
    parts = watch or Watched(engine=lambda: frozenset({20}), own_pids=frozenset({10}))
    async with Watch(parts, files=Files(device.root), clock=clock) as level:
        clock.move(seconds)
        change(device)
        device.write()
    return level.seen()


MEMORY = [
    ("pswpin", 4 * MIB_PAGES, "", 6 * MIB_PAGES, "swapping"),
    ("workingset_refault_file", 60 * MIB_PAGES, "", 70 * MIB_PAGES, "refault"),
    ("oom_kill", 0, "", 1, "oom"),
    ("pswpout", 9999, "", 9999 * 9, ""),
]


@pytest.mark.parametrize(("counter", "little", "none", "much", "flag"), MEMORY)
async def test_memory_trouble_is_counted_from_the_start_of_the_level(
    device, counter, little, none, much, flag
):
    for pages, expected in ((little, none), (much, flag)):

        def change(one, pages=pages):
            one.vmstat[counter] += pages

        assert ",".join(found(await watched(device, change))) == expected


async def test_a_stall_is_seen(device):
    def change(one):
        one.stalled_us += 3_000_000

    evidence = await watched(device, change)
    assert evidence.host.stalled_share == pytest.approx(0.15)
    assert list(found(evidence)) == ["refault"]


async def test_a_kernel_that_counts_nothing_is_no_clean_bill(tmp_path):
    (tmp_path / "proc").mkdir()
    async with Watch(Watched(), files=Files(tmp_path)) as level:
        pass
    host = level.seen().host
    seen = (host.cores, host.foreign_cpu_s, host.swap_in_bytes, host.oom_kills, host.stalled_share)
    assert seen == (None,) * 5
    assert level.seen().engine.restarted is None


async def test_processor_time_goes_to_whom_it_belongs(device):
    def change(one):
        one.busy += 4000
        one.ticks[20] += 1000
        one.ticks[21] += 500  # the engine's child
        one.ticks[10] += 40
        one.reaped[10] += 160  # a load generator that has ended
        one.ticks[30] += 300  # a kernel thread
        one.ticks[40] += 1500
        one.steal += 20

    evidence = await watched(device, change)
    host = evidence.host
    assert (host.engine_cpu_s, host.agent_cpu_s) == (15.0, 2.0)
    # 5 s more were taken by processes that came and went.
    assert (host.foreign_cpu_s, host.stolen_cpu_s, host.cores) == (20.0, 0.2, 2)
    assert host.foreign_names == ("p 40 15.0 s",)
    assert "p 40 15.0 s" in found(evidence)["foreign_load"]
    assert evidence.values()["foreign_cpu_share"] == pytest.approx(0.5)


async def test_an_engine_that_the_agent_started_is_not_the_agent(device):
    device.parents[20] = 10
    device.write()

    def change(one):
        one.busy += 1500
        one.ticks[21] += 1000
        one.ticks[10] += 50
        one.ticks[40] += 450

    host = (await watched(device, change)).host
    assert (host.engine_cpu_s, host.agent_cpu_s, host.foreign_cpu_s) == (10.0, 0.5, 4.5)


async def test_a_strangers_own_time_counts_where_interrupts_hide_it(device):
    def change(one):
        one.busy += 2100
        one.ticks[20] += 2000  # 1 s of it were interrupts
        one.ticks[40] += 200

    evidence = await watched(device, change)
    assert evidence.host.foreign_cpu_s == 2.0


async def test_a_stranger_that_ended_is_still_in_its_parents_time(device):
    device.ticks[40] = 700
    device.write()

    def change(one):
        one.busy += 300
        one.reaped[20], one.reaped[10] = 40, 60
        one.ticks[40] += 200

    evidence = await watched(device, change)
    host = evidence.host
    assert (host.engine_cpu_s, host.agent_cpu_s, host.foreign_cpu_s) == (0.4, 0.6, 2.0)


@pytest.mark.parametrize(("ticks", "flagged"), [(190, False), (210, True), (3900, True)])
async def test_foreign_load_counts_from_a_tenth_of_a_core(device, ticks, flagged):
    def change(one):
        one.busy += ticks
        one.ticks[40] += ticks

    assert bool(found(await watched(device, change))) is flagged


async def test_where_the_engine_is_not_known_nobody_is_foreign(device):
    def change(one):
        one.busy += 4000
        one.ticks[40] += 4000

    evidence = await watched(device, change, watch=Watched(own_pids=frozenset({10})))
    assert evidence.host.foreign_cpu_s is None
    assert found(evidence) == {}


async def test_an_engine_elsewhere_takes_no_time_here(device):
    def change(one):
        one.busy += 4000

    parts = Watched(engine=frozenset, own_pids=frozenset({10}))
    evidence = await watched(device, change, watch=parts)
    assert (evidence.host.engine_cpu_s, evidence.host.foreign_cpu_s) == (None, 40.0)


@pytest.mark.parametrize("pid", [20, 21])
async def test_a_number_that_now_belongs_to_another_process_is_a_restart(device, pid):
    # 20 is the engine's first process; 21, its child, has the most memory.
    def change(one):
        one.starts[pid] += 1

    evidence = await watched(device, change)
    assert found(evidence) == {"engine_restarted": f"its process {pid} is gone"}
    assert found(await watched(device, lambda _one: None)) == {}


async def test_a_helper_of_the_engine_may_come_and_go(device):
    device.ticks[22] = device.reaped[22] = device.starts[22] = 1
    device.parents[22] = 20
    device.write()
    (device.root / "proc/22/stat").write_text(
        (device.root / "proc/21/stat").read_text().replace("2100", "7").replace("21 (", "22 (")
    )

    def change(one):
        (one.root / "proc/22/stat").unlink()
        for kept in (one.ticks, one.parents, one.reaped, one.starts):
            del kept[22]

    assert found(await watched(device, change)) == {}


@pytest.mark.parametrize(
    ("step_s", "flagged"), [(0.0, False), (0.05, False), (0.11, True), (-3600.0, True)]
)
async def test_a_step_of_the_wall_clock_is_seen(device, step_s, flagged):
    clock = Hands()
    async with Watch(Watched(), files=Files(device.root), clock=clock, every_s=0.001) as level:
        for at in range(5):
            clock.move(1.0, step_s if at == 2 else 0.0005)
            await anyio.sleep(0.005)
    evidence = level.seen()
    assert list(found(evidence)) == ["clock_stepped"] * flagged
    assert evidence.host.span_s == pytest.approx(5.0)


async def test_a_clock_that_only_slews_does_not_step(device):
    clock = Hands()
    async with Watch(Watched(), files=Files(device.root), clock=clock, every_s=0.001) as level:
        for _ in range(20):
            clock.move(30.0, 0.015)
            await anyio.sleep(0.003)
    assert found(level.seen()) == {}


def test_two_clocks_are_read_as_one():
    drifts = [look.wall_ns - look.mono_ns for look in (both_clocks() for _ in range(200))]
    assert max(drifts) - min(drifts) < 50e6


class Sensed:
    """A sensor whose reading follows the looks."""

    name, fast = "fake", True

    def __init__(self, reading, *values):
        # Asked once before the level whether it has anything to say.
        self._reading, self._values, self.reads = reading, [values[0], *values], 0

    def read(self):
        self.reads += 1
        value = self._values.pop(0) if len(self._values) > 1 else self._values[0]
        state = State.ABSENT if value is None else State.OK
        return [Reading(self._reading, "1", state, value)]


@pytest.mark.parametrize(
    ("reading", "values", "share"),
    [
        ("throttle_cpu_throttle_alert", (0, 0), 0.0),
        ("throttle_cpu_throttle_alert", (0, 0, 1), 0.5),
        ("throttle_gpu_thermal", (1,), 1.0),
        ("clamp_cpufreq_cpu0", (0, 0, 2), 0.5),
        ("undervoltage_alarm", (0, 0, 1), 0.5),
        ("throttle_oc3_time", (100.0, 100.1, 100.2), 0.01),
        ("throttle_oc3_time", (100.0, 103.0, 110.0), 0.5),
        ("throttle_oc3_events", (500, 510, 652), 0.0081),
        ("throttle_oc3_events", (500, 510, 1000), 0.0268),
        ("throttle_oc1_events", (7, 7, 8), 0.5),
        ("throttle_oc1_events", (7,), 0.0),
        ("throttle_alert", (None,), None),
        ("temperature_cpu", (60.0, 95.5, 70.0), None),
    ],
)
async def test_throttling_is_a_share_of_the_time(device, reading, values, share):
    clock = Hands()
    parts = Watched(sensors=[Sensed(reading, *values)])
    async with Watch(parts, files=Files(device.root), clock=clock, every_s=0.02) as level:
        clock.move(10.0)
        await anyio.sleep(0.03)
        clock.move(10.0)
    host = level.seen().host
    assert host.throttled_share == (share if share is None else pytest.approx(share, abs=1e-3))
    assert host.throttled_by == ("" if share is None else reading)
    assert host.temperature_max_c == (95.5 if reading == "temperature_cpu" else None)
    assert list(found(level.seen())) == ["throttled"] * ((share or 0) > 0.02)


async def test_events_give_way_to_a_time_of_the_same_source(device):
    clock = Hands()
    sensors = [Sensed("throttle_oc1_time", 4.0, 4.1), Sensed("throttle_oc1_events", 1, 900)]
    parts = Watched(sensors=sensors)
    async with Watch(parts, files=Files(device.root), clock=clock) as level:
        clock.move(10.0)
    assert level.seen().host.throttled_share == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("reading", "value", "reads"),
    [("temperature_cpu", 50.0, 3), ("power_vdd_in", 9.0, 1), ("throttle_alert", None, 1)],
)
async def test_a_sensor_that_has_nothing_to_say_here_is_left_alone(device, reading, value, reads):
    sensor = Sensed(reading, value)
    async with Watch(Watched(sensors=[sensor]), files=Files(device.root)):
        pass
    assert sensor.reads == reads


async def test_caps_that_changed_are_told(device):
    caps = iter(["cpu6@1497.6,pinned", "cpu6@1497.6,free"])
    async with Watch(Watched(caps=lambda: next(caps)), files=Files(device.root)) as level:
        pass
    told = "the caps changed: cpu6@1497.6,pinned -> cpu6@1497.6,free"
    assert found(level.seen()) == {"throttled": told}


@pytest.mark.parametrize(
    ("scrapes", "flagged"),
    [
        ((counters(),), []),
        ((counters(running=1), counters()), []),  # it finished what was left
        ((counters(waiting=1), counters()), []),
        ((counters(running=1),), ["dirty_start"]),
        ((counters(waiting=9),), ["dirty_start"]),
        ((counters(running=None, waiting=None),), []),
        ((None,), []),
    ],
)
async def test_an_engine_that_is_busy_before_the_level_makes_a_dirty_start(
    device, scrapes, flagged
):
    parts = Watched(scrape=scraping(*scrapes))
    async with Watch(parts, files=Files(device.root), settle_s=0.3) as level:
        pass
    assert list(found(level.seen())) == flagged


def told(running=0, waiting=0, slots=None, start=None, **counted):
    return counters(running, waiting, slots, MappingProxyType(counted), start)


@pytest.mark.parametrize(
    ("after", "flagged"),
    [
        (told(decodes=90, preemptions=3), []),
        (told(decodes=90, preemptions=4), ["preempted"]),
        (told(decodes=49), ["engine_restarted"]),
        (told(decodes=90, start=8), ["engine_restarted"]),
        (told(decodes=90, running=2), ["foreign_load"]),
        (told(decodes=90, running=1, waiting=1, slots=1), ["queued"]),
        (None, []),
    ],
)
async def test_what_the_engine_tells_afterwards_counts(device, after, flagged):
    parts = Watched(scrape=scraping(told(decodes=50, preemptions=3, start=7), after))
    async with Watch(parts, files=Files(device.root)) as level:
        pass
    assert list(found(level.seen())) == flagged


async def test_the_engine_is_asked_meanwhile(device):
    parts = Watched(scrape=scraping(counters(), counters(running=1), counters()))
    async with Watch(parts, files=Files(device.root), every_s=0.02) as level:
        await anyio.sleep(0.06)
    assert level.seen().engine.running_peak == 1


async def test_compiling_after_the_warm_up_is_read_from_the_log(device, tmp_path):
    log = tmp_path / "server.log"
    line = "WARNING Triton kernel JIT compilation during inference: kernel_unified\n"
    log.write_text(line)
    for text, flagged in (("all is well\n", []), (line, ["jit_compiled"])):
        async with Watch(Watched(log=log), files=Files(device.root)) as level:
            with log.open("a") as sink:
                sink.write(line)
            level.begin()
            with log.open("a") as sink:
                sink.write(text)
        assert list(found(level.seen())) == flagged


async def test_what_the_warm_up_did_to_the_device_does_not_count(device):
    async with Watch(
        Watched(engine=lambda: frozenset({20})), files=Files(device.root), clock=Hands()
    ) as level:
        device.vmstat["pswpin"] += 10**6
        device.busy += 10**6
        device.write()
        level.begin()
        level._clock.move(10)
    evidence = level.seen()
    assert (evidence.host.swap_in_bytes, evidence.host.foreign_cpu_s) == (0, 0.0)


async def test_what_happens_in_the_body_comes_out_as_it_is(device):
    with pytest.raises(ZeroDivisionError):
        async with Watch(Watched(scrape=scraping(counters())), files=Files(device.root)) as level:
            raise ZeroDivisionError
    assert level.seen().host.swap_in_bytes == 0


async def test_a_cancelled_level_waits_for_no_engine(device):
    calls = []

    async def scrape():
        calls.append(1)
        return counters() if len(calls) == 1 else await anyio.sleep(60)

    began = time.monotonic()
    with anyio.move_on_after(0.05) as scope:
        async with Watch(Watched(scrape=scrape), files=Files(device.root)):
            await anyio.sleep(60)
    assert scope.cancelled_caught
    assert time.monotonic() - began < 1


# For real, on this machine.

BURN = "import time\nwhile time.process_time() < {}: pass"
SLEEP = "import time\ntime.sleep(60)"


@contextmanager
def stranger(code):
    """A process that is nobody's child: its parent has left it."""
    launch = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=-3, stderr=-3).pid)"
    )
    command = [sys.executable, "-c", launch, code]
    done = subprocess.run(command, capture_output=True, check=True, timeout=20)
    pid = int(done.stdout)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def child(code):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def go(process):
    """What it waits for: from here on it may burn."""
    process.stdin.write("\n")
    process.stdin.flush()


async def test_a_stranger_that_burns_half_a_second_is_foreign():
    code = BURN.format(0.5) + f"\n{SLEEP}"
    with ExitStack() as stack:
        async with Watch(Watched(engine=frozenset)) as level:
            stat = Path(f"/proc/{stack.enter_context(stranger(code))}/stat")
            with anyio.fail_after(20):
                while sum(map(int, stat.read_text().split()[13:15])) < 45:
                    await anyio.sleep(0.02)
    assert level.seen().host.foreign_cpu_s >= 0.4
    assert "foreign_load" in found(level.seen())


async def test_a_child_that_has_ended_was_the_agents():
    async with Watch(Watched(engine=frozenset)) as level:
        await anyio.run_process([sys.executable, "-c", BURN.format(0.3)])
    host = level.seen().host
    assert host.agent_cpu_s >= 0.25


async def test_an_attached_engine_is_found_by_its_port_and_missed_when_it_is_another():
    serve = (
        "import socket, time\nlisten = socket.create_server(('127.0.0.1', PORT))\n"
        f"print(listen.getsockname()[1], flush=True)\ninput()\n{BURN.format(0.2)}\n"
        f"print(1, flush=True)\n{SLEEP}"
    )
    with child(serve.replace("PORT", "0")) as first:
        port = first.stdout.readline().strip()
        engine = attached(f"http://localhost:{port}", Files())
        assert engine() == frozenset({first.pid})
        async with Watch(Watched(engine=engine)) as level:
            go(first)
            first.stdout.readline()
        assert level.seen().engine.restarted == ""
        assert level.seen().host.engine_cpu_s > 0.1
        async with Watch(Watched(engine=engine)) as level:
            first.kill()
            first.wait()
            with child(serve.replace("PORT", port)) as second:
                second.stdout.readline()
                assert engine() == frozenset({second.pid})
    assert found(level.seen())["engine_restarted"] == f"its process {first.pid} is gone"


async def test_watching_takes_less_than_a_hundredth_of_a_core():
    wanted = {"thermal", "chip_temperature", "cooling", "soctherm", "x86_throttle"}
    sensors = [sensor for sensor in all_sensors() if sensor.name in wanted]
    async with Watch(Watched(engine=frozenset, sensors=sensors)) as level:
        began_s = time.process_time()
        for _ in range(20):
            level._look()
        look_s = (time.process_time() - began_s) / 20
    assert look_s / EVERY_S < 0.01
