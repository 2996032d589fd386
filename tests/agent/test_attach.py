from __future__ import annotations

import dataclasses
import json
import socket
import time

import anyio
import httpx
import pytest

from edgesweep_agent import attach
from edgesweep_agent.attach import Patience
from edgesweep_agent.engines.registry import ENGINES, recognise
from edgesweep_agent.errors import EngineError, UsageError
from edgesweep_agent.target import Target
from engine_fixtures import answers_of, cases
from engine_server import EngineServer, Response, Script

pytestmark = pytest.mark.anyio


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
    with pytest.raises(EngineError, match=r"nothing listens there .*refused.: start the server"):
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
        with pytest.raises(EngineError, match=r"still loading .* after 1 s: .*--wait"):
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


ENG_01 = cases("engine_detect")["ENG-01"]
STREAM = (
    'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
)
URL = "http://engine"


class Timeline:
    """A server whose answers change with a time that only waiting passes."""

    def __init__(self, events):
        self.events, self.now, self.asked = events, 0.0, []
        self.transport = httpx.MockTransport(self._answer)

    def patience(self, loading_s=120.0, refused_s=0.0):
        return Patience(loading_s, refused_s, clock=lambda: self.now, sleep=self._sleep)

    async def _sleep(self, seconds):
        self.now += seconds

    def _answer(self, request):
        asked = f"{request.method} {request.url.raw_path.decode()}"
        self.asked.append((self.now, asked))
        event = [event for event in self.events if event["from"] <= self.now][-1]
        answer = event.get(asked, event.get("*", 404))
        if isinstance(answer, type):
            raise answer("no", request=request)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, int):
            body = STREAM if (answer, request.method) == (200, "POST") else "{}"
            answer = {"status": answer, "body": body}
        return httpx.Response(
            answer["status"], text=answer["body"], headers=answer.get("headers", {})
        )

    def posts(self, before):
        return [each for at, each in self.asked if at < before and each.startswith("POST")]


LISTING = {"status": 200, "body": '{"data":[{"id":"m","owned_by":"someone"}]}'}
LOADING = {"status": 503, "body": '{"error":{"code":503,"message":"Loading model"}}'}
SERVES = {"GET /health": 200, "GET /v1/models": LISTING, "POST /v1/chat/completions": 200}


async def test_eng_01_nothing_is_measured_before_the_model_is_there():
    expected, events = ENG_01["expected"], [dict(event) for event in ENG_01["input"]["events"]]
    # The case leaves the listing of the second stretch as it was.
    events[1].setdefault("GET /v1/models", events[0]["GET /v1/models"])
    server = Timeline(events)
    target = await attach.attach(URL, transport=server.transport, patience=server.patience())
    assert len(server.posts(before=5)) == expected["measured_requests_before_5s"]
    assert (expected["ready_wait_s"], target.ready_s >= 5) == (">=5", True)
    assert target.model == "m.gguf"


