"""What is said of an address at which no engine answers: the cause, and the next step."""

from __future__ import annotations

import contextlib
import re
import ssl

import anyio
import httpx
import pytest

from edgesweep_agent import attach, questions, reach, trial
from edgesweep_agent.attach import Patience
from edgesweep_agent.core.answers import Reply
from edgesweep_agent.core.readiness import State, of_listing
from edgesweep_agent.core.unreached import Cause, Unreached, most_telling
from edgesweep_agent.errors import EngineError
from engine_server import EngineServer, Script
from pki import Authority

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def serving(answer):
    """Gives each connection to ``answer``; the URL by plain HTTP."""

    async def guarded(stream):
        with contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            async with stream:
                await answer(stream)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, guarded)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def said_of(url, patience=None):
    with pytest.raises(EngineError) as raised:
        await attach.attach(url, patience=patience or Patience(loading_s=0))
    text = str(raised.value)
    assert "\n" not in text
    assert text.count("127.0.0.1") <= 1 + text.count("https://") + text.count("answers only")
    return text


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "ca")


def tls_of(authority, **how):
    pair = authority.server(**how)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


async def test_a_port_of_tls_that_is_asked_by_http_is_given_its_right_address(authority):
    async with EngineServer(Script(), tls=tls_of(authority)) as server:
        plain = server.url.replace("https:", "http:")
        text = await said_of(plain)
    assert text == f"{plain}: answers only as {server.url}: give that address"


async def test_a_port_of_http_that_is_asked_by_tls_is_given_its_right_address():
    async def refuse_nonsense(stream):
        head = await stream.receive()
        status = b"200 OK" if head.startswith(b"GET") else b"400 Bad Request"
        await stream.send(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)

    async with serving(refuse_nonsense) as url:
        text = await said_of(url.replace("http:", "https:"))
    assert text.endswith(f": answers only as {url}: give that address")


async def test_a_key_is_not_shown_to_who_may_be_somebody_else():
    heard = []

    def answer(request):
        heard.append(request.headers.get("Authorization"))
        return httpx.Response(200)

    async with questions.client("https://h", "secret", httpx.MockTransport(answer)) as client:
        assert await questions.other_scheme(client, "https://h") == "http://h:443"
    assert heard == [None]


async def test_a_certificate_that_nobody_vouches_for_is_told_with_how_to_trust_it(authority):
    async with EngineServer(Script(), tls=tls_of(authority)) as server:
        text = await said_of(server.url)
    assert "its certificate is not trusted (" in text
    assert "SSL_CERT_FILE=CA.pem" in text


