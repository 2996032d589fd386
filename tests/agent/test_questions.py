"""Questions are bounded, whatever the server does."""

from __future__ import annotations

import contextlib

import anyio
import httpx
import pytest

from edgesweep_agent import questions

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def serving(*pieces, gap_s=0.0):
    """A server that writes ``pieces`` to whoever asks, and then hangs up."""

    async def answer(stream):
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.receive()
                for piece in pieces:
                    await stream.send(piece)
                    await anyio.sleep(gap_s)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with questions.client("http://", None) as client:
            yield client, f"http://127.0.0.1:{port}/x"
        tasks.cancel_scope.cancel()


HEAD = b"HTTP/1.1 200 OK\r\nServer: X\r\nContent-Length: 9000000\r\n\r\n"


async def test_an_answer_is_a_reply_with_its_headers_in_lower_case():
    async with serving(b"HTTP/1.1 501 No\r\nX-Y: Z\r\nContent-Length: 2\r\n\r\nhi") as (
        client,
        url,
    ):
        reply = await questions.ask(client, url)
    assert (reply.status, reply.headers["x-y"], reply.text) == (501, "Z", "hi")


async def test_who_drips_is_not_waited_for_without_end():
    async with serving(HEAD, *[b"x"] * 50, gap_s=0.02) as (client, url):
        with anyio.fail_after(1):
            reply = await questions.ask(client, url, timeout_s=0.1)
    assert (reply.status, reply.text) == (0, "")


async def test_what_is_endless_is_left_unread():
    pieces = [b"x" * (1 << 20)] * 9
    async with serving(HEAD, *pieces) as (client, url):
        reply = await questions.ask(client, url)
    assert (reply.status, reply.text) == (200, "")


async def test_what_speaks_no_http_is_told_from_what_hangs_up():
    async with serving(b"220 mail ready\r\n\r\n") as (client, url):
        reply = await questions.ask(client, url)
    assert reply.status == 0
    assert "mail" in reply.text
    async with serving() as (client, url):
        assert await questions.ask(client, url) is None


async def test_bytes_that_are_no_text_are_read_all_the_same():
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na\xffb") as (client, url):
        assert (await questions.ask(client, url)).text == "a\ufffdb"


async def test_paths_are_asked_at_the_same_time_and_nobodys_are_missing():
    async def answer(request):
        await anyio.sleep(0.05)
        if request.url.path == "/b":
            raise httpx.ConnectError("no")
        return httpx.Response(200, text=request.url.path)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with anyio.fail_after(0.15):
            told = await questions.ask_all(client, "http://x", ["/a", "/b", "/c?d=e", "/f"])
    assert {path: reply.text for path, reply in told.items()} == {
        "/a": "/a", "/c?d=e": "/c", "/f": "/f",
    }  # fmt: skip
