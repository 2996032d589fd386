"""How much a device and day take: on the wire to InfluxDB, in InfluxDB, and in the archive.

A device that sends its readings every minute and a heartbeat every half minute, for some days. The
readings are those of a board: powers that wander, temperatures that lag behind, loads, clocks,
counters. InfluxDB is a real influxd that was left alone until it had brought everything into its
final form; the archive is a real SQLite file.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ratios import table

import wire
from edgesweep.records import Birth, Heartbeat, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.projection import batch
from edgesweep_collector.projection.influx import InfluxWriter, Target
from influx import COLD_AT_ONCE, Influx, running_influx
from influx_rewrite import rewriting

DAY_S = 86400
MB = 1e6
KINDS = [
    ("power", "W", 0.01), ("temperature", "C", 0.5), ("load", "percent", 1.0),
    ("clock", "MHz", 25.0), ("energy", "J", 0.001), ("available", "B", 4096.0),
]  # fmt: skip
"""Name, unit, and the smallest step that its values take."""
SETTLED_S = 60.0
STILL_S = 3.0


@dataclass(frozen=True)
class Load:
    """So many readings so often, for so many days."""

    readings: int
    every_s: int
    days: int

    @property
    def records(self) -> int:
        return self.days * DAY_S // self.every_s


class Board:
    """Sensors whose values wander as those of a board do."""

    def __init__(self, readings: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._sensors = [
            (f"{name}_{n // len(KINDS)}", unit, step)
            for n in range(readings)
            for name, unit, step in [KINDS[n % len(KINDS)]]
        ]
        self._values = [50.0 * step for _, _, step in self._sensors]

    def read(self) -> Telemetry:
        """One record; each value moves by some of its smallest steps, or stays."""
        for n, (_, _, step) in enumerate(self._sensors):
            moved = self._values[n] + step * self._random.choice([-2, -1, 0, 0, 1, 2])
            self._values[n] = round(max(0.0, moved) / step) * step
        return Telemetry(
            tuple(
                SensorValue(name, unit, round(value, 6))
                for (name, unit, _), value in zip(self._sensors, self._values, strict=True)
            )
        )


def archived(archive: Archive, load: Load, seed: int) -> tuple[int, int]:
    """Bytes of the archive's file that telemetry took, and that heartbeats took meanwhile."""
    end_ns = time.time_ns()
    archive.append([wire.received(Birth(wire.DEVICE, 1, 1), 1)])
    board = Board(load.readings, seed)

    def appended(records: list, first: int, every_s: float) -> None:
        for start in range(0, len(records), 64):
            group = records[start : start + 64]
            times = [end_ns - round((len(records) - start - n) * every_s * 1e9) for n in range(64)]
            archive.append(
                [
                    wire.received(record, first + start + n, wall_ns=at, received_ns=at)
                    for n, (record, at) in enumerate(zip(group, times, strict=False))
                ]
            )

    before = file_bytes(archive)
    appended([board.read() for _ in range(load.records)], 10, load.every_s)
    telemetry = file_bytes(archive) - before
    up = {f"sensor_{n}": True for n in range(6)}
    beats = [Heartbeat(n * 30.0, 3, 4096, {}, up) for n in range(load.days * DAY_S // 30)]
    appended(beats, 10**6, 30.0)
    return telemetry, file_bytes(archive) - before - telemetry


def file_bytes(archive: Archive) -> int:
    with archive._write() as connection:  # what is in the WAL counts where it will end
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()


def projected(archive: Archive, influx: Influx) -> int:
    """Bytes of lines, all of them written."""
    cursor, sent = 0, 0
    with rewriting(influx.url) as rewrite:
        writer = InfluxWriter(Target(rewrite.url, "", influx.database))
        while found := batch.telemetry(archive, cursor, 1000):
            lines = [entry.text for entry in found.entries]
            writer.write(lines)
            sent += sum(len(text) + 1 for text in lines)
            cursor = found.last
        writer.close()
    return sent


def settled_bytes(influx: Influx) -> int:
    """What the server's files take once nothing waits in its log and they no longer change."""
    deadline = time.monotonic() + SETTLED_S
    seen, since = (-1, -1), time.monotonic()
    while time.monotonic() < deadline:
        now = size_of(influx.root / "data", "*.tsm"), size_of(influx.root / "wal", "*.wal")
        if now != seen:
            seen, since = now, time.monotonic()
        elif not now[1] and time.monotonic() - since > STILL_S:
            return now[0]
        time.sleep(0.5)
    raise SystemExit("influxd does not come to rest")


def size_of(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.exists())


def measured(load: Load, folder: Path, seed: int) -> list[str]:
    """One line of the page."""
    (folder / "influx").mkdir(parents=True)
    archive = Archive.open(f"sqlite:///{folder / 'archive.db'}")
    telemetry, beats = archived(archive, load, seed)
    with running_influx(folder / "influx", data=COLD_AT_ONCE) as influx:
        sent = projected(archive, influx)
        stored = settled_bytes(influx)
        hourly = 'SELECT mean(*) INTO "hourly" FROM "edgesweep_telemetry" GROUP BY time(1h), *'
        influx.query(hourly, method="POST")
        means = settled_bytes(influx) - stored
    archive.close()
    days = load.days
    return [
        str(load.readings),
        f"{sent / load.records:.0f} B",
        *(f"{size / days / MB:.2f}" for size in (sent, stored, means, telemetry, beats)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readings", type=int, nargs="+", default=[12, 30, 100])
    parser.add_argument("--every", type=int, default=60, metavar="SECONDS")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows = []
    for readings in asked.readings:
        with tempfile.TemporaryDirectory() as folder:
            load = Load(readings, asked.every, asked.days)
            rows.append(measured(load, Path(folder), asked.seed))
    heads = ["readings", "a line", "lines, MB", "InfluxDB, MB", "hourly means, MB"]
    heads += ["archive: telemetry, MB", "archive: heartbeats, MB"]
    print(f"MB a device and day; readings every {asked.every} s, {asked.days} days\n")
    print(table(heads, rows))


if __name__ == "__main__":
    main()