async def test_the_way_to_trust_it_that_is_told_works(authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with EngineServer(Script(), tls=tls_of(authority)) as server:
        assert (await attach.attach(server.url)).model == "scripted"


async def test_a_certificate_of_another_name_is_told_so(authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with EngineServer(Script(), tls=tls_of(authority, names=("box.local",))) as server:
        text = await said_of(server.url)
    assert "not valid for '127.0.0.1'" in text
    assert "give the address by a name that the certificate has" in text


async def test_a_port_that_closes_at_once_is_not_said_to_be_silent():
    async def close(_stream):
        return

    async with serving(close) as url:
        text = await said_of(url)
    assert text.startswith(f"{url}: accepts connections and closes them without an answer: look")


async def test_a_server_of_another_kind_is_quoted():
    async def greet(stream):
        await stream.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        await stream.receive()

    async with serving(greet) as url:
        text = await said_of(url)
    assert text == f"{url}: does not speak HTTP (it says 'SSH-2.0-OpenSSH_9.2'): correct the port"


async def test_a_host_without_an_address_is_told_so():
    text = await said_of("http://no-such-host.invalid:8080")
    assert "its host name has no address (" in text
    assert "correct the host name" in text


async def test_one_that_never_says_a_byte_is_told_so_with_where_to_look():
    async def hang(stream):
        await stream.receive()
        await anyio.sleep_forever()

    async with serving(hang) as url, questions.client(url, None) as client:
        _, unreached = await questions.ask_each(client, url, ["/health"], timeout_s=0.1)
    judged = of_listing(url, {"/health": Reply(0, {}, "")}, unreached)
    assert (judged.state, judged.what) == (
        State.NOT_YET,
        "accepts connections and has sent no byte",
    )
    assert "look at the server's log" in judged.step


async def test_a_first_completion_that_does_not_come_is_told_while_it_is_waited_for():
    heard = []
    async with EngineServer(Script()) as server:
        target = await attach.attach(server.url)
        server.script = Script(fault="silent")
        async with questions.client(server.url, None) as client:
            found = await trial.complete(
                client,
                target,
                timeout_s=0.4,
                tell_after_s=0.05,
                slow=lambda text, waited_s: heard.append((text, waited_s)),
            )
    assert found == Unreached(Cause.SILENT)
    assert "first token, which has not come yet" in heard[0][0]
    assert 0.05 <= heard[0][1] < 0.4


async def test_a_silent_completion_ends_with_the_patience_for_it():
    async with EngineServer(Script(fault="silent")) as server:
        text = await said_of(server.url, Patience(loading_s=0.2, answer_s=0.3))
    assert re.search(r"no byte in answer to POST /v1/chat/completions after \d s: look at", text)


def chained(kind, *causes):
    error = kind("")
    inner = error
    for cause in causes:
        inner.__cause__ = cause
        inner = cause
    return error


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (chained(httpx.ConnectError, ConnectionRefusedError(111, "x")), Cause.REFUSED, "refused"),
        (chained(httpx.ConnectError, OSError(113, "x")), Cause.UNCONNECTED, "no route to host"),
        (httpx.ConnectTimeout(""), Cause.UNCONNECTED, "no connection in time"),
        (httpx.ReadTimeout(reach.NO_END), Cause.SILENT, "no end"),
        (httpx.ReadTimeout("no byte"), Cause.SILENT, ""),
        (httpx.ReadError(""), Cause.CLOSED, ""),
        (httpx.RemoteProtocolError("illegal status line"), Cause.NO_HTTP, "illegal status line"),
    ],
)
async def test_the_librarys_errors_are_told_apart(error, cause, said):
    found = reach.unreached(error)
    assert found.cause is cause
    assert said in found.said


def test_of_several_causes_the_most_telling_is_told():
    refused, silent = Unreached(Cause.REFUSED), Unreached(Cause.SILENT)
    assert most_telling([refused, silent]) is silent
    assert most_telling([]).cause is Cause.REFUSED


ENVOY = Reply(503, {}, "no healthy upstream")
BUSY = Reply(503, {}, '{"error":{"message":"no slot available"}}')
NGINX = Reply(503, {}, "<html><h1>503 Service Temporarily Unavailable</h1></html>")
LOADING = Reply(503, {}, '{"error":{"code":503,"message":"Loading model"}}')
OLD_LOADING = Reply(503, {}, '{"status":"loading model"}')
PLAIN_TO_TLS = Reply(400, {}, "Client sent an HTTP request to an HTTPS server.\n")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (ENVOY, "HTTP 503 to GET /health: no healthy upstream"),
        (BUSY, "HTTP 503 to GET /health: no slot available"),
        (NGINX, "HTTP 503 to GET /health: an HTML page of a proxy"),
        (Reply(503, {}, ""), "HTTP 503 to GET /health: (empty)"),
        (LOADING, "still loading its model (HTTP 503)"),
        (OLD_LOADING, "still loading its model (HTTP 503)"),
    ],
)
def test_only_who_says_that_it_is_loading_is_said_to_be(reply, says):
    judged = of_listing("http://h", {"/health": reply})
    assert judged.state is State.NOT_YET
    assert judged.what.startswith(says)


def test_a_redirection_is_told_with_where_it_leads():
    moved = Reply(301, {"location": "https://h/v1/models"}, "<html><h1>301 Moved</h1></html>")
    judged = of_listing("http://h", {"/health": moved, "/v1/models": moved})
    assert judged.state is State.UNUSABLE
    assert judged.what == "GET /v1/models is redirected to https://h/v1/models (HTTP 301)"


def test_a_server_that_says_that_it_wants_tls_is_believed():
    judged = of_listing("http://h:1", {"/health": PLAIN_TO_TLS, "/v1/models": PLAIN_TO_TLS})
    assert (judged.state, judged.what) == (State.UNUSABLE, "answers only as https://h:1")
