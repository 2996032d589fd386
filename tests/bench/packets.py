"""What went over the loopback, with the kernel's time of each packet: PORT FILE.

Run as a process of its own: it prints a line once it captures, and writes FILE when its standard
input ends. Linux, with the right to open raw sockets (CAP_NET_RAW). ``answers`` reads the file.
"""

from __future__ import annotations

import json
import pickle
import select
import socket
import struct
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import httptools

_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _ETH_P_IP, _SOL_PACKET, _STATISTICS = 33, 35, 0x0800, 263, 6
"""asm-generic/socket.h, linux/if_ether.h, linux/if_packet.h"""
_BUFFER = 256 << 20
_MAX_STEP_NS = 100_000


@dataclass(frozen=True)
class Packet:
    """The payload of a TCP segment, and when it arrived, on the monotonic clock."""

    t_ns: int
    from_port: int
    to_port: int
    sequence: int
    payload: bytes


@dataclass
class Answer:
    """A request and its streamed answer as they passed."""

    request_ns: int
    opened_ns: int | None = None
    text_ns: list[int] = field(default_factory=list)
    text: str = ""


def capture(port: int, path: Path) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # Of one protocol, it hears each packet once: as it arrives, not as it leaves.
        tap.bind(("lo", _ETH_P_IP))
        offset_ns = wall_less_monotonic_ns()
        print("capturing", flush=True)
        seen = []
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap in ready:
                data, ancillary, _, _ = tap.recvmsg(1 << 17, 64)
                seen.append((ancillary[0][2], data))
            elif not sys.stdin.read(1):
                break
        taken, dropped = struct.unpack("II", tap.getsockopt(_SOL_PACKET, _STATISTICS, 8))
    if dropped:
        raise SystemExit(f"the kernel dropped {dropped} of {taken} packets: nothing can be said")
    if abs(wall_less_monotonic_ns() - offset_ns) > _MAX_STEP_NS:
        raise SystemExit("the wall clock was set meanwhile: its times cannot be told apart")
    found = (decode(stamp, data, port, offset_ns) for stamp, data in seen)
    path.write_bytes(pickle.dumps([packet for packet in found if packet is not None]))


def wall_less_monotonic_ns() -> int:
    """By the quickest of some pairs of looks."""
    looks = []
    for _ in range(100):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, wall - (before + after) // 2))
    return min(looks)[1]


def decode(stamp: bytes, data: bytes, port: int, offset_ns: int) -> tuple | None:
    """A packet's fields, if it is to or from that port and carries anything."""
    head = (data[0] & 15) * 4
    if data[9] != socket.IPPROTO_TCP:
        return None
    from_port, to_port, sequence = struct.unpack_from("!HHI", data, head)
    payload = data[head + (data[head + 12] >> 4) * 4 : struct.unpack_from("!H", data, 2)[0] or None]
    if port not in {from_port, to_port} or not payload:
        return None
    seconds, nanoseconds = struct.unpack("qq", stamp)
    return seconds * 10**9 + nanoseconds - offset_ns, from_port, to_port, sequence, payload


def answers(path: Path, port: int) -> list[Answer]:
    """Every streamed answer that passed in full."""
    streams = defaultdict(lambda: ([], []))
    for fields in pickle.loads(path.read_bytes()):
        packet = Packet(*fields)
        client = packet.from_port if packet.to_port == port else packet.to_port
        streams[client][packet.from_port == port].append(packet)
    return [
        answer
        for asked, answered in streams.values()
        for answer in conversation(in_order(asked), in_order(answered))
        if answer.text_ns
    ]


def in_order(packets: list[Packet]) -> list[Packet]:
    """Each segment once, as the stream has them."""
    if not packets:
        return []
    first = packets[0].sequence
    by_place = {}
    for packet in packets:
        by_place.setdefault((packet.sequence - first) % 2**32, packet)
    return [by_place[place] for place in sorted(by_place)]


def conversation(asked: list[Packet], answered: list[Packet]) -> list[Answer]:
    """The requests of one connection, and what came back on each."""
    requests = Requests()
    parser = httptools.HttpRequestParser(requests)
    for packet in asked:
        requests.now_ns = packet.t_ns
        parser.feed_data(packet.payload)
    responses = Responses([Answer(t_ns) for t_ns in requests.times_ns])
    parser = httptools.HttpResponseParser(responses)
    for packet in answered:
        responses.now_ns = packet.t_ns
        parser.feed_data(packet.payload)
    return responses.answers


class Requests:
    """Notes when each request began."""

    def __init__(self) -> None:
        self.now_ns, self.times_ns = 0, []

    def on_message_begin(self) -> None:
        self.times_ns.append(self.now_ns)


class Responses:
    """Notes when each event was there in full."""

    def __init__(self, answers: list[Answer]) -> None:
        self.now_ns, self.answers = 0, answers
        self._place, self._rest = -1, b""

    def on_message_begin(self) -> None:
        self._place, self._rest = self._place + 1, b""

    def on_body(self, body: bytes) -> None:
        *events, self._rest = (self._rest + body).split(b"\n\n")
        for event in events:
            if event.startswith(b"data: {"):
                self._note(json.loads(event[6:]))

    def _note(self, chunk: dict) -> None:
        answer = self.answers[self._place]
        for choice in chunk.get("choices", []):
            answer.opened_ns = answer.opened_ns or self.now_ns
            if text := choice.get("delta", {}).get("content"):
                answer.text_ns.append(self.now_ns)
                answer.text += text


if __name__ == "__main__":
    capture(int(sys.argv[1]), Path(sys.argv[2]))
