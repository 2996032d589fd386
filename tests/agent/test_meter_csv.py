"""An external meter's log: whatever it looks like, the same watts at the same instants."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from edgesweep_agent.cli.commands import PROGRAM
from edgesweep_agent.core.meter_csv import MeterError, instant_ns, parse, shifted, step_ns
from edgesweep_agent.errors import ProgramError, UsageError
from edgesweep_agent.sensors.meter import read_log

S = 1_000_000_000
T0 = 1767225600  # 2026-01-01T00:00:00Z
WATTS = [10.5, 20.25, 30.0]

LOGS = {
    "iso": "time,power (W)\n2026-01-01T00:00:00Z,10.5\n2026-01-01T00:00:01Z,20.25\n"
    "2026-01-01T00:00:02.000Z,30\n",
    "no zone is UTC": "Timestamp,Watts\n2026-01-01 00:00:00,10.5\n2026-01-01 00:00:01,20.25\n"
    "2026-01-01 00:00:02,30\n",
    "another zone": "time,W\n2026-01-01T01:00:00+01:00,10.5\n2026-01-01T01:00:01+0100,20.25\n"
    "2025-12-31T23:00:02-01:00,30\n",
    "epoch in seconds": f"epoch,power_mw\n{T0},10500\n{T0 + 1}.0,20250\n{T0 + 2},30000\n",
    "epoch in ms": f"time_ms,power_w\n{T0}000,10.5\n{T0 + 1}000,20.25\n{T0 + 2}000,30\n",
    "semicolon and decimal comma": "Meter XY;Serial 12\n\nDate;Time;U [V];Active Power [W]\n"
    "01.01.2026;00:00:00;229,9;10,5\n01.01.2026;00:00:01;230,0;20,25\n"
    "01.01.2026;00:00:02;230,0;30\n",
    "voltage and current": "# logger 1.0\ntimestamp,voltage (V),current (mA)\n"
    f"{T0},10,1050\n{T0 + 1},10,2025\n{T0 + 2},10,3000\n",
    "junk above and below": "Report\nowner: me; since: ever\ntime\tapparent power (VA)\tP (W)\n"
    f"{T0}\t99\t10.5\n\n{T0 + 1}\t99\t20.25\noverload\t-\tOL\n{T0 + 2}\t99\t30.0\nsum\n",
    "quoted decimal comma": f'time,power\n{T0},"10,5"\n{T0 + 1},"20,25"\n{T0 + 2},30\n',
    "a unit in the cell": f"time,power\n{T0},10500 mW\n{T0 + 1},20.25 W\n{T0 + 2},0.03 kW\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_one_trace_from_every_kind_of_log(name):
    trace = parse(LOGS[name])
    times = [t for t, _ in trace.series.points]
    assert times == [(T0 + at) * S for at in range(3)]
    assert [value for _, value in trace.series.points] == pytest.approx(WATTS)
    assert (trace.series.unit, trace.series.boundary) == ("W", "wall")
    assert (trace.relative, trace.period_s) == (False, 1.0)


@pytest.mark.parametrize(
    ("unit", "joules"), [("Wh", 3600), ("mWh", 3.6), ("kWh", 3.6e6), ("J", 1), ("kJ", 1e3)]
)
def test_an_energy_counter_is_in_joules(unit, joules):
    trace = parse(f"time,Energy ({unit})\n{T0},2\n{T0 + 1},3\n")
    assert trace.series.unit == "J"
    assert [value for _, value in trace.series.points] == pytest.approx([2 * joules, 3 * joules])


def test_power_is_taken_before_all_else():
    header = "time,Energy (Wh),Voltage (V),Current (A),Power factor,Power (W)"
    trace = parse(f"{header}\n{T0},1,230,9,0.5,12.5\n{T0 + 1},1,230,9,0.5,12.5\n")
    assert trace.columns == ("time", "Power (W)")
    assert trace.series.points[0][1] == 12.5


@pytest.mark.parametrize(
    ("column", "cells"),
    [("elapsed (s)", "0.0 0.5 1.0"), ("Time (ms)", "0 500 1000"), ("seconds", "7 7.5 8")],
)
def test_times_from_a_start(column, cells):
    first, second, third = cells.split()
    text = f"{column},power\n{first},1\n{second},2\n{third},3\n"
    assert parse(text).relative
    trace = parse(text, start_ns=T0 * S)
    assert not trace.relative
    assert [t for t, _ in trace.series.points] == [T0 * S, T0 * S + S // 2, (T0 + 1) * S]


def test_thousands_in_a_file_with_commas():
    (_, value), *_ = parse(f'time,power (mW)\n{T0},"1,234,567.5"\n').series.points
    assert value == pytest.approx(1234.5675)


def test_readings_of_one_second_are_one_reading():
    trace = parse(f"time,W\n{T0},1\n{T0},3\n{T0},8\n{T0 + 1},5\n")
    assert [value for _, value in trace.series.points] == [4.0, 5.0]


def test_lines_without_readings_are_counted():
    trace = parse(LOGS["junk above and below"])
    assert trace.skipped == 2
    assert trace.columns == ("time", "P (W)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"it begins: \(nothing\)"),
        ("a,b\n1,2\n", "no line names a time and a power column.*it begins: a,b"),
        ("time,temperature\n1,2\n", "no line names"),
        ("x\ntime,power\nfoo,bar\n", "line 2: a header, and no readings below it"),
        (f"time,power\n{T0},1\n{T0 - 9},2\n", "line 3: time goes back"),
    ],
)
def test_what_is_no_log_is_said_to_be_none(text, says):
    with pytest.raises(MeterError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00.123456789Z", T0 * S + 123456789),
        ("2026/1/1 00:00", T0 * S),
        ("1767225600.25", T0 * S + S // 4),
        ("1767225600123", T0 * S + 123 * 10**6),
        ("1767225600123456", T0 * S + 123456 * 10**3),
        ("1767225600123456789", T0 * S + 123456789),
        ("2026-13-01T00:00:00", None),
        ("12.5", None),
        ("today", None),
    ],
)
def test_instants(text, expected):
    assert instant_ns(text) == expected


def log(at, end, hz=2.0, start=T0, steps=()):
    """Watts by second: ``at``, then more from each of ``steps`` on."""
    lines = ["time,power (W)"]
    for i in range(round(end * hz)):
        t = i / hz
        extra = sum(watts for since, watts in steps if t >= since)
        lines.append(f"{start + t:.3f},{at + extra + (i % 3) * 0.01:.2f}")
    return "\n".join(lines) + "\n"


def test_a_load_that_begins_is_found_where_it_begins():
    trace = parse(log(5, 60, steps=[(20, 8), (40, 12)]))
    found = step_ns(trace, T0 * S, (T0 + 60) * S)
    assert found / S - T0 == pytest.approx(20, abs=0.5)
    assert step_ns(trace, (T0 + 30) * S, (T0 + 60) * S) / S - T0 == pytest.approx(40, abs=0.5)


@pytest.mark.parametrize("steps", [[], [(30, -3)]])
def test_where_no_load_begins_there_is_no_step(steps):
    assert step_ns(parse(log(5, 60, steps=steps)), T0 * S, (T0 + 60) * S) is None
    assert step_ns(parse(log(5, 60, steps=steps)), T0 * S, (T0 + 1) * S) is None


def test_a_counter_has_steps_too():
    rows = [f"{T0 + t},{5 * t + 8 * max(0, t - 20)}" for t in range(60)]
    trace = parse("time,energy (J)\n" + "\n".join(rows) + "\n")
    assert step_ns(trace, T0 * S, (T0 + 60) * S) / S - T0 == pytest.approx(20, abs=1.5)


def test_a_shift_makes_the_clock_known():
    trace = shifted(parse("elapsed,power\n0,1\n1,2\n"), 5 * S)
    assert (trace.relative, [t for t, _ in trace.series.points]) == (False, [5 * S, 6 * S])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_files_of_any_encoding(tmp_path, encoding):
    path = tmp_path / "wall.csv"
    path.write_bytes(f"Gerät;\nTime;Power (W)\n{T0};1,5\n{T0 + 1};2\n".encode(encoding))
    assert [value for _, value in read_log(path).series.points] == [1.5, 2.0]


def level(concurrency, start, end, **more):
    window = (None, None) if start is None else (round((T0 + start) * S), round((T0 + end) * S))
    return {
        "contender_id": "abcdef0123456789",
        "session": 1,
        "workload": "chat-128-256",
        "concurrency": concurrency,
        "started_at_ns": round((T0 + (start or 0) - 1) * S),
        "window_start_ns": window[0],
        "window_end_ns": window[1],
        "output_tokens_per_s": 26.0,
        "requests_per_s": 0.5,
        "power_w": 7.0,
        "energy_j_per_token": 0.3,
        "attributes": {"energy_boundary": "package", "thermal": "fresh"},
    } | more


def meter(tmp_path, text, levels, *options):
    (tmp_path / "wall.csv").write_text(text)
    run = {"schema": "edgesweep.run/1", "run_id": "r", "levels": levels}
    (tmp_path / "run.json").write_text(json.dumps(run))
    command = ["meter", tmp_path / "wall.csv", "--run", tmp_path / "run.json"]
    done = CliRunner().invoke(
        PROGRAM.command_line(),
        [str(word) for word in [*command, "--json", tmp_path / "out.json", *options]],
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads((tmp_path / "out.json").read_text()), done.output


LOADED = log(5, 60, steps=[(20, 8)])


def test_the_levels_get_their_energy_at_the_wall(tmp_path):
    levels = [level(1, 22, 40), level(2, 41, 80), level(4, None, None)]
    run, output = meter(tmp_path, LOADED, levels)
    first, second, third = run["levels"]
    assert run["run_id"] == "r"
    assert first["wall"]["boundary"] == "wall"
    assert first["wall"]["joules"] == pytest.approx(13.01 * 18, rel=1e-3)
    assert (first["wall"]["n"], first["wall"]["coverage"]) == (37, 1.0)
    assert first["power_w"] == first["wall"]["mean_w"] == pytest.approx(13.01, rel=1e-3)
    assert first["energy_j_per_token"] == pytest.approx(13.01 / 26, rel=1e-3)
    assert first["attributes"] == {"energy_boundary": "wall", "thermal": "fresh"}
    assert second["wall"]["joules"] is None
    assert "the last reading is" in second["wall"]["reason"]
    assert (second["power_w"], second["attributes"]["energy_boundary"]) == (7.0, "package")
    assert "no window" in third["wall"]["reason"]
    assert "0.5 J per output token" in output


def test_a_clock_that_is_off_by_an_hour_is_put_right(tmp_path):
    late = log(5, 60, steps=[(20, 8)], start=T0 + 3600)
    with pytest.raises(ProgramError, match="no level has energy: if the meter's clock is off"):
        meter(tmp_path, late, [level(1, 22, 40)])
    run, _ = meter(tmp_path, late, [level(1, 22, 40)], "--offset", "-3600")
    assert run["levels"][0]["power_w"] == pytest.approx(13.01, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (log(5, 60, steps=[(20, 8)], start=T0 + 31), ["--edge", "first"], "--offset -29.75"),
        (
            log(5, 60, steps=[(20, 8)], start=T0 + 3631),
            ["--edge", "first", "--offset", "-3600"],
            "--offset -3629.75",
        ),
        (LOADED, ["--edge", "2026-01-01T00:00:21Z"], "--offset 1."),
        (log(5, 60, steps=[(20, 8)], start=0), ["--edge", "first"], f"--offset {T0 + 1}"),
    ],
)
def test_the_offset_is_found_by_the_step_of_a_marked_load(tmp_path, text, options, says):
    run, output = meter(tmp_path, text, [level(1, 22, 35)], *options)
    assert says in output
    assert run["levels"][0]["power_w"] == pytest.approx(13.01, rel=1e-2)


def test_a_start_is_given_to_a_log_that_has_none(tmp_path):
    text = log(5, 60, steps=[(20, 8)], start=0)
    run, _ = meter(tmp_path, text, [level(1, 22, 40)], "--start", "2026-01-01T00:00:00Z")
    assert run["levels"][0]["power_w"] == pytest.approx(13.01, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (log(5, 60, start=0), [], "count from a start: say --start WHEN"),
        (log(5, 60), ["--edge", "first"], "no step of power within 60 s"),
        (LOADED, ["--edge", "noon"], "--edge noon: wanted is 2026-01-31T12:00:00Z"),
        (LOADED, ["--start", "5"], "--start 5: wanted is"),
        ("nonsense", [], r"wall\.csv: no line names a time"),
    ],
)
def test_what_cannot_be_placed_says_what_to_do(tmp_path, text, options, says):
    with pytest.raises(UsageError, match=says):
        meter(tmp_path, text, [level(1, 22, 40)], *options)


@pytest.mark.parametrize(
    ("content", "says"),
    [("[]", "no run"), ("{", "not JSON"), ('{"levels": [1]}', "no run"), (None, "No such file")],
)
def test_what_is_no_run_is_said_to_be_none(tmp_path, content, says):
    (tmp_path / "wall.csv").write_text(LOADED)
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    command = ["meter", str(tmp_path / "wall.csv"), "--run", str(tmp_path / "run.json")]
    done = CliRunner().invoke(PROGRAM.command_line(), command)
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)
