"""What a technician does with a spool: looks, carries it away, lets refused records go again."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from agent_daemon import AGENT, CONFIG, daemon, put, until
from edgesweep import carried, codec, envelope
from edgesweep.records import Event, Kind
from edgesweep_agent.spool import Spool


def spool(tmp_path, *words):
    command = [AGENT, "spool", *words]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=tmp_path
    )


def exported(path):
    with path.open("rb") as file:
        return [envelope.decode(one.envelope) for one in carried.read(file)]


@pytest.fixture
def refused(tmp_path):
    """A spool at rest with one record that waits, and two that were refused."""
    kind, payload = codec.encode(Event("test", "text"))

    def seal(epoch, seq):
        made = envelope.Envelope(
            "daemon-1", epoch, seq, "boot", "0", kind, 1_767_225_600 * 10**9, 1,
            envelope.ClockQuality.SYNCED, payload,
        )  # fmt: skip
        return envelope.encode(made)

    (tmp_path / "agent.toml").write_text(CONFIG)
    made = Spool.open(tmp_path / "spool.db", new_epoch=lambda: 0xABC)
    keys = made.append([(Kind.EVENT, seal)] * 3)
    made.refuse(keys[:2], "schema: too new")
    made.close()
    return keys


def test_a_live_spool_is_shown_and_carried_away(tmp_path):
    with daemon(tmp_path):
        stored = put(tmp_path)
        config = ("--config", "agent.toml")
        told = json.loads(spool(tmp_path, "show", *config, "--json").stdout)
        assert [row["kind"] for row in told] == ["birth", "event"]
        assert told[1]["seq"] == stored.seq
        table = spool(tmp_path, "show", *config, "--limit", 1).stdout.splitlines()
        assert len(table) == 2
        assert f"{stored.epoch}/1" in table[1]
        done = spool(tmp_path, "export", "out.envelopes", *config)
        assert (done.returncode, "2 records" in done.stdout) == (0, True), done.stderr
        assert [one.seq for one in exported(tmp_path / "out.envelopes")] == [1, 2]
        again = spool(tmp_path, "export", "out.envelopes", *config)
        assert (again.returncode, "--force" in again.stderr) == (2, True)
        full = spool(tmp_path, "export", "none/out", *config)
        assert "there is no folder" in full.stderr


def test_a_spool_at_rest_is_shown_and_carried_away(tmp_path, refused):
    told = json.loads(spool(tmp_path, "show", "--file", "spool.db", "--json").stdout)
    states = [(row["seq"], row["state"], row["reason"]) for row in told]
    assert sorted(states) == [
        (1, "refused", "schema: too new"),
        (2, "refused", "schema: too new"),
        (3, "waiting", ""),
    ]
    table = spool(tmp_path, "show", "--file", "spool.db", "--refused").stdout
    assert "2026-01-01 00:00:00Z" in table
    assert table.count("schema: too new") == 2
    done = spool(tmp_path, "export", "out", "--file", "spool.db", "--json")
    assert json.loads(done.stdout)["records"] == 1
    assert [one.seq for one in exported(tmp_path / "out")] == [3]


def test_a_copy_of_a_live_spool_can_be_read_and_the_live_one_is_left_alone(tmp_path):
    with daemon(tmp_path):
        put(tmp_path)
        for name in ("spool.db", "spool.db-wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, tmp_path / name.replace("spool", "copy"))
        assert "event" in spool(tmp_path, "show", "--file", "copy.db").stdout
        live = spool(tmp_path, "show", "--file", "spool.db")
        assert (live.returncode, "an agent has this spool open" in live.stderr) == (1, True)


def test_what_was_refused_waits_again(tmp_path, refused):
    config = ("--config", "agent.toml")
    with daemon(tmp_path):
        one = spool(tmp_path, "requeue", f"{0xABC:016x}/1", *config)
        assert one.stdout == "1 records wait again\n", one.stderr
        rest = spool(tmp_path, "requeue", "--all", *config, "--json")
        assert json.loads(rest.stdout) == {"requeued": 1}
        until(lambda: "refused" not in spool(tmp_path, "show", *config).stdout)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show"], "give --config"),
        (["show", "--file", "spool.db", "--config", "agent.toml"], "give one of them"),
        (["show", "--file", "none.db"], "none.db"),
        (["requeue", "--config", "agent.toml"], "--all"),
        (["requeue", "7", "--config", "agent.toml"], "EPOCH/SEQ"),
        (["requeue", "zz/7", "--config", "agent.toml"], "no daemon answers"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path, refused, words, says):
    done = spool(tmp_path, *words)
    assert done.returncode in {1, 2}
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
