"""A scripted engine behind an OpenAI API, which notes the instant of each of its writes.

In a test, ``async with EngineServer(Script(...)) as server`` serves from the same loop, and
``with engine_process("--ttft-ms", "50") as engine`` from a process of its own. By hand:
``python tests/engine_server.py --port 0`` prints its URL.

It serves POST ``/v1/chat/completions`` and ``/v1/completions``, GET ``/v1/models`` and
``/health``, and for the test itself GET ``/timeline`` (a list of requests with their writes, as
``[monotonic ns, kind]``) and ``/stats`` (connections at their peak, requests).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import socket
import struct
import subprocess
import sys
import time
import urllib.request
import zlib
from dataclasses import dataclass, field
from typing import Any

from engine_script import FAULTS, Plan, Response, Script, event

__all__ = ["Engine", "EngineServer", "Response", "Script", "engine_process"]


@dataclass
class Seen:
    """One request as the server saw it."""

    n: int
    user: str
    received_ns: int
    messages: list[dict] = field(default_factory=list)
    writes: list[tuple[int, str]] = field(default_factory=list)


class EngineServer:
    """Serves one script on a loopback port."""

    def __init__(self, script: Script | None = None, *, host="127.0.0.1", port=0, tls=None):
        self.script = script or Script()
        self.timeline: list[Seen] = []
        self.connections = self.peak_connections = 0
        self.started = time.monotonic()
        self.slots = asyncio.Semaphore(self.script.slots) if self.script.slots else None
        self._where = (host, port, tls)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()

    async def __aenter__(self):
        host, port, tls = self._where
        self._server = await asyncio.start_server(self._serve, host, port, ssl=tls, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{name}:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, met) -> None:
        """Waits until ``met(self)`` holds; looks whenever connections or requests change."""
        while not met(self):
            self._changed.clear()
            await self._changed.wait()

    def note(self, seen: Seen | None = None, *, connections: int = 0) -> None:
        """A request arrived, or the number of connections changed."""
        self.connections += connections
        self.peak_connections = max(self.peak_connections, self.connections)
        if seen:
            self.timeline.append(seen)
        self._changed.set()

    async def _serve(self, reader, writer) -> None:
        """One connection: its requests, one after the other."""
        task = asyncio.current_task()
        self._tasks.add(task)
        self.note(connections=1)
        try:
            while await Answer(self, reader, writer).give():
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.note(connections=-1)
            writer.close()
            self._tasks.discard(task)


class Answer:
    """One request read, and what is written back."""

    def __init__(self, server, reader, writer):
        self.server, self.script = server, server.script
        self.reader, self.writer = reader, writer
        self.seen = Seen(0, "", 0)
        self.deflate = zlib.compressobj(wbits=31) if self.script.gzip else None
        self.held: list[tuple[bytes, str]] | None = [] if self.script.burst else None

    async def give(self) -> bool:
        """Answers one request; whether the connection stays."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path = head.split(" ", 2)[:2]
        lines = (line.partition(":") for line in head.lower().split("\r\n")[1:])
        headers = {name: value.strip() for name, _, value in lines}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        keep = headers.get("connection") != "close"
        if method == "GET":
            return self._get(path) and keep
        if time.monotonic() - self.server.started < self.script.loading_s:
            error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
            return self._whole(503, {"error": error}) and keep
        request = json.loads(body or b"{}")
        self.seen = Seen(len(self.server.timeline), request.get("user", ""), time.monotonic_ns(),
                         request.get("messages", []))  # fmt: skip
        self.from_ns = self.seen.received_ns
        self.server.note(self.seen)
        async with self.server.slots or contextlib.AsyncExitStack():
            if self.server.slots is not None:
                # It works on a request from when a slot is free.
                self.from_ns = time.monotonic_ns()
            return await self._post(request, chat="chat" in path) and keep

    def _get(self, path: str) -> bool:
        script, server = self.script, self.server
        known = {
            "/v1/models": {"object": "list", "data": [{"id": script.model, "object": "model"}]},
            "/timeline": [dataclasses.asdict(seen) for seen in server.timeline],
            "/stats": {"peak_connections": server.peak_connections,
                       "requests": len(server.timeline)},
            "/health": {"status": "ok"},
        }  # fmt: skip
        loading = time.monotonic() - server.started < script.loading_s
        if loading and path in ("/health", "/v1/models"):
            return self._whole(503, {"error": {"message": "Loading model", "code": 503}})
        return self._whole(200 if path in known else 404, known.get(path, {"error": "not found"}))

    def _whole(
        self, status: int, body: Any, kind: str = "application/json", **headers: str
    ) -> bool:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Content-Type": kind, "Content-Length": str(len(data)), **headers}
        self.writer.write(_head(status, fields) + data)
        return True

    async def _post(self, request: dict, *, chat: bool) -> bool:
        script = self.script
        if self.seen.n < len(script.responses):
            return await self._timetable(script.responses[self.seen.n])
        fault = script.fault if self.seen.n % script.fault_every == script.fault_every - 1 else ""
        if fault in ("status", "html", "json", "error"):
            return self._instead(fault)
        if fault == "refuse":
            return False
        if fault == "silent":
            await self.reader.read()
        self._start()
        return await self._stream(Plan.of(script, request, chat=chat), fault)

    def _instead(self, fault: str) -> bool:
        page = b"<html><h1>Service Unavailable</h1></html>"
        answer = {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}
        return {
            "status": lambda: self._whole(self.script.status, {"error": {"message": "busy"}}),
            "html": lambda: self._whole(200, page, "text/html"),
            "json": lambda: self._whole(200, answer),
            "error": lambda: self._whole(200, {"error": {"message": "engine stopped"}}),
        }[fault]()

    async def _timetable(self, response: Response) -> bool:
        if response.body is not None:
            return self._whole(response.status, response.body, **response.headers)
        kind = {"Content-Type": "text/event-stream", "Connection": "close"}
        self.writer.write(_head(response.status, kind | response.headers))
        for ms, data in response.frames:
            await self._until(ms)
            self.seen.writes.append((time.monotonic_ns(), "raw"))
            self.writer.write(data)
        if response.end == "rst":
            self._reset()
        return False

    def _start(self) -> None:
        framing = {"Transfer-Encoding": "chunked"} if self.script.framing == "chunked" else {}
        coding = {"Content-Encoding": "gzip"} if self.deflate else {}
        version = "1.1" if framing else "1.0"
        kind = {"Content-Type": "text/event-stream"}
        self.writer.write(_head(200, kind | framing | coding, version))

    async def _stream(self, plan: Plan, fault: str) -> bool:
        texts = 0
        for ms, kind, data in plan.events():
            await self._until(ms)
            if fault and kind in ("text", "finish") and texts >= self.script.fault_after:
                return await self._fail(fault)
            self._write(data, kind)
            texts += kind == "text"
        return self._finish()

    async def _fail(self, fault: str) -> bool:
        if fault == "hang":
            await self.reader.read()
        elif fault == "reset":
            self._reset()
        elif fault == "cut":
            self._write(b'data: {"choi', "cut")
        else:
            error = {"message": "engine stopped", "type": "InternalServerError", "code": 500}
            self._write(event({"error": error}), "error")
            return self._finish()
        return False

    def _write(self, data: bytes, kind: str) -> None:
        """One write to the socket, its instant taken just before."""
        if self.held is not None:
            self.held.append((data, kind))
            return
        wire = self._framed(data)
        self.seen.writes.append((time.monotonic_ns(), kind))
        self.writer.write(wire)

    def _framed(self, data: bytes) -> bytes:
        if self.deflate:
            data = self.deflate.compress(data) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        chunked = self.script.framing == "chunked"
        return b"%x\r\n%s\r\n" % (len(data), data) if chunked else data

    def _finish(self) -> bool:
        if self.held is not None:
            held, self.held = self.held, None
            self._write(b"".join(data for data, _ in held), "text")
        if self.script.framing == "chunked":
            self.writer.write(b"0\r\n\r\n")
        return self.script.framing == "chunked"

    def _reset(self) -> None:
        """Closing with no time to linger sends RST instead of FIN."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def _until(self, ms: float) -> None:
        due_s = self.from_ns / 1e9 + ms / 1e3 - time.monotonic()
        if due_s > 0:
            await asyncio.sleep(due_s)
        if self.reader.at_eof() or self.writer.is_closing():
            raise ConnectionResetError("the client is gone")


def _head(status: int, headers: dict[str, str], version: str = "1.1") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/{version} {status} Scripted\r\n{fields}\r\n".encode("latin-1")


@dataclass(frozen=True)
class Engine:
    """A server in a process of its own."""

    url: str
    process: subprocess.Popen

    def get(self, path: str) -> Any:
        """What a GET returns, as JSON."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)


@contextlib.contextmanager
def engine_process(*options: str):
    """Runs this file with the given options for as long as the context lasts."""
    command = [sys.executable, __file__, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Engine(process.stdout.readline().strip(), process)
        finally:
            process.terminate()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    for known in dataclasses.fields(Script):
        option = "--" + known.name.replace("_", "-")
        if known.name == "responses":
            continue
        if isinstance(known.default, bool):
            parser.add_argument(option, action="store_true")
        elif known.name == "cached_tokens":
            parser.add_argument(option, type=int)
        else:
            choices = FAULTS if known.name == "fault" else None
            kind = type(known.default)
            parser.add_argument(option, type=kind, default=known.default, choices=choices)
    return parser.parse_args()


async def _main() -> None:
    options = vars(_arguments())
    host, port = options.pop("host"), options.pop("port")
    async with EngineServer(Script(**options), host=host, port=port) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