@pytest.mark.parametrize(
    "loading",
    [
        {"GET /health": 503},
        {"GET /health": 503, "GET /v1/models": 404},
        {"GET /v1/models": 503},
        {"*": 503},
        # A listing that is served while completions are not yet.
        {"GET /health": 404, "GET /v1/models": LISTING, "POST /v1/chat/completions": 503},
        {"GET /health": 200, "GET /v1/models": LISTING, "POST /v1/chat/completions": 503},
        {"GET /v1/models": LISTING, "POST /v1/chat/completions": httpx.ReadTimeout},
        {"*": httpx.ReadTimeout},
        {"*": httpx.ConnectError},
        {"*": httpx.ConnectTimeout},
        # A container's published port listens before the server in it does.
        {"*": httpx.ReadError},
        {"GET /v1/models": httpx.ReadError, "GET /health": 200},
    ],
)
async def test_eng_01_every_not_yet_is_waited_for(loading):
    server = Timeline([{"from": 0, **loading}, {"from": 4, **SERVES}])
    target = await attach.attach(URL, transport=server.transport, patience=server.patience(6, 6))
    assert 4 <= target.ready_s < 5
    assert server.now < 5


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"GET /health": LOADING}, "still loading its model .HTTP 503. after 6 s: give .*--wait"),
        ({**SERVES, "POST /v1/chat/completions": LOADING}, "still loading its model .* after 6 s"),
        ({**SERVES, "POST /v1/chat/completions": httpx.ReadTimeout}, "no byte .* POST .*after 6 s"),
        ({"*": httpx.ReadTimeout}, "has sent no byte after 6 s: look at the server's log"),
        ({"*": httpx.ConnectError}, "http://engine: nothing listens there .* after 6 s: start"),
    ],
)
async def test_eng_01_the_wait_is_bounded_and_says_for_what(event, says):
    server = Timeline([{"from": 0, **event}])
    with pytest.raises(EngineError, match=says):
        await attach.attach(URL, transport=server.transport, patience=server.patience(6, 6))
    assert 6 <= server.now < 7


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"*": httpx.RemoteProtocolError}, "does not speak HTTP"),
        ({"*": httpx.ConnectError}, "nothing listens there"),
        ({**SERVES, "POST /v1/chat/completions": 500}, "HTTP 500"),
    ],
)
async def test_eng_01_what_is_never_ready_is_not_waited_for(event, says):
    server = Timeline([{"from": 0, **event}])
    with pytest.raises(EngineError, match=says):
        await attach.attach(URL, transport=server.transport, patience=server.patience(600))
    assert server.now == 0


async def test_eng_01_a_server_that_died_is_not_waited_for():
    server = Timeline([{"from": 0, "GET /health": 503}])
    patience = Patience(600, clock=lambda: server.now, sleep=server._sleep, alive=lambda: "exit 1")
    with pytest.raises(EngineError, match="ended while it was starting: exit 1"):
        await attach.attach(URL, transport=server.transport, patience=patience)


def serving(name, **more):
    """One server of ``fixtures/engines`` that also answers completions."""
    told = {
        f"GET {path}": {"status": reply.status, "body": reply.text, "headers": dict(reply.headers)}
        for path, reply in answers_of(name).items()
    }
    return Timeline([{"from": 0, **told, "POST /v1/chat/completions": 200, **more}])


async def attached(server, **options):
    return await attach.attach(
        URL, transport=server.transport, patience=server.patience(), **options
    )


async def test_while_it_loads_only_the_cheap_questions_are_asked():
    server = Timeline([{"from": 0, "GET /health": 503}, {"from": 10, **SERVES}])
    await attached(server)
    assert {each for at, each in server.asked if at < 10} == {"GET /health", "GET /v1/models"}


async def test_a_router_is_refused_without_a_model():
    with pytest.raises(UsageError, match=r"is a router.*--model .it lists a, b."):
        await attached(serving("llamacpp_router"))


async def test_a_router_with_a_model_is_asked_for_that_one():
    props = {"total_slots": 3, "build_info": "b2", "default_generation_settings": {"n_ctx": 1024}}
    more = {"GET /props?model=b": {"status": 200, "body": json.dumps(props)}}
    server = serving("llamacpp_router", **more)
    target = await attached(server, model="b")
    facts = target.facts
    assert (facts.engine, facts.slots, facts.context_per_request) == ("llama.cpp", 3, 1024)
    assert facts.settings["router"] == "true"
    await attach.scrape(target, httpx.AsyncClient(transport=server.transport))
    assert (server.now, "GET /metrics?model=b") in server.asked


async def test_facts_are_those_of_the_model_that_the_completion_loaded():
    def ps(_request):
        loaded = any(each.startswith("POST") for _, each in server.asked)
        model = {"model": "gpt-oss:20b", "digest": "1", "context_length": 8192}
        return {"status": 200, "body": json.dumps({"models": [model] if loaded else []})}

    server = serving("ollama", **{"GET /api/ps": ps})
    facts = (await attached(server, model="gpt-oss:20b")).facts
    assert (facts.engine, facts.context_per_request) == ("ollama", 8192)
    assert facts.evidence[0] == "/api/version 0.33.0"


