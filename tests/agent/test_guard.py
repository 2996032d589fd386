from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from edgesweep_agent.core.evidence import Evidence, HostEvidence
from edgesweep_agent.core.pressure import Limits, Look, Pressure
from edgesweep_agent.core.validity import Expectations, LevelFacts, flags
from edgesweep_agent.guard import guard
from memory_cgroup import MemoryCgroup

MIB = 2**20
LIMITS = Limits(reserve_bytes=512 * MIB)


def flags_of(report):
    """What the level is flagged for, by the figures of its guard."""
    host = HostEvidence(
        span_s=10.0,
        swap_growth_bytes=report.swap_growth_bytes,
        available_min_bytes=report.minimum_available_bytes,
        reserve_bytes=LIMITS.reserve_bytes,
    )
    found = flags(LevelFacts(1, 1, 1), Evidence(host=host), Expectations(shares_prompts=True))
    return [(flag.name, flag.value) for flag in found]


def looks(*available_mib, period=0.125, **fields):
    return [
        Look(n * period, None if mib is None else mib * MIB, **fields)
        for n, mib in enumerate(available_mib)
    ]


def run(script, limits=LIMITS):
    pressure = Pressure(limits)
    reasons = [pressure.observe(look) for look in script]
    return pressure, [(n, reason) for n, reason in enumerate(reasons) if reason]


def test_cli_02_memory_runs_out_in_mid_sweep():
    """The telemetry script of a sweep on an 8 GB module, a guard a level."""
    steady = {1: [3000], 2: [2400]}
    for available in steady.values():
        pressure, breaches = run(looks(*available * 80))
        assert not breaches
        assert flags_of(pressure.report()) == []

    script = [Look(n / 8, 1500 * MIB, swap_used_bytes=min(600, 10 * n) * MIB) for n in range(80)]
    pressure, breaches = run(script)
    report = pressure.report()
    assert not breaches
    assert flags_of(report) == [("swapping", 600 * MIB)]
    assert (report.reason, report.swap_growth_bytes) == ("", 600 * MIB)

    script = [Look(n / 8, (1500 if n < 24 else 400) * MIB) for n in range(80)]
    pressure, breaches = run(script)
    ((at, reason),) = breaches
    assert script[at].at_s - 3.0 <= 2.0
    assert "400 MiB" in reason
    assert "reserve of 512 MiB" in reason
    report = pressure.report()
    assert (report.reason, report.breach, report.breach_at_s) == ("memory_floor", reason, 3.0)
    assert report.minimum_available_bytes == 400 * MIB
    # Level 16 is never started: the sweep skips what is above a level that has failed so.


def test_a_steady_fall_ends_the_engine_before_the_reserve_is_touched():
    script = looks(900, 800, 700, 600, 516, 400)
    pressure, ((at, reason),) = run(script)
    # At 516 MiB even the soonest look would be too late, by the rate that two falls agree on.
    assert script[at].available_bytes == 516 * MIB
    assert "will at the next look be under the reserve" in reason
    assert pressure.report().breach == reason


def test_looks_come_faster_as_the_reserve_comes_near():
    pressure = Pressure(LIMITS)
    waits = []
    for look in looks(4000, 4000, 3000, 2000, 1000):
        pressure.observe(look)
        waits.append(pressure.next_s())
    assert waits[:2] == [0.125, 0.125]
    assert waits[2:] == sorted(waits[2:], reverse=True)
    assert waits[-1] == pytest.approx((1000 - 512) / 8000 / 4)


def test_one_step_is_no_trend():
    pressure, breaches = run(looks(4000, 4000, 600, 600, 600))
    assert not breaches
    assert pressure.report().minimum_available_bytes == 600 * MIB


def test_a_breach_is_told_once():
    _, breaches = run(looks(400, 300, 200))
    assert len(breaches) == 1


