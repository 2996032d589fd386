"""What is fuzzed: how its inputs are made, what is done with one, and which errors it declares."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import settings_texts
from lineparser import parsed
from mutations import changed, damaged, number, real, text

import wire
from edgesweep import carried, codec, events
from edgesweep import envelope as envelopes
from edgesweep.envelope import WireError
from edgesweep.records import Birth, Device, Event, Heartbeat, LevelResult, SensorValue, Telemetry
from edgesweep.v1 import records_pb2
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.sse import SseReader
from edgesweep_agent.core.stream import to_sample
from edgesweep_collector.core.lineprotocol import Point, line, plain
from edgesweep_collector.core.projection import level_point, place, unknown_metrics
from edgesweep_collector.core.telemetry import telemetry_line, telemetry_series
from edgesweep_collector.ingest.check import Refusal, check

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW_NS = 1_767_225_600 * 10**9
RECORDS = {
    pb.BIRTH: records_pb2.Birth,
    pb.EVENT: records_pb2.Event,
    pb.LEVEL: records_pb2.Level,
    pb.RUN: records_pb2.Run,
    pb.HEARTBEAT: records_pb2.Heartbeat,
    pb.TELEMETRY: records_pb2.Telemetry,
}


@dataclass(frozen=True)
class Target:
    """One thing that reads what others wrote.

    Attributes:
        make: An input.
        run: Does what the product does with it, and checks what can be checked; returns a word
            for what came of it.
        declared: The errors it may raise.
    """

    make: Callable[[random.Random], Any]
    run: Callable[[Any], str]
    declared: tuple[type[Exception], ...] = ()


def _samples() -> list[bytes]:
    readings = tuple(SensorValue(f"sensor_{n}", "W", n / 7) for n in range(100))
    records = [
        wire.level(4),
        wire.run(),
        Birth(wire.DEVICE, 1, 1),
        Event("clock_set", "x", {"offset_ns": "5"}),
        Heartbeat(1.0, 2, 3, {"telemetry": 4}, {"rapl": True}, {"clock": "x"}),
        Telemetry(readings),
    ]
    made = [wire.raw(record, n, wall_ns=NOW_NS) for n, record in enumerate(records, 1)]
    kept = sorted((FIXTURES / "wire").rglob("*.envelope.binpb"))
    return made + [path.read_bytes() for path in kept]


class Ingest:
    """Bytes from a transport: checked, decoded, and made into lines where they are records."""

    samples: ClassVar[list[bytes]] = _samples()

    @classmethod
    def make(cls, rng: random.Random) -> tuple[bytes, str | None]:
        identity = rng.choice([None, None, "n97-01", "n97-02"])
        if rng.random() < 0.2:
            return damaged(rng, cls.samples), identity
        # Else nothing would come past the checksum.
        message = pb.Envelope.FromString(rng.choice(cls.samples))
        message.payload = cls._payload(rng, message)
        if rng.random() < 0.1:
            changed(rng, message)
        message.crc32 = zlib.crc32(message.payload)
        return message.SerializeToString(), identity

    @staticmethod
    def _payload(rng: random.Random, envelope: pb.Envelope) -> bytes:
        if rng.random() < 0.3:
            return damaged(rng, [envelope.payload])
        record = RECORDS[envelope.kind].FromString(envelope.payload)
        for _ in range(rng.randrange(1, 6)):
            changed(rng, record)
        made: bytes = record.SerializeToString()
        return made

    @staticmethod
    def run(given: tuple[bytes, str | None]) -> str:
        raw, identity = given
        found = check(raw, identity, NOW_NS, "fuzz")
        if isinstance(found, Refusal):
            return f"refused: {found.reason}"
        assert envelopes.decode(found.raw) == found.envelope
        record = codec.decode(found.envelope.kind, found.envelope.payload)
        if isinstance(record, LevelResult):
            unknown_metrics(record)
            _checked(
                line(
                    level_point(record, place(NOW_NS, found.envelope.epoch + found.envelope.seq))
                ).text
            )
        elif isinstance(record, Telemetry):
            series = telemetry_series(found.envelope.device_id, wire.DEVICE, "0")
            _checked(telemetry_line(series, record, NOW_NS).text)
        return found.envelope.kind.value


def _checked(made: str | None) -> None:
    if made is not None:
        parsed(made)


class Lines:
    """Points of hostile names and values: one line that says what was to be said, or none."""

    @staticmethod
    def make(rng: random.Random) -> Point | tuple[Device, Telemetry]:
        if rng.random() < 0.5:
            fields = {text(rng): Lines._value(rng) for _ in range(rng.randrange(6))}
            tags = {text(rng): text(rng) for _ in range(rng.randrange(5))}
            return Point(text(rng) or "m", tags, fields, number(rng) % 2**63)
        labels = {text(rng): text(rng) for _ in range(rng.randrange(5))}
        readings = [
            SensorValue(text(rng), text(rng, 3), rng.choice([None, real(rng), real(rng)]))
            for _ in range(rng.randrange(8))
        ]
        return Device("n97-01", text(rng), text(rng), labels=labels), Telemetry(tuple(readings))

    @staticmethod
    def _value(rng: random.Random) -> bool | int | float | str:
        return rng.choice([rng.random() < 0.5, number(rng), real(rng), text(rng, 40)])

    @staticmethod
    def run(given: Point | tuple[Device, Telemetry]) -> str:
        if isinstance(given, Point):
            return Lines._point(given)
        device, telemetry = given
        series = telemetry_series("n97-01", device, "0")
        made = telemetry_line(series, telemetry, NOW_NS)
        values = [one for one in telemetry.readings if one.value is not None]
        if made.text is None:
            assert made.dropped_fields == len(values)
            return "no line"
        found = parsed(made.text)
        assert found.measurement == "edgesweep_telemetry"
        assert found.tags["device"] == "n97-01"
        assert found.time_ns == NOW_NS
        assert len(found.fields) + made.dropped_fields == len(values)
        assert all(isinstance(value, float) for value in found.fields.values())
        return "telemetry"

    @staticmethod
    def _point(point: Point) -> str:
        made = line(point)
        if made.text is None:
            assert made.dropped_fields == len(point.fields)
            return "no line"
        found = parsed(made.text)
        name = f"/{point.measurement}" if point.measurement.startswith("#") else point.measurement
        assert found.measurement == plain(name)
        assert found.tags == {plain(k): plain(v) for k, v in sorted(point.tags.items()) if k and v}
        assert found.time_ns == point.time_ns
        assert len(found.fields) + made.dropped_fields == len(point.fields)
        normal = {plain(key): value for key, value in sorted(point.fields.items())}
        for key, value in found.fields.items():
            assert _same(value, normal[key]) or made.dropped_fields, (key, value)
        return "point"


def _same(found: object, given: object) -> bool:
    if isinstance(given, str):
        return found == given.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    return type(found) is type(given) and found == given


class Sse:
    """A stream cut anywhere: the same events, and a sample whatever a server sends."""

    samples: ClassVar[list[bytes]] = [
        b"".join(frame[1].encode().decode("unicode_escape").encode() for frame in one["frames"])
        for case in json.loads((FIXTURES / "cases/sse.json").read_text(encoding="utf-8"))
        for one in [case["input"], *case["input"].get("variants", {}).values()]
        if isinstance(one, dict) and isinstance(one.get("frames"), list)
    ]

    @classmethod
    def make(cls, rng: random.Random) -> tuple[bytes, list[int], str]:
        data = damaged(rng, cls.samples)[: rng.choice([100, 1000, 10_000])]
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(6)))
        coding = rng.choice(["", "", "", "gzip", "deflate", "br", "x"])
        return data, cuts, coding

    @staticmethod
    def run(given: tuple[bytes, list[int], str]) -> str:
        data, cuts, coding = given
        ends = [*cuts, len(data)]
        pieces = [data[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
        assert Sse._events(pieces) == Sse._events([data])
        exchange = Exchange(
            index=0,
            t_sched_ns=0,
            t_send_ns=1,
            t_headers_ns=2,
            status=200,
            headers=(("content-type", "text/event-stream"), ("content-encoding", coding)),
            pieces=tuple((n + 3, piece) for n, piece in enumerate(pieces)),
            t_end_ns=99,
            ending="complete",
        )
        return to_sample(exchange, concurrency=1).reason or "ok"

    @staticmethod
    def _events(pieces: list[bytes]) -> list[object]:
        reader = SseReader()
        found: list[object] = [event for piece in pieces for event in reader.feed(piece)]
        return [*found, *reader.close(), reader.comments]


class CarriedFiles:
    """Files of envelopes from a technician's stick."""

    @staticmethod
    def _file() -> bytes:
        file = BytesIO()
        one = carried.Carried(Ingest.samples[0], 5, "grpc", 6, "device")
        carried.write(file, [carried.Carried(raw) for raw in Ingest.samples] + [one])
        return file.getvalue()

    @classmethod
    def make(cls, rng: random.Random) -> bytes:
        whole = FILE
        return whole[: rng.randrange(len(whole))] if rng.random() < 0.1 else damaged(rng, [whole])

    @staticmethod
    def run(given: bytes) -> str:
        count = 0
        try:
            for one in carried.read(BytesIO(given)):
                count += 1
                assert isinstance(one.envelope, bytes)
        except WireError as error:
            return f"damaged, {'some' if count else 'none'} good: {str(error).split(' ', 1)[0]}"
        return "whole"