async def test_what_is_not_answered_the_second_time_stays_known():
    def props(_request):
        if any(each.startswith("POST") for _, each in server.asked):
            raise httpx.ReadTimeout("busy")
        return {"status": 200, "body": answers_of("llamacpp_old")["/props"].text}

    server = serving("llamacpp_old", **{"GET /props": props})
    assert (await attached(server)).facts.slots == 4


async def test_the_user_says_which_engine_it_is():
    target = await attached(serving("unknown_nginx"), engine="llama.cpp")
    assert (target.engine.name, target.facts.slots) == ("llama.cpp", 2)


def target_of(name, model="m"):
    engine, facts = recognise(answers_of(name), model)
    return Target(URL, engine, facts, model, "secret")


HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("name", "nonce", "fields"),
    [
        ("vllm", "", {"temperature": 0, "ignore_eos": True}),
        ("vllm", "", {"cache_salt": None, "ignore_eos": True}),
        ("llamacpp", "n1", {"top_k": 1, "cache_prompt": False, "cache_salt": None}),
        ("ollama", "n1", {"ignore_eos": None, "cache_salt": None, "temperature": 0}),
    ],
)
def test_a_body_carries_what_its_engine_takes(name, nonce, fields):
    body = json.loads(target_of(name).body([HI], max_tokens=5, nonce=nonce))
    assert {key: body.get(key) for key in fields} == fields
    assert (body["max_tokens"], body["stream"]) == (5, True)


@pytest.mark.parametrize("name", ["vllm", "llamacpp", "unknown_nginx"])
def test_a_natural_body_leaves_sampler_and_stops_to_the_engine(name):
    body = json.loads(target_of(name).body([HI], max_tokens=5, natural=True))
    assert set(body) == {"model", "messages", "max_tokens", "stream", "stream_options"}


def test_a_salt_is_one_that_vllm_takes():
    """vLLM 0.32 refuses more than 128 characters, and slashes (HTTP 400)."""
    salts = [
        json.loads(target_of("vllm").body([HI], max_tokens=5, nonce=nonce))["cache_salt"]
        for nonce in ("run/1/4/measured/7", "run/1/4/measured/8", "x" * 500)
    ]
    assert len(set(salts)) == 3
    assert all(salt.isalnum() and len(salt) <= 128 for salt in salts)


def test_what_shares_may_be_reused_and_a_default_sampler_is_left_alone():
    sharing = dataclasses.replace(target_of("llamacpp"), shares=True, sampler="default")
    body = json.loads(sharing.body([HI], max_tokens=5))
    assert body["ignore_eos"] is True
    assert not body.keys() & {"cache_prompt", "temperature", "samplers", "top_k"}


def counted(request):
    asked = json.loads(request.content)
    if "messages" in asked:
        return {"words": len(asked["messages"][0]["content"].split())}
    return {"words": len(asked["content"].split())}


def input_tokens(request):
    return {"status": 200, "body": json.dumps({"input_tokens": counted(request)["words"] + 30})}


def count_ok(request):
    return {"status": 200, "body": json.dumps({"count": counted(request)["words"] + 30})}


def template(request):
    text = json.loads(request.content)["messages"][0]["content"]
    return {"status": 200, "body": json.dumps({"prompt": f"S {text}"})}


def tokenize(request):
    return {"status": 200, "body": json.dumps({"tokens": [0] * (counted(request)["words"] + 29)})}


OLD_LLAMA = {"POST /apply-template": template, "POST /tokenize": tokenize}


