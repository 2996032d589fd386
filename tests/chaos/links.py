"""Our own network: a TCP proxy for each pair that talks, which may be cut, reset or slowed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter

from edgesweep import envelope
from edgesweep.envelope import WireError

CHUNK = 16 * 1024
_RESET = struct.pack("ii", 1, 0)


class Link:
    """One way from many clients to one server.

    Attributes:
        delay_s: What each piece waits before it goes on.
        bytes_per_s: What the line carries; 0 for no bound.
        refusing: New connections are reset at once.
        spies: Makes a listener for what a connection sends; ``None`` if nobody listens.
    """

    def __init__(self, name: str, to_port: int, spies=None) -> None:
        self.name, self.to_port, self.spies = name, to_port, spies
        self.delay_s, self.bytes_per_s, self.refusing = 0.0, 0.0, False
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        self.reset()
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def hole(self) -> None:
        """Nothing passes, and nobody is told: a cable that was pulled."""
        self._open.clear()

    def heal(self) -> None:
        """All is as it should be; what was held goes on its way."""
        self.delay_s, self.bytes_per_s, self.refusing = 0.0, 0.0, False
        self._open.set()

    def reset(self) -> None:
        """End all connections with an RST on both sides."""
        for writer in list(self._writers):
            _abort(writer)

    async def _serve(self, reader, writer) -> None:
        if self.refusing:
            _abort(writer)
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            _abort(writer)
            return
        spy = self.spies() if self.spies else None
        self._writers |= {writer, back}
        self._begin(self._pipe(reader, back, spy), (writer, back))
        self._begin(self._pipe(there, writer, None), (writer, back))

    def _begin(self, pipe, writers) -> None:
        task = asyncio.create_task(pipe)
        self._pipes.add(task)

        def over(done) -> None:
            self._pipes.discard(done)
            for writer in writers:
                self._writers.discard(writer)
                writer.transport.abort()

        task.add_done_callback(over)

    async def _pipe(self, reader, writer, spy) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if spy:
                    spy.feed(data)
                await self._open.wait()
                wait_s = self.delay_s
                if self.bytes_per_s:
                    wait_s += len(data) / self.bytes_per_s
                if wait_s:
                    await asyncio.sleep(wait_s)
                writer.write(data)
                await writer.drain()
            # An end travels on the line as well.
            await self._open.wait()


def _abort(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


class Sent:
    """How often each envelope went out to the broker, acknowledged or not."""

    def __init__(self) -> None:
        self.times: Counter = Counter()

    @property
    def resent(self) -> int:
        return sum(self.times.values()) - len(self.times)

    def spy(self) -> Publishes:
        return Publishes(self._published)

    def _published(self, topic: bytes, payload: bytes) -> None:
        if b"/up/" in topic:
            with contextlib.suppress(WireError):
                one = envelope.decode(payload)
                self.times[one.device_id, one.epoch, one.seq] += 1


class Publishes:
    """Finds the PUBLISH packets (MQTT 5.0, 3.3) in what one client sends.

    Args:
        found: Told the topic and the payload of each.
    """

    def __init__(self, found) -> None:
        self._found = found
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data
        while (packet := self._packet()) is not None:
            first, body = packet
            if first >> 4 == 3:
                self._found(*_publish(body, qos=first >> 1 & 3))

    def _packet(self):
        if len(self._bytes) < 2:
            return None
        length, at = _varint(self._bytes, 1)
        if length is None or len(self._bytes) < at + length:
            return None
        first, body = self._bytes[0], bytes(self._bytes[at : at + length])
        del self._bytes[: at + length]
        return first, body


def _publish(body: bytes, qos: int) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(body[:2], "big")
    at = end + (2 if qos else 0)
    properties, at = _varint(body, at)
    return body[2:end], body[at + properties :]


def _varint(data, at: int):
    """A variable byte integer and where it ends; ``None`` if it is not whole."""
    value, shift = 0, 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
    return None, at
