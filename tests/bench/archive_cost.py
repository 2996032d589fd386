"""What the archive takes: processor time and wall time of an envelope, checked and committed.

Each envelope is a telemetry record; they come in groups, from several devices in turn, as the
acceptor hands them over. With ``--url`` into a PostgreSQL archive, which has to be empty.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import wire
from edgesweep.records import Birth, Device, SensorValue, Telemetry
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Received
from edgesweep_collector.ingest.check import check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envelopes", type=int, default=12_800)
    parser.add_argument("--readings", type=int, default=100)
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--url", help="of an archive to write to; a file in a folder of its own")
    asked = parser.parse_args()
    made = envelopes(asked.envelopes, asked.readings, asked.devices)
    print(f"{asked.envelopes} envelopes of {len(made[-1])} B from {asked.devices} devices")
    print(f"{'group':>6} {'CPU us':>8} {'wall us':>8} {'a CPU-second':>13}")
    for size in (1, 16, 64):
        with tempfile.TemporaryDirectory() as folder:
            archive = Archive.open(asked.url or f"sqlite:///{folder}/archive.db")
            archive.append(
                [wire.received(*birth(n), device_id=name(n)) for n in range(asked.devices)]
            )
            count = asked.envelopes if size > 1 else asked.envelopes // 16
            cpu, wall = cost(archive, made[:count], size)
            archive.close()
        print(f"{size:6} {cpu:8.0f} {wall:8.0f} {1e6 / cpu:13.0f}", flush=True)
        made = [again(raw) for raw in made] if asked.url else made


def cost(archive: Archive, raws: list[bytes], size: int) -> tuple[float, float]:
    """Microseconds of processor and of wall time, an envelope."""
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, len(raws), size):
        now = time.time_ns()
        group = [check(raw, None, now, "mqtt") for raw in raws[start : start + size]]
        stored = archive.append([one for one in group if isinstance(one, Received)])
        assert len(stored) == len(group)
    per = 1e6 / len(raws)
    return (time.process_time() - cpu) * per, (time.perf_counter() - wall) * per


def envelopes(count: int, readings: int, devices: int) -> list[bytes]:
    """Telemetry of several devices in turn, one a second each."""
    now = time.time_ns()
    return [
        wire.raw(
            Telemetry(
                tuple(SensorValue(f"power_rail_{k}", "W", n + k / 8) for k in range(readings))
            ),
            2 + n // devices,
            device_id=name(n % devices),
            wall_ns=now + n * 10**6,
        )
        for n in range(count)
    ]


def birth(n: int) -> tuple[Birth, int]:
    return Birth(Device(name(n), "n97-16g", "pl-15w", labels={"site": "ulm"}), 1, 1), 1


def name(n: int) -> str:
    return f"n97-{n:03}"


def again(raw: bytes) -> bytes:
    """The same of another epoch, so that it is new."""
    message = pb.Envelope.FromString(raw)
    message.epoch += 1
    return message.SerializeToString(deterministic=True)


if __name__ == "__main__":
    main()