def test_unknown_figures_end_nothing_and_are_not_zero():
    pressure, breaches = run(looks(None, None))
    assert not breaches
    assert pressure.report().minimum_available_bytes is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"swap_in_bytes": 4096}, ""),
        ({"refault_bytes": 17 * MIB}, ""),
        ({"swap_used_bytes": 256 * MIB}, ""),
        ({"oom_kills": 1}, "oom"),
    ],
)
def test_counters_are_those_of_the_level_alone(fields, reason):
    before = dict.fromkeys(("swap_in_bytes", "swap_used_bytes", "refault_bytes", "oom_kills"), 7)
    after = before | {name: 7 + value for name, value in fields.items()}
    pressure, _ = run([Look(0.0, 900 * MIB, **before), Look(0.1, 900 * MIB, **after)])
    report = pressure.report()
    assert report.reason == reason
    assert all(getattr(report, name, value) == value for name, value in fields.items())


def test_peak_use_and_the_longest_gap_are_kept():
    script = [Look(t, 900 * MIB, used_bytes=used) for t, used in ((0, 5), (0.1, 50), (0.9, 6))]
    report = run(script)[0].report()
    assert (report.used_start_bytes, report.used_peak_bytes) == (5, 50)
    assert report.longest_gap_s == pytest.approx(0.8)


def guarded(script, on_breach, root):
    """The guard over scripted looks: its clock runs as fast as it looks."""
    script = iter(script)
    upcoming = [next(script)]
    done = threading.Event()

    def look():
        return upcoming[0]

    def wait(_seconds):
        following = next(script, None)
        if following is None:
            done.set()
            return True
        upcoming[0] = following
        return False

    async def level():
        async with guard(LIMITS, [], on_breach, root=root, look=look, wait=wait) as watch:
            await anyio.to_thread.run_sync(done.wait, 5)
            return watch.report()

    return anyio.run(level)


@pytest.mark.parametrize("script", [(900, 800, 400, 300), (400, 900, 900, 900)])
def test_the_guard_ends_the_engine_at_once(tmp_path, script):
    reasons = []
    report = guarded(looks(*script), reasons.append, tmp_path)
    assert reasons == [report.breach]
    assert report.looks == 4


def test_an_engine_that_has_just_ended_by_itself_is_no_error(tmp_path):
    def gone(_reason):
        raise ProcessLookupError

    report = guarded(looks(400, 400, 900), gone, tmp_path)
    assert (report.looks, report.reason) == (3, "memory_floor")


def test_the_kernel_is_told_to_take_the_engine_first():
    before = Path("/proc/self/oom_score_adj").read_text()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as engine:

        async def level():
            async with guard(Limits(0), [engine.pid], print):
                return int(Path(f"/proc/{engine.pid}/oom_score_adj").read_text())

        assert anyio.run(level) == 1000
        engine.kill()
    assert Path("/proc/self/oom_score_adj").read_text() == before


_BALLOON = """
import sys, time
sys.stdin.readline()
taken = []
while True:
    taken.append(bytearray(b"x" * (4 << 20)))
    time.sleep(0.004)
"""


def test_a_ballooning_engine_is_ended_before_the_kernel_acts():
    if reason := MemoryCgroup.unusable():
        pytest.skip(reason)
    ended = []
    with MemoryCgroup(192 * MIB) as cgroup:
        engine = cgroup.start([sys.executable, "-c", _BALLOON], stdin=subprocess.PIPE)

        def end(reason):
            ended.append(reason)
            engine.kill()

        async def level():
            async with guard(Limits(reserve_bytes=64 * MIB), [engine.pid], end) as watch:
                engine.stdin.write(b"\n")
                engine.stdin.flush()
                await anyio.to_thread.run_sync(engine.wait, 20)
                return watch.report()

        try:
            report = anyio.run(level)
        finally:
            engine.kill()
            engine.communicate()
        assert cgroup.kills() == 0
    assert ended == [report.breach]
    assert str(cgroup.path) in report.limited_by
    assert (report.oom_kills, report.reason) == (0, "memory_floor")
    assert 32 * MIB < report.minimum_available_bytes < 128 * MIB
    assert report.used_peak_bytes > 64 * MIB
