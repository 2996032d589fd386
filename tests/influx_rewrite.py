"""InfluxDB's v2 write endpoint in front of a 1.x server, with failures on demand.

``POST /api/v2/write?bucket=b[/policy]&org=o&precision=ns`` becomes ``/write?db=b&rp=policy&...``;
``/query``, ``/ping`` and ``/health`` are answered as 2.x answers them. What 2.x and 3 say to bad
requests differs from 1.x: a test sets :class:`Dialect` to get that.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

# 1.6.7 takes a precision it does not know for ns, so the check is here.
_PRECISIONS = {"ns": "ns", "us": "u", "ms": "ms", "s": "s"}
_HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted answer, given instead of passing a write on."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class Dialect:
    """How writes fail; changed by a test while the server runs.

    Attributes:
        script: Answers to the next writes, used up from the left.
        max_points: More lines than this are a proxy's 413, in HTML.
        marked: A write with a line that holds this text is refused as a whole, as 2.x does.
        token: What ``Authorization: Token ...`` has to say; empty to let anybody write.
    """

    script: deque[Answer] = field(default_factory=deque)
    max_points: int = 0
    marked: bytes = b""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """One write request: how many lines it had, and what it was answered."""

    lines: int
    status: int
    query: dict[str, list[str]]


class Rewrite(ThreadingHTTPServer):
    """The server; ``seen`` has every write request in the order of its answers."""

    daemon_threads = True

    def __init__(self, influx_url: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.influx = urlsplit(influx_url).netloc
        self.dialect = Dialect()
        self.seen: list[Seen] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def statuses(self) -> list[int]:
        return [seen.status for seen in self.seen]

    def refusal(self, body: bytes, authorization: str) -> Answer | None:
        """What the dialect says to a write, or ``None`` to pass it on."""
        dialect = self.dialect
        if dialect.script:
            return dialect.script.popleft()
        if dialect.token and authorization != f"Token {dialect.token}":
            return _problem(401, "unauthorized", "unauthorized access")
        if dialect.max_points and len(body.splitlines()) > dialect.max_points:
            page = b"<html><h1>413 Request Entity Too Large</h1></html>"
            return Answer(413, {"Content-Type": "text/html"}, page)
        if dialect.marked and dialect.marked in body:
            return _problem(422, "unprocessable entity", "field type conflict")
        return None


class _Handler(BaseHTTPRequestHandler):
    server: Rewrite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/health":
            self._answer(Answer(200, {}, b'{"name":"influxdb","status":"pass"}'))
        elif url.path == "/ping":
            self._answer(Answer(204))
        else:
            self._answer(self._pass_on(self.path, b""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        if url.path != "/api/v2/write":
            self._answer(self._pass_on(self.path, body))
            return
        query = parse_qs(url.query, keep_blank_values=True)
        zipped = self.headers.get("Content-Encoding") == "gzip"
        text = gzip.decompress(body) if zipped else body
        answer = self.server.refusal(text, self.headers.get("Authorization", ""))
        answer = answer or self._write(query, body)
        self.server.seen.append(Seen(len(text.splitlines()), answer.status, query))
        self._answer(answer)

    def _write(self, query: dict[str, list[str]], body: bytes) -> Answer:
        precision = query.get("precision", ["ns"])[0]
        if precision not in _PRECISIONS:
            return _problem(400, "invalid", f"invalid precision {precision}")
        database, _, policy = query.get("bucket", [""])[0].partition("/")
        asked = {"db": database, "rp": policy, "precision": _PRECISIONS[precision]}
        return self._pass_on(f"/write?{urlencode({k: v for k, v in asked.items() if v})}", body)

    def _pass_on(self, path: str, body: bytes) -> Answer:
        kept = ("Content-Type", "Content-Encoding")
        headers = {name: self.headers[name] for name in kept if name in self.headers}
        connection = HTTPConnection(self.server.influx, timeout=10)
        try:
            connection.request(self.command, path, body, headers)
            answer = connection.getresponse()
            found = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_HEADERS}
            return Answer(answer.status, found, answer.read())
        except OSError as error:
            return _problem(503, "unavailable", str(error))
        finally:
            connection.close()

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - stdlib's name
        """Say nothing: a test reads ``seen``."""


def _problem(status: int, code: str, message: str) -> Answer:
    body = json.dumps({"code": code, "message": message}).encode()
    return Answer(status, {"Content-Type": "application/json"}, body)


@contextmanager
def rewriting(influx_url: str) -> Iterator[Rewrite]:
    """A running :class:`Rewrite` on a free loopback port."""
    server = Rewrite(influx_url)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Serve until interrupted, and say where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--influx", default="http://127.0.0.1:8086", metavar="URL")
    asked = parser.parse_args()
    with Rewrite(asked.influx, asked.port) as server:
        print(server.url, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
