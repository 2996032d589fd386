"""Two machines under one device id are told from one machine that reboots, however it is heard."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire
from edgesweep.records import Birth, ClockQuality, Heartbeat
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.core.machines import Life, are_two
from programs import invoke

S = 10**9
NOW = wire.MADE_NS


def birth(seq, boot, connection, at_s=0, **fields):
    fields = {"clock": ClockQuality.UNSYNCED, "received_ns": NOW + at_s * S, **fields}
    return wire.received(Birth(wire.DEVICE, 1, connection), seq, boot_id=boot, **fields)


def beat(seq, boot, wall_s, uptime_s, **fields):
    return wire.received(
        Heartbeat(uptime_s, 0, 0),
        seq,
        boot_id=boot,
        wall_ns=NOW + wall_s * S,
        mono_ns=uptime_s * S,
        received_ns=NOW + (wall_s + 1) * S,
        **fields,
    )


def found(archive, *batches):
    for batch in batches:
        archive.append(batch)
    return archive.devices()[0].conflict_ns


def test_births_that_take_turns_are_of_two_machines(either_archive, caplog):
    archive = either_archive
    one = {"boot": "boot-a", "epoch": 1}
    other = {"boot": "boot-b", "epoch": 2}
    assert (
        found(archive, [birth(1, connection=1, **one)], [birth(1, connection=7, **other)]) is None
    )
    assert found(archive, [birth(2, connection=2, at_s=5, **one)]) is None
    assert found(archive, [birth(2, connection=8, at_s=9, **other)]) == NOW + 9 * S
    assert archive.shared_ids(NOW) == ["n97-01"]
    assert archive.shared_ids(NOW + 10 * S) == []
    found(archive, [birth(3, connection=3, at_s=20, **one)])
    told = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert [(r.message, r.device) for r in told] == [
        ("two machines report under one device id", "n97-01")
    ]


def test_a_cloned_spool_is_told_by_its_boots_alone(either_archive):
    batches = [[birth(n, f"boot-{n % 2}", n, at_s=n)] for n in range(1, 6)]
    assert found(either_archive, *batches) == NOW + 5 * S


def test_lives_that_overlap_are_of_two_machines_without_any_birth_in_between(either_archive):
    archive = either_archive
    archive.append([birth(1, "boot-a", 1), birth(1, "boot-b", 1, epoch=2)])
    assert (
        found(archive, [beat(2, "boot-a", 100, 1000), beat(2, "boot-b", 101, 90, epoch=2)]) is None
    )
    assert found(archive, [beat(3, "boot-a", 160, 1060), beat(3, "boot-b", 161, 150, epoch=2)])


def test_a_machine_that_reboots_again_and_again_is_one(either_archive):
    """Its births are resent, its last heartbeats come after the next boot has begun."""
    archive = either_archive
    seq = 0
    for boot in range(8):
        start_s = boot * 100
        archive.append(
            [
                birth(seq + 1, f"boot-{boot}", boot + 1, start_s),
                # Of the boot before: it was in the spool when the power went.
                beat(seq + 2, f"boot-{boot - 1}", start_s - 10, 80),
                beat(seq + 3, f"boot-{boot}", start_s + 5, 5),
            ]
        )
        seq += 3
    assert found(archive) is None


def test_a_spool_that_is_set_aside_in_the_same_boot_is_no_conflict(either_archive):
    batches = [[birth(1, "boot-a", 1, epoch=1)], [birth(1, "boot-a", 2, epoch=2)]] * 3
    assert found(either_archive, *batches) is None


def test_what_a_file_brings_is_no_birth_of_now(either_archive):
    carried = [replace(birth(n, "boot-a", n, epoch=1), is_live=False) for n in (1, 2, 3)]
    archive = either_archive
    for n, old in enumerate(carried):
        archive.append([birth(n + 1, "boot-b", n + 1, epoch=2)])
        archive.append([old])
    assert found(archive) is None


def test_the_command_says_so(either_archive, database_url, tmp_path):
    batches = [[birth(n, f"boot-{n % 2}", n, at_s=n)] for n in range(1, 6)]
    found(either_archive, *batches)
    config = tmp_path / "collector.toml"
    config.write_text(f'[archive]\nurl = "{database_url}"\n')
    command = ["devices", "--config", str(config)]
    shown = invoke(PROGRAM.run, command, env={"COLUMNS": "200"})
    assert "conflict: two machines report under this id" in shown.stdout


@pytest.mark.parametrize("connection", [2**64 - 1, 2**63])
def test_a_counter_of_any_size_is_taken(either_archive, connection):
    assert found(either_archive, [birth(1, "boot-a", connection), birth(2, "boot-b", 0)]) is None


BOOTS = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 300)), min_size=2, max_size=6)


@given(BOOTS, st.randoms(use_true_random=False))
def test_one_machine_is_never_two_in_whatever_order_its_life_is_heard(boots, drawn):
    now_s, moments = 0, []
    for boot, (up_s, down_s) in enumerate(boots):
        moments += [(boot, now_s + uptime_s, uptime_s) for uptime_s in range(1, up_s, 37)]
        now_s += up_s + down_s
    drawn.shuffle(moments)
    lives = {}
    for boot, wall_s, uptime_s in moments:
        lives[boot] = lives.get(boot, Life()).seen(wall_s * S, uptime_s * S)
        assert not any(are_two(lives[boot], other) for b, other in lives.items() if b != boot)