FILE = CarriedFiles._file()


class Events:
    """What events tell that a collector reckons with."""

    @staticmethod
    def make(rng: random.Random) -> Event:
        ranges = ",".join(Events._range(rng) for _ in range(rng.randrange(5)))
        attributes = {
            "epoch": rng.choice([f"{number(rng):x}", text(rng), "-1", "f" * 40]),
            "ranges": ranges if rng.random() < 0.8 else text(rng, 40),
            "reason": text(rng),
            f"n_{text(rng)}": rng.choice([str(number(rng)), text(rng)]),
            "offset_ns": rng.choice([str(number(rng)), text(rng), "9" * 5000]),
        }
        kept = rng.sample(sorted(attributes), rng.randrange(1, len(attributes) + 1))
        return Event(text(rng), text(rng), {key: attributes[key] for key in kept})

    @staticmethod
    def _range(rng: random.Random) -> str:
        first, last = number(rng), number(rng)
        return rng.choice([f"{first}", f"{first}-{last}", f"{first}--{last}", "-", f" {first} "])

    @staticmethod
    def run(given: Event) -> str:
        told = []
        for read in (events.dropped_records, events.clock_offset_ns):
            try:
                found = read(given)
            except WireError:
                told.append("no")
                continue
            told.append("yes")
            if isinstance(found, events.Dropped):
                assert all(0 < a <= b < 2**63 for a, b in found.ranges)
                assert events.parsed_ranges(events.ranges_text(found.ranges)) == found.ranges
        return f"dropped {told[0]}, offset {told[1]}"


TARGETS: dict[str, Target] = {
    "ingest": Target(Ingest.make, Ingest.run, (WireError,)),
    "lines": Target(Lines.make, Lines.run),
    "agent-settings": settings_texts.agent(Target),
    "collector-settings": settings_texts.collector(Target),
    "plans": settings_texts.plans(Target),
    "sse": Target(Sse.make, Sse.run),
    "carried": Target(CarriedFiles.make, CarriedFiles.run),
    "events": Target(Events.make, Events.run),
}