@pytest.mark.parametrize(
    ("name", "answers", "lengths"),
    [
        ("llamacpp", {"POST /v1/chat/completions/input_tokens": input_tokens}, [31, 33, 32]),
        ("llamacpp", OLD_LLAMA, [31, 33, 32]),
        ("llamacpp", {**OLD_LLAMA, "POST /v1/chat/completions/input_tokens": httpx.ReadError},
         [31, 33, 32]),
        ("llamacpp", {}, None),
        ("llamacpp", {"POST /apply-template": template}, None),
        ("llamacpp", {"POST /tokenize": {"status": 200, "body": '{"tokens":[]}'},
                      "POST /apply-template": template}, None),
        ("vllm", {"POST /tokenize": count_ok}, [31, 33, 32]),
        ("vllm", {"POST /tokenize": {"status": 200, "body": '{"count":0}'}}, None),
        ("vllm", {"*": httpx.ConnectError}, None),
        ("ollama", {}, None),
        ("unknown_nginx", {"POST /tokenize": count_ok}, None),
    ],
)  # fmt: skip
async def test_exact_prompt_lengths_are_asked_for_where_the_engine_has_a_way(
    name, answers, lengths
):
    server = Timeline([{"from": 0, **answers}])
    async with httpx.AsyncClient(transport=server.transport) as client:
        told = await attach.count_prompt_tokens(
            target_of(name), ["one", "one two three", "a b"], client
        )
    assert told == lengths


async def test_only_a_few_lengths_are_asked_for_at_once():
    now = highest = 0

    async def answer(request):
        nonlocal now, highest
        now += 1
        highest = max(highest, now)
        await anyio.sleep(0.002)
        now -= 1
        return httpx.Response(200, json={"count": len(request.content)})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        told = await attach.count_prompt_tokens(target_of("vllm"), ["x" * n for n in range(20)],
                                                client)  # fmt: skip
    assert told == sorted(told)
    assert 1 < highest <= 4


METRICS_OFF = {"status": 501, "body": '{"error":{"code":501,"type":"not_supported_error"}}'}
SLOTS = {"status": 200, "body": '[{"n_ctx":9,"is_processing":true},{"n_ctx":9}]'}


@pytest.mark.parametrize(
    ("metrics", "asked", "state", "running"),
    [
        ({"status": 200, "body": "llamacpp:requests_processing 3\n"}, ["/metrics"], "ok", 3.0),
        (METRICS_OFF, ["/metrics", "/slots"], "disabled_by_server", 1.0),
        (404, ["/metrics", "/slots"], "absent", 1.0),
        (httpx.ReadTimeout, ["/metrics", "/slots"], "unreadable", 1.0),
        (httpx.RemoteProtocolError, ["/metrics", "/slots"], "unreadable", 1.0),
        ({"status": 200, "body": "\x00\ufffd{"}, ["/metrics", "/slots"], "unreadable", 1.0),
    ],
)
async def test_met_06_a_scrape_is_one_attempt_that_never_fails(metrics, asked, state, running):
    server = Timeline([{"from": 0, "GET /metrics": metrics, "GET /slots": SLOTS}])
    async with httpx.AsyncClient(transport=server.transport) as client:
        told = await attach.scrape(target_of("llamacpp"), client)
    assert [each for _, each in server.asked] == [f"GET {path}" for path in asked]
    assert (told.metrics_state.value, told.running) == (state, running)


async def test_met_06_an_engine_that_counts_nothing_is_not_asked():
    server = Timeline([{"from": 0}])
    async with httpx.AsyncClient(transport=server.transport) as client:
        for name in ("ollama", "unknown_nginx"):
            told = await attach.scrape(target_of(name), client)
            assert (told.metrics_state.value, told.running) == ("absent", None)
            assert told.reason
    assert server.asked == []


async def test_a_server_that_is_gone_is_a_scrape_without_figures():
    url = f"http://127.0.0.1:{dead_port()}"
    target = Target(url, ENGINES["vllm"], target_of("vllm").facts, "m", None)
    told = await attach.scrape(target)
    assert (told.metrics_state.value, told.running) == ("unreadable", None)
    assert await attach.count_prompt_tokens(target, ["a"]) is None
