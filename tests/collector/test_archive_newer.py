"""Agents one version newer and older: kept byte for byte, and read as soon as it can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wire
from edgesweep import codec, envelope
from edgesweep.envelope import UnknownKind, WireError
from edgesweep.records import Kind, LevelResult
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive import decoded, rebuild
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Kept, Received
from edgesweep_collector.ingest.check import check

WIRE = Path(__file__).parents[1] / "fixtures/wire"
NEXT = sorted((WIRE / "next").glob("envelope-*.binpb"))
OLD = sorted((WIRE / "0.1.0").glob("*.envelope.binpb"))
NOW = 1_796_000_100 * 10**9


def bytes_of(archive):
    with archive._read() as connection:
        rows = connection.exec_driver_sql("SELECT raw, decoded, error, ready FROM envelopes").all()
    return {bytes(raw): (bool(read), error, ready) for raw, read, error, ready in rows}


def said(path):
    return json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_what_an_older_agent_sends_is_read(either_archive, path):
    raw = path.read_bytes()
    passed = check(raw, "press-07", NOW, "mqtt")
    assert either_archive.append([passed]) == [Kept.STORED]
    assert bytes_of(either_archive) == {raw: (True, "", 1)}


def test_what_a_newer_agent_sends_is_kept_and_read_as_far_as_it_is_known(either_archive):
    archive = either_archive
    raws = {path.stem.removeprefix("envelope-"): path.read_bytes() for path in NEXT}
    assert raws.keys() == {"fields", "clock", "kind", "schema", "status"}
    for path in NEXT:
        passed = check(path.read_bytes(), "press-07", NOW, "grpc")
        assert isinstance(passed, Received), path
        assert archive.append([passed]) == [Kept.STORED]
        assert archive.append([passed]) == [Kept.DUPLICATE]
    kept = bytes_of(archive)
    assert set(kept) == set(raws.values())
    for path in NEXT:
        read, error, ready = kept[path.read_bytes()]
        assert error == said(path)["error"]
        assert (read, ready is not None) == (error == "", error == "")
    assert archive.missing() == {}
    assert archive.levels_after(0, 9)[0].level.n_ok == 49


def test_unknown_fields_are_still_in_what_is_passed_on(either_archive):
    raw = (WIRE / "next/envelope-fields.binpb").read_bytes()
    either_archive.append([check(raw, None, NOW, "mqtt")])
    assert raw in [one.envelope for one in either_archive.carried()]
    message = pb.Envelope.FromString(raw)
    assert message.SerializeToString(deterministic=True) == raw


def test_an_ack_of_a_newer_collector_is_an_error_of_its_own():
    with pytest.raises(WireError, match="ack status 9 is unknown to this version"):
        envelope.decode_ack((WIRE / "next/ack-status.binpb").read_bytes())


@pytest.fixture
def unread(either_archive, monkeypatch):
    """An archive in which an older version could not read levels of a newer agent."""
    known = decoded.codec.decode

    class Older:
        @staticmethod
        def decode(kind, payload):
            record = known(kind, payload)
            if isinstance(record, LevelResult) and record.concurrency > 1:
                raise WireError("unknown value 5")
            return record

    archive = either_archive
    archive.append([wire.received(wire.level(1), 1)])
    with monkeypatch.context() as older:
        older.setattr(decoded, "codec", Older)
        older.setattr(rebuild.metadata, "version", lambda _: "0.0.9")
        archive.append([wire.received(wire.level(n), n) for n in (2, 4)])
        with archive._write() as connection:
            rebuild.note_reader(connection)
    archive.append([wire.received(wire.level(8), 8)])
    assert [row.row_id for row in archive.levels_after(0, 9)] == [1, 4]
    return archive


def test_after_an_upgrade_it_is_read_and_comes_after_what_was_projected(unread, database_url):
    archive = Archive.open(database_url)
    found = [(row.row_id, row.level.concurrency) for row in archive.levels_after(0, 9)]
    assert found == [(1, 1), (4, 8), (5, 2), (6, 4)]
    archive.close()
    again = Archive.open(database_url)
    assert [row.row_id for row in again.levels_after(0, 9)] == [1, 4, 5, 6]
    again.rebuild()
    assert [row.row_id for row in again.levels_after(0, 9)] == [1, 4, 5, 6]
    again.close()


def test_nothing_is_read_again_while_the_version_is_the_same(either_archive, monkeypatch):
    archive = either_archive
    with archive._read() as connection:
        assert not rebuild.knows_more(connection)
        monkeypatch.setattr(rebuild.metadata, "version", lambda _: "9.9.9")
        assert rebuild.knows_more(connection)


def test_a_kind_to_come_is_named_by_its_number():
    raw = (WIRE / "next/envelope-kind.binpb").read_bytes()
    opened = envelope.decode(raw)
    assert opened.kind == UnknownKind(77)
    with pytest.raises(WireError, match="kind-77 is unknown to this version"):
        codec.decode(opened.kind, opened.payload)
    assert Kind.LEVEL.value in {path.name.split(".")[0] for path in OLD}
