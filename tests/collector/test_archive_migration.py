"""Archives of earlier versions are brought here, with their cursors and everything in them."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

import wire
from edgesweep.records import Birth, Event, Heartbeat, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.migrations import MIGRATIONS, TYPES
from edgesweep_collector.archive.rows import Kept

NOW = wire.MADE_NS
READING = Telemetry((SensorValue("power", "W", 1.0),))
_ENVELOPE = """INSERT INTO envelopes (device_id, epoch, seq, kind, received_ns, effective_wall_ns,
    clock_trusted, transport, decoded, error, raw)
    VALUES ({}, {}, {}, {}, {}, {}, {}, 'mqtt', {}, '', {})"""


def old_archive(url, version, records):
    """An archive as that version left it: its steps, and rows by its hand."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    mark = "?" if engine.dialect.name == "sqlite" else "%s"
    with engine.begin() as connection:
        run = connection.exec_driver_sql
        run("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
        for number, step in enumerate(MIGRATIONS[:version], start=1):
            for statement in step:
                run(statement.format(**TYPES[engine.dialect.name]))
            run(f"INSERT INTO schema_version VALUES ({number})")
        for seq, (kind, record, trusted) in records.items():
            row = ("n97-01", wire.EPOCH, seq, kind, NOW, NOW - seq, trusted, kind != "x")
            run(_ENVELOPE.replace("{}", mark), (*row, wire.raw(record, seq)))
        run("INSERT INTO devices (device_id, first_seen_ns, last_seen_ns, device_row_id)"
            f" VALUES ('n97-01', 5, {NOW}, 1)")  # fmt: skip
        run("INSERT INTO cursors VALUES ('influx', 2)")
    engine.dispose()


@pytest.mark.parametrize("version", [1, 2])
def test_an_archive_of_an_earlier_version_is_brought_here(database_url, version):
    records = {
        1: ("birth", Birth(wire.DEVICE, 1, 1), True),
        2: ("level", wire.level(1), True),
        5: ("level", wire.level(2), False),
        6: ("event", Event("a", "b"), True),
        9: ("heartbeat", Heartbeat(1, 2, 3), True),
    }
    old_archive(database_url, version, records)
    archive = Archive.open(database_url)
    with archive._read() as connection:
        query = """SELECT seq, effective_wall_ns, time_source, ready FROM envelopes ORDER BY seq"""
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    assert rows == [
        (1, NOW - 1, "device", 1),
        (2, NOW - 2, "device", 2),
        (5, NOW - 5, "received", 3),
        (6, NOW - 6, "device", 4),
        (9, NOW - 9, "device", 5),
    ]
    archive.rebuild()
    # The cursor has passed the first level, and not the second.
    assert [row.level.concurrency for row in archive.levels_after(archive.cursor("influx"), 9)] == [
        2
    ]
    (device,) = archive.devices()
    assert (device.first_seen_ns, device.device) == (5, wire.DEVICE)
    assert [(s.first, s.last) for s in archive.gaps()[0].missing] == [(3, 4), (7, 8)]
    assert archive.append([wire.received(READING, 10)]) == [Kept.STORED]
    assert archive.append([wire.received(wire.level(1), 2)]) == [Kept.DUPLICATE]
    assert archive.telemetry_after(0, 9)[0].row_id == 6
    archive.close()


def test_what_an_earlier_version_could_not_read_is_read_when_it_is_opened(database_url):
    records = {1: ("birth", Birth(wire.DEVICE, 1, 1), True), 2: ("x", wire.level(4), True)}
    old_archive(database_url, 2, records)
    with_kind = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with with_kind.begin() as connection:
        connection.exec_driver_sql("UPDATE envelopes SET kind = 'level' WHERE kind = 'x'")
    with_kind.dispose()
    archive = Archive.open(database_url)
    assert [(row.row_id, row.level.concurrency) for row in archive.levels_after(2, 9)] == [(3, 4)]
    archive.close()
