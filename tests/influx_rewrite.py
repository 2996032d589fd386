"""InfluxDB's v2 write endpoint in front of a 1.x server, with failures on demand.

``POST /api/v2/write?bucket=b[/policy]&org=o&precision=ns`` becomes ``/write?db=b&rp=policy&...``;
``/query``, ``/ping`` and ``/health`` are answered as 2.x answers them. What 2.x and 3 say to bad
requests differs from 1.x: a test sets :class:`Dialect` to get that (:mod:`influx_dialects`).
"""

from __future__ import annotations

import argparse
import gzip
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from influx_dialects import (
    Answer,
    Speaks,
    forbidden,
    no_bucket,
    problem,
    proxy_too_large,
    too_large,
    unauthorized,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# 1.6.7 takes a precision it does not know for ns, so the check is here.
_PRECISIONS = {"ns": "ns", "us": "u", "ms": "ms", "s": "s"}
_HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "date", "server"}


# Lines are written there to learn whether they can be read at all.
_SCRATCH = "rewrite_scratch"


@dataclass(slots=True)
class Dialect:
    """How writes fail; changed by a test while the server runs.

    Attributes:
        speaks: Whose words and codes are answered.
        script: Answers to the next writes, used up from the left.
        max_points: More lines than this are a proxy's 413, in HTML.
        max_bytes: More bytes than this are the server's own 413.
        marked: A write with a line that holds this text is refused as a whole.
        token: What ``Authorization: Token ...`` has to say; empty to let anybody write.
        read_only: The token may not write.
    """

    speaks: Speaks = Speaks.V1
    script: deque[Answer] = field(default_factory=deque)
    max_points: int = 0
    max_bytes: int = 0
    marked: bytes = b""
    token: str = ""
    read_only: bool = False


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
        return self._not_allowed(authorization) or self._too_much(body)

    def _not_allowed(self, authorization: str) -> Answer | None:
        dialect = self.dialect
        if dialect.token and authorization != f"Token {dialect.token}":
            return unauthorized(dialect.speaks)
        if dialect.read_only:
            return forbidden(dialect.speaks)
        return None

    def _too_much(self, body: bytes) -> Answer | None:
        dialect = self.dialect
        if dialect.max_points and len(body.splitlines()) > dialect.max_points:
            return proxy_too_large()
        if dialect.max_bytes and len(body) > dialect.max_bytes:
            return too_large(dialect.speaks)
        if dialect.marked and dialect.marked in body:
            return problem(422, code="unprocessable entity", message="field type conflict")
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
        answer = answer or self._written(query, text)
        self.server.seen.append(Seen(len(text.splitlines()), answer.status, query))
        self._answer(answer)

    def _written(self, query: dict[str, list[str]], lines: bytes) -> Answer:
        precision = query.get("precision", ["ns"])[0]
        if precision not in _PRECISIONS:
            return problem(400, code="invalid", message=f"invalid precision {precision}")
        speaks = self.server.dialect.speaks
        bucket = query.get("bucket", [""])[0]
        database, _, policy = bucket.partition("/")
        if speaks is Speaks.V3:
            self._query(f'CREATE DATABASE "{database}"')

        def write(body: bytes) -> Answer:
            asked = {"db": database, "rp": policy, "precision": _PRECISIONS[precision]}
            asked = {name: value for name, value in asked.items() if value}
            return self._pass_on(f"/write?{urlencode(asked)}", body)

        def parse(body: bytes) -> Answer:
            # Anew each time: a conflict of types with an earlier line would be told instead.
            self._query(f'DROP DATABASE "{_SCRATCH}"')
            self._query(f'CREATE DATABASE "{_SCRATCH}"')
            return self._pass_on(f"/write?db={_SCRATCH}", body)

        answer = written(speaks, lines, parse, write)
        return no_bucket(speaks, bucket) if answer.status == 404 else answer

    def _query(self, statement: str) -> None:
        self._pass_on(f"/query?{urlencode({'q': statement})}", b"")

    def _pass_on(self, path: str, body: bytes) -> Answer:
        headers = {k: self.headers[k] for k in ("Content-Type",) if k in self.headers}
        connection = HTTPConnection(self.server.influx, timeout=10)
        try:
            connection.request(self.command, path, body, headers)
            answer = connection.getresponse()
            found = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_HEADERS}
            return Answer(answer.status, found, answer.read())
        except OSError as error:
            return problem(503, code="unavailable", message=str(error))
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
