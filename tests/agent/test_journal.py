"""A journal survives what happens to files, and other runs."""

from __future__ import annotations

import pytest

import wire
from edgesweep.records import LevelStatus, RunState
from edgesweep_agent.sweep.journal import KEPT, Journal, unfinished

PLAN = "{}"


def run(run_id, state=RunState.RUNNING):
    return wire.run(run_id, state=state, plan_json=PLAN)


async def keep(folder, run_id, *records):
    journal = Journal(folder)
    for record in (run(run_id), *records):
        await (journal.on_run(record) if hasattr(record, "plan_json") else level(journal, record))
    return journal


async def level(journal, record):
    await journal.on_level(record, ())


def found(folder):
    return unfinished(folder, PLAN, wire.DEVICE.device_id)


pytestmark = pytest.mark.anyio


async def test_levels_that_ended_are_found_again(tmp_path):
    await keep(tmp_path, "r1", wire.level(1, run_id="r1"), wire.level(2, run_id="r1"))
    assert [x.concurrency for x in found(tmp_path).finished] == [1, 2]
    assert found(tmp_path).attempts == 1


@pytest.mark.parametrize("state", [RunState.COMPLETE, RunState.FAILED])
async def test_a_run_that_ended_does_not_go_on(tmp_path, state):
    await keep(tmp_path, "r1", wire.level(1, run_id="r1"), run("r1", state))
    assert found(tmp_path) is None


@pytest.mark.parametrize(
    ("status", "reason", "stands"),
    [
        (LevelStatus.FAILED, "interrupted", False),
        (LevelStatus.SKIPPED, "time_budget", False),
        (LevelStatus.SKIPPED, "lower_level_failed", False),
        (LevelStatus.SKIPPED, "memory", True),
        (LevelStatus.FAILED, "memory_floor", True),
        (LevelStatus.FLAGGED, "", True),
    ],
)
async def test_what_need_not_be_repeated(tmp_path, status, reason, stands):
    ended = wire.level(4, run_id="r1", status=status, reason=reason)
    await keep(tmp_path, "r1", ended, run("r1", RunState.INTERRUPTED))
    assert bool(found(tmp_path).finished) is stands


async def test_a_torn_line_costs_itself_alone(tmp_path):
    await keep(tmp_path, "r1", wire.level(1, run_id="r1"))
    path = tmp_path / "r1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "level", "payl')
    await keep(tmp_path, "r1", wire.level(2, run_id="r1", attempt=2))
    assert [x.concurrency for x in found(tmp_path).finished] == [1, 2]
    assert found(tmp_path).attempts == 2


async def test_other_runs_do_not_push_out_one_that_could_go_on(tmp_path):
    await keep(tmp_path, "r00", wire.level(1, run_id="r00"))
    for n in range(1, KEPT + 5):
        await keep(tmp_path, f"r{n:02}", wire.level(1), run(f"r{n:02}", RunState.COMPLETE))
    kept = sorted(path.stem for path in tmp_path.glob("*.jsonl"))
    assert "r00" in kept
    assert len(kept) == KEPT + 2  # that one, the ended ones, and the newest
    await keep(tmp_path, "r00", wire.level(2, run_id="r00"))
    assert (tmp_path / "r00.jsonl").exists()
