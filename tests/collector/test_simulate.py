"""The fleet that does not exist, without a transport: the same bytes, the planted answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import pytest

from edgesweep import codec, envelope
from edgesweep.events import CLOCK_SET, clock_offset_ns, dropped_records
from edgesweep.records import ClockQuality, Kind, LevelStatus, RunState
from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.pairing import pair, problem
from edgesweep_collector.simulate.boots import starts
from edgesweep_collector.simulate.classes import CLASSES
from edgesweep_collector.simulate.fleet import OUTLIER, REGRESSED, Fault, Options, fleet
from edgesweep_collector.simulate.life import Life
from edgesweep_collector.simulate.shapes import Curve, crossing
from edgesweep_collector.simulate.timetable import sweeps
from edgesweep_collector.simulate.truth import lines, truth

START_NS = 1_796_000_000 * 10**9
OPTIONS = Options(seed=7, start_ns=START_NS, devices=36, span_s=3600.0)


def decoded(one):
    """The envelopes of a device, each with its record."""
    for made in Life(one):
        found = envelope.decode(made.data)
        assert (found.epoch, found.seq, found.kind) == (made.epoch, made.seq, made.kind)
        yield found, codec.decode(found.kind, found.payload)


def records(one, kind):
    return [record for found, record in decoded(one) if found.kind is kind]


def levels_of(devices):
    return [level for one in devices for level in records(one, Kind.LEVEL)]


def with_fault(fault, **changes):
    """A device of a quick class that has this fault and no other."""
    one = fleet(replace(OPTIONS, devices=1, classes=("x86.rtx-a2000-12g",))).devices[0]
    options = replace(one.options, **changes)
    return replace(one, faults=frozenset({fault}), options=options, regression=None)


def test_a_seed_and_a_start_give_the_same_bytes():
    first, again = (
        [[made.data for made in islice(Life(one), 60)] for one in fleet(OPTIONS).devices[:6]]
        for _ in range(2)
    )
    assert first == again


@pytest.mark.parametrize("change", [{"seed": 8}, {"start_ns": START_NS + 10**9}])
def test_another_seed_or_start_has_other_epochs_and_runs(change):
    one, other = (fleet(options).devices[0] for options in (OPTIONS, replace(OPTIONS, **change)))
    first, second = (next(iter(Life(device))) for device in (one, other))
    assert first.epoch != second.epoch
    assert next(sweeps(one)).run_id != next(sweeps(other)).run_id


def test_numbers_times_and_counters_of_a_device_that_is_well():
    one = with_fault(Fault.SENSOR_MISSING)
    made = [found for found, _ in decoded(one)]
    assert [found.seq for found in made] == list(range(1, len(made) + 1))
    assert len({found.epoch for found in made}) == 1
    assert all(b.wall_ns >= a.wall_ns for a, b in pairwise(made))
    assert {found.wall_ns - found.mono_ns for found in made} == {made[0].wall_ns - made[0].mono_ns}
    assert made[0].kind is Kind.BIRTH
    assert made[-1].wall_ns < START_NS + 3600 * 10**9
    beats = sum(found.kind is Kind.HEARTBEAT for found in made)
    assert 3600 / 30 - 3 <= beats <= 3600 / 30


@pytest.mark.parametrize("key", CLASSES)
def test_a_comparison_finds_the_planted_answers(key):
    options = Options(
        3, START_NS, 6, (key,), telemetry_s=0.0, heartbeat_s=1e6, runs=1, faults=False,
        regression="none",
    )  # fmt: skip
    found = fleet(options)
    told = truth(found)["classes"][key]
    compared = pair(levels_of(found.devices))
    assert (compared.a.name, compared.b.name) == ("llama.cpp", "vLLM")
    answer = estimate(problem(compared, "output_tokens_per_s")).as_json()
    truly = told["answers"]["output_tokens_per_s"]
    assert answer["verdict"] == truly["verdict"]
    crossings = [(pytest.approx(truly["on_levels"], rel=0.1), truly["direction"])] if (
        "on_levels" in truly
    ) else []  # fmt: skip
    assert [tuple(one) for one in answer["crossings"]] == crossings
    if truly["verdict"] == "CROSSOVER_A_TO_B":
        low, high = answer["ci95"]
        assert low * 0.97 <= truly["on_levels"] <= high * 1.03
    if CLASSES[key].crossover is not None:
        assert truly["concurrency"] == pytest.approx(CLASSES[key].crossover, rel=1e-3)
        assert truly["on_levels"] == pytest.approx(CLASSES[key].crossover, rel=0.05)
    assert ("beyond" in truly) == (key == "jetson.orin-nano-8g")


def test_what_does_not_fit_is_skipped_with_the_arithmetic():
    (one,) = fleet(replace(OPTIONS, devices=1, classes=("jetson.orin-nano-8g",))).devices
    one = replace(one, options=replace(one.options, span_s=None, runs=1))
    found = {
        (level.contender.name, level.concurrency): (level.status, level.reason)
        for level in records(one, Kind.LEVEL)
    }
    assert found["vLLM", 32] == (LevelStatus.SKIPPED, "memory")
    assert found["vLLM", 16] == found["llama.cpp", 32] == (LevelStatus.VALID, "")
    (skipped,) = {level.verdict for level in records(one, Kind.LEVEL) if level.reason == "memory"}
    assert not skipped.admit
    assert skipped.needed_bytes > skipped.available_bytes - skipped.reserve_bytes


def test_slow_units_are_slow_in_both_engines():
    found = fleet(replace(OPTIONS, devices=60))
    slow = [one for one in found.devices if one.outlier]
    assert truth(found)["outliers"]["devices"] == [one.device_id for one in slow]
    assert {one.of.key for one in slow} == set(CLASSES)
    for one in slow:
        assert one.speeds == pytest.approx((OUTLIER, OUTLIER), rel=0.07)


@pytest.mark.parametrize(("word", "version"), [("agent", "0.2.0"), ("date", "0.1.0")])
def test_a_change_for_the_worse_comes_with_a_version_or_with_a_day(word, version):
    options = Options(
        7, START_NS, devices=1, classes=("x86.rtx-a2000-12g",), runs=2, faults=False,
        regression=word, regression_at_s=2000.0,
    )  # fmt: skip
    (one,) = fleet(options).devices
    first, second = sweeps(one)
    assert first.begins_s < 2000.0 <= second.begins_s
    rates = {}
    for made, level in decoded(one):
        if made.kind is Kind.LEVEL and level.concurrency == 1:
            key = level.run_id, level.contender.name, made.agent_version
            rates.setdefault(key, []).append(level.values["output_tokens_per_s"])
    means = {key: sum(values) / len(values) for key, values in rates.items()}
    before, after = means[first.run_id, "vLLM", "0.1.0"], means[second.run_id, "vLLM", version]
    assert after / before == pytest.approx(REGRESSED, rel=0.06)
    before = means[first.run_id, "llama.cpp", "0.1.0"]
    assert means[second.run_id, "llama.cpp", version] == pytest.approx(before, rel=0.06)
    assert len(list(islice(starts(one), 3))) == (2 if word == "agent" else 1)


def test_gaps_are_told_or_not():
    for fault in (Fault.GAP_TOLD, Fault.GAP_UNTOLD):
        one = with_fault(fault)
        life = Life(one)
        seqs = [made.seq for made in life]
        missing = set(range(1, seqs[-1] + 1)) - set(seqs)
        told = {
            seq
            for event in records(one, Kind.EVENT)
            for first, last in dropped_records(event).ranges
            for seq in range(first, last + 1)
        }
        assert missing
        assert told == (missing if fault is Fault.GAP_TOLD else set())
        assert life.missing.told + life.missing.untold == len(missing)


def test_an_unset_clock_counts_from_1970_until_an_event_tells_what_it_was_set_to():
    made = list(decoded(with_fault(Fault.CLOCK_UNSET)))
    (at,) = (
        n for n, (found, one) in enumerate(made)
        if found.kind is Kind.EVENT and one.name == CLOCK_SET
    )  # fmt: skip
    assert at > 1
    assert {found.clock for found, _ in made[:at]} == {ClockQuality.UNSYNCED}
    assert {found.clock for found, _ in made[at:]} == {ClockQuality.SYNCED}
    assert max(found.wall_ns for found, _ in made[:at]) < 3600 * 10**9
    offset_ns = clock_offset_ns(made[at][1])
    assert all(found.wall_ns - found.mono_ns == offset_ns for found, _ in made[at:])


def test_a_clock_that_is_ahead_calls_itself_right():
    found, _ = next(decoded(with_fault(Fault.CLOCK_AHEAD)))
    assert found.wall_ns > START_NS + 86_000 * 10**9
    assert found.clock is ClockQuality.SYNCED


def test_a_new_epoch_begins_at_one_and_says_why():
    one = with_fault(Fault.NEW_EPOCHS)
    by_epoch = {}
    for made in Life(one):
        by_epoch.setdefault(made.epoch, []).append(made)
    assert len(by_epoch) == 4
    for n, made in enumerate(by_epoch.values()):
        assert [each.seq for each in made] == list(range(1, len(made) + 1))
        if n:
            first = envelope.decode(made[0].data)
            assert codec.decode(first.kind, first.payload).name == "spool_quarantined"


def test_restarts_are_births_with_a_counter_and_a_silence_before():
    one = with_fault(Fault.RESTARTS, telemetry_s=2.0, span_s=1800.0)
    births = [(found, record) for found, record in decoded(one) if found.kind is Kind.BIRTH]
    assert [record.connection for _, record in births] == list(range(1, len(births) + 1))
    assert len(births) >= 5
    assert len({found.boot_id for found, _ in births}) == 1
    telemetry = [made.at_s for made in Life(one) if made.kind is Kind.TELEMETRY]
    longest_s = max(b - a for a, b in pairwise(telemetry))
    assert 10 < longest_s < 20


def test_levels_fail_are_flagged_and_skipped_as_planted():
    expected = {
        Fault.LEVELS_FAIL: (LevelStatus.FAILED, "errors"),
        Fault.LEVELS_FLAGGED: (LevelStatus.FLAGGED, ""),
        Fault.LEVELS_SKIPPED: (LevelStatus.SKIPPED, "time_budget"),
    }
    for fault, told in expected.items():
        levels = records(with_fault(fault, span_s=None, runs=1), Kind.LEVEL)
        found = {(level.status, level.reason) for level in levels}
        assert found == {(LevelStatus.VALID, ""), told}


def test_a_sensor_that_is_missing_has_a_reason_and_no_value():
    one = with_fault(Fault.SENSOR_MISSING)
    for record in records(one, Kind.TELEMETRY):
        (power,) = (value for value in record.readings if value.name == "power_gpu")
        assert (power.value, power.unit) == (None, "W")
        assert "Input/output error" in power.reason
    assert {beat.sensor_up["power_rails"] for beat in records(one, Kind.HEARTBEAT)} == {False}


def test_sensors_follow_the_load():
    one = with_fault(Fault.LEVELS_FAIL, span_s=2600.0)
    sweep = next(sweeps(one))
    assert sweep.ends_s + 500.0 < 2600.0
    loads = {True: [], False: []}
    for found, record in decoded(one):
        if found.kind is Kind.TELEMETRY:
            at_s = (found.wall_ns - START_NS) / 1e9
            value = next(x.value for x in record.readings if x.name == "gpu_load")
            loads[sweep.begins_s <= at_s < sweep.ends_s].append(value)
    assert min(loads[True]) > 80
    assert max(loads[False]) < 5


def test_a_run_has_a_snapshot_at_each_end_and_all_its_levels():
    one = with_fault(Fault.DUPLICATES, span_s=None, runs=1)
    first, last = records(one, Kind.RUN)
    levels = records(one, Kind.LEVEL)
    assert (first.state, last.state) == (RunState.RUNNING, RunState.COMPLETE)
    assert last.n_levels == len(levels) == len({level.key for level in levels})
    assert {made.copies for made in Life(one)} == {1, 2}


def test_people_are_told_everything_that_is_planted():
    found = fleet(OPTIONS)
    text = "\n".join(lines(found))
    assert "vLLM overtakes llama.cpp at 5.7 requests" in text
    assert "llama.cpp leads at every level" in text
    for one in found.devices:
        for fault in one.faults:
            assert any(
                line.startswith(f"{fault.value}: ") and one.device_id in line
                for line in text.splitlines()
            )


def test_curves_that_do_not_meet_have_no_crossing():
    slow, fast = (Curve(rate, 0.2, 0.001, 8, 500.0, 0.2) for rate in (10.0, 20.0))
    assert crossing(slow.output_tokens_per_s, fast.output_tokens_per_s, 8) is None
    steep = replace(slow, contention=0.02)
    planted = fast.crossed_by(steep, 3.0)
    meets = crossing(fast.output_tokens_per_s, planted.output_tokens_per_s, 8)
    assert meets == pytest.approx(3.0)
