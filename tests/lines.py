"""A TCP line between a client and a server that the test may cut without a word, and mend."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager


class Line:
    """Forwards both ways; what comes while a way is cut waits, as if on a network that is gone.

    Attributes:
        up: Open while bytes go to the server.
        down: Open while bytes come back.
        connections: How many there were.
    """

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.up, self.down = asyncio.Event(), asyncio.Event()
        self.up.set()
        self.down.set()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task] = set()

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self.up.clear()
        self.down.clear()

    def mend(self) -> None:
        self.up.set()
        self.down.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        self._server.close()
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _serve(self, reader, writer) -> None:
        self.connections += 1
        try:
            there = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            writer.transport.abort()
            return
        for one, other, gate in ((reader, there[1], self.up), (there[0], writer, self.down)):
            pipe = asyncio.create_task(_pipe(one, other, gate))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)


async def _pipe(reader, writer, gate) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
                await writer.drain()
            # An end travels on the line as well.
            await gate.wait()
    finally:
        writer.transport.abort()


@asynccontextmanager
async def line_to(port: int):
    line = Line(port)
    await line.start()
    try:
        yield line
    finally:
        await line.stop()
