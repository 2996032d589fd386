"""A mock of a streaming engine that costs little and keeps an exact account of its writes.

Every stream gets ``--rate`` tokens a second, a chunk each, from ``--ttft-ms`` on; with
``--lockstep`` all streams write in the same instant, as a batching engine does, otherwise evenly
between each other. The text of each token is the number of its request, so that any client's
record of an answer finds its writes in ``GET /timeline``; where a client keeps no text, its
``X-Request-ID`` does. ``opened_ns`` is when the role chunk was written. Prints its URL and serves
until killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

_CHUNK = (
    '{"id":"chatcmpl-4f1e8d0c9b7a4e62a35d7c1f0e9b8a6d","object":"chat.completion.chunk",'
    '"created":1764500000,"model":"mock","choices":[{"index":0,"delta":%s,"logprobs":null,'
    '"finish_reason":%s}]%s}'
)
_SLOTS = 16
"""Streams that are spread over one token's time."""


def _framed(data: str) -> bytes:
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


class Account:
    """What was asked and written so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.requests: list[dict] = []
        self.epoch_s = asyncio.get_running_loop().time()

    def start_s(self, number: int) -> float:
        """When the stream's first token is due: on the grid that all streams share."""
        period_s = 1 / self.options.rate
        offset_s = 0 if self.options.lockstep else (number % _SLOTS) / _SLOTS * period_s
        earliest_s = asyncio.get_running_loop().time() + self.options.ttft_ms / 1e3
        periods = -(-(earliest_s - self.epoch_s - offset_s) // period_s)
        return self.epoch_s + offset_s + periods * period_s


class MockConnection(asyncio.Protocol):
    """One connection; a request at a time."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._loop = asyncio.get_running_loop()
        self._buffer = b""

    def connection_made(self, transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.lower().split(b"\r\n")
        length = next((int(x[15:]) for x in lines if x.startswith(b"content-length:")), 0)
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._close = b"connection: close" in lines
        if head.startswith(b"POST"):
            name = next((x[13:] for x in lines if x.startswith(b"x-request-id:")), b"")
            self._stream(json.loads(rest[:length]), name.decode().strip())
        else:
            self._get(head.split(b" ")[1].decode())

    def _get(self, path: str) -> None:
        known = {
            "/v1/models": {"object": "list", "data": [{"id": "mock", "object": "model"}]},
            "/timeline": self._account.requests,
            "/health": {"status": "ok"},
        }
        body = json.dumps(known.get(path, {"error": "not found"})).encode()
        status = 200 if path in known else 404
        self._transport.write(
            b"HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, len(body), body)
        )
        if self._close:
            self._transport.close()

    def _stream(self, request: dict, name: str) -> None:
        number = len(self._account.requests)
        tokens = request.get("max_completion_tokens") or request.get("max_tokens") or 16
        self._writes: list[int] = []
        seen = {"number": number, "request_id": name, "received_ns": time.monotonic_ns()}
        self._account.requests.append(seen | {"opened_ns": 0, "writes": self._writes})
        self._text = _framed(_CHUNK % (f'{{"content":"{number} "}}', "null", ""))
        self._left, self._tokens = tokens, tokens
        self._account.requests[number]["opened_ns"] = time.monotonic_ns()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\nserver: mock\r\n"
            b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
            + _framed(_CHUNK % ('{"role":"assistant","content":""}', "null", ""))
        )
        self._due_s = self._account.start_s(number)
        self._loop.call_at(self._due_s, self._write)

    def _write(self) -> None:
        if self._transport.is_closing():
            return
        self._writes.append(time.monotonic_ns())
        self._transport.write(self._text)
        self._left -= 1
        if self._left:
            self._due_s += 1 / self._account.options.rate
            self._loop.call_at(self._due_s, self._write)
        else:
            self._finish()

    def _finish(self) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": self._tokens}
        usage["total_tokens"] = sum(usage.values())
        final = {"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage}
        self._transport.write(
            _framed(_CHUNK % ("{}", '"length"', "")) + _framed(json.dumps(final))
            + _framed("[DONE]") + b"0\r\n\r\n"
        )  # fmt: skip
        if self._close:
            self._transport.close()


async def serve() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=100.0, help="tokens a second a stream")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--lockstep", action="store_true")
    account = Account(parser.parse_args())
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: MockConnection(account), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
