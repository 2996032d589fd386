from __future__ import annotations

import socket
import time

import anyio
import pytest

from edgesweep_agent import attach
from edgesweep_agent.attach import Patience
from edgesweep_agent.errors import EngineError, UsageError
from engine_server import EngineServer, Response, Script

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("pasted", "root"),
    [
        ("http://h:8080", "http://h:8080"),
        ("h:8080", "http://h:8080"),
        ("http://h:8080/v1/", "http://h:8080"),
        ("http://h:8080/v1/chat/completions", "http://h:8080"),
        ("https://h/llm/v1", "https://h/llm"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_address_is_taken_as_people_paste_it(pasted, root):
    assert attach.normalise(pasted) == root


@pytest.mark.parametrize("pasted", ["ftp://h", "http://", ""])
def test_what_is_no_address_is_refused(pasted):
    with pytest.raises(UsageError, match="no http"):
        attach.normalise(pasted)


async def test_a_server_that_answers_is_ready_with_its_model_and_overhead():
    async with EngineServer(Script()) as server:
        target = await attach.attach(server.url)
    assert target.model == "scripted"
    assert target.engine.name == "unknown"
    assert target.overhead_tokens == 0


async def test_a_dead_port_is_said_at_once():
    url = f"http://127.0.0.1:{dead_port()}"
    with pytest.raises(EngineError, match=r"nothing answers at .*start the server"):
        await attach.attach(url)


async def test_a_dead_port_is_waited_for_if_asked():
    port = dead_port()

    async def start_late():
        await anyio.sleep(0.7)
        async with EngineServer(Script(), port=port):
            await anyio.sleep(3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start_late)
        target = await attach.attach(f"http://127.0.0.1:{port}", patience=Patience(5, 5))
        tasks.cancel_scope.cancel()
    assert target.ready_s > 0.5


async def test_a_server_that_is_loading_is_waited_for():
    heard = []
    async with EngineServer(Script(loading_s=1.0)) as server:
        target = await attach.attach(server.url, waiting=lambda text, _s: heard.append(text))
    assert target.ready_s >= 0.9
    assert "loading" in heard[0]


async def test_a_server_that_loads_for_too_long_is_given_up_with_what_to_do():
    began = time.monotonic()
    async with EngineServer(Script(loading_s=60)) as server:
        with pytest.raises(EngineError, match=r"still loading .* after 1 s; .*--wait"):
            await attach.attach(server.url, patience=Patience(loading_s=1))
    assert time.monotonic() - began < 5


async def test_a_model_that_is_not_there_is_named_with_those_that_are():
    async with EngineServer(Script()) as server:
        with pytest.raises(UsageError, match="no model 'other'; it has scripted"):
            await attach.attach(server.url, model="other")


class Fixed:
    """Answers every GET and every POST with one status and body."""

    def __init__(self, get: tuple[int, bytes], post: tuple[int, bytes] = (404, b"{}")):
        self._answers = {b"GET": get, b"POST": post}

    async def __aenter__(self):
        self._listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._listener.serve, self._answer)
        self.url = f"http://127.0.0.1:{self._listener.extra(anyio.abc.SocketAttribute.local_port)}"
        return self

    async def __aexit__(self, *error):
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self._listener.aclose()

    async def _answer(self, stream):
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            status, body = self._answers[head.split(b" ")[0]]
            await stream.send(
                b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                % (status, len(body), body)
            )


PAGE = b"<!DOCTYPE html><html><h1>Welcome</h1></html>"


@pytest.mark.parametrize(
    ("get", "post", "error", "says"),
    [
        ((404, b"not found"), (404, b"not found"), EngineError, "is not there .HTTP 404.*check"),
        ((200, PAGE), (200, PAGE), EngineError, "HTML page .*address of the engine itself"),
        ((404, PAGE), (404, PAGE), EngineError, "HTML page"),
        ((404, b"{}"), (200, PAGE), EngineError, "HTML page"),
        ((501, PAGE), (404, b"no"), EngineError, "is not there"),
        ((401, b"{}"), (401, b"{}"), EngineError, "wants an API key .*--api-key-file"),
        ((500, b'{"error":{"message":"out of luck"}}'), (500, b""), EngineError, "out of luck"),
        ((200, b'{"data":[]}'), (200, b"{}"), UsageError, "lists no model; name one"),
        (
            (200, b'{"data":[{"id":"a"},{"id":"b"}]}'),
            (200, b""),
            UsageError,
            "several models: a, b",
        ),
        ((200, b'{"data":[{"id":"a"}]}'), (404, b'{"error":"no"}'), UsageError, "no model 'a'"),
        ((200, b'{"data":[{"id":"a"}]}'), (200, b'{"x":1}'), EngineError, "does not stream"),
    ],
)
async def test_each_wrong_server_is_told_in_one_line(get, post, error, says):
    async with Fixed(get, post) as server:
        with pytest.raises(error, match=says) as raised:
            await attach.attach(server.url)
    assert "\n" not in str(raised.value)


async def test_a_server_without_a_listing_is_measured_all_the_same():
    chunk = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"length"}]}'
    async with Fixed((404, b"{}"), (200, chunk + b"\n\ndata: [DONE]\n\n")) as server:
        target = await attach.attach(server.url)
        named = await attach.attach(server.url, model="mine")
    assert (target.model, named.model) == ("default", "mine")
    async with Fixed((501, PAGE), (200, chunk + b"\n\ndata: [DONE]\n\n")) as server:
        assert (await attach.attach(server.url)).model == "default"


async def test_a_server_that_compresses_unasked_is_measured_all_the_same():
    async with EngineServer(Script(gzip=True)) as server:
        assert (await attach.attach(server.url)).model == "scripted"


async def test_a_server_that_hangs_up_is_not_said_to_be_slow():
    async with EngineServer(Script(fault="refuse")) as server:
        with pytest.raises(EngineError, match=r"/v1/chat/completions: .*disconnect"):
            await attach.attach(server.url)


async def test_a_refused_request_within_a_listing_server_keeps_its_words():
    script = Script(responses=(Response(400, body=b'{"error":{"message":"bad field"}}'),))
    async with EngineServer(script) as server:
        with pytest.raises(EngineError, match="HTTP 400: bad field"):
            await attach.attach(server.url)
