"""``probe --wait``: what its own message says it has."""

from __future__ import annotations

import socket

import httpx
import pytest
from typer.testing import CliRunner

from edgesweep_agent import attach
from edgesweep_agent.cli.commands import PROGRAM
from edgesweep_agent.errors import EngineError
from engine_fixtures import answers_of

pytestmark = pytest.mark.anyio


class Time:
    """A clock that only sleep moves."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    def patience(self, wait_s):
        return attach.Patience(wait_s, wait_s, clock=self.clock, sleep=self.sleep)


def transport(time, ready_s, meanwhile):
    """A server that answers from an instant on; before, what ``meanwhile`` does."""
    answers = answers_of("vllm")

    def answer(request):
        if time.now < ready_s:
            return meanwhile(request)
        told = answers.get(request.url.path)
        return httpx.Response(404) if told is None else httpx.Response(told.status, text=told.text)

    return httpx.MockTransport(answer)


def refuse(request):
    raise httpx.ConnectError("refused", request=request)


def load(_request):
    return httpx.Response(503, json={"error": {"message": "Loading model"}})


@pytest.mark.parametrize("meanwhile", [refuse, load])
async def test_a_server_that_is_starting_is_waited_for(meanwhile):
    time = Time()
    there = transport(time, 3.0, meanwhile)
    seen = await attach.look("http://h", patience=time.patience(5), transport=there)
    assert seen.facts.engine == "vllm"
    assert time.now == 3.0


@pytest.mark.parametrize(
    ("meanwhile", "wait_s", "says"),
    [
        (refuse, 5, r"nothing listens .* after 5 s: start .*; give it longer with --wait"),
        (refuse, 0, r"nothing listens .*--wait 120 waits"),
        (load, 0, r"still loading .*--wait 120 waits"),
    ],
)
async def test_one_that_does_not_come_is_given_up(meanwhile, wait_s, says):
    time = Time()
    there = transport(time, 1e9, meanwhile)
    with pytest.raises(EngineError, match=says):
        await attach.look("http://h", patience=time.patience(wait_s), transport=there)
    assert time.now == wait_s


async def test_without_patience_it_is_asked_once():
    asked = []

    def answer(request):
        asked.append(request.url.path)
        return load(request)

    with pytest.raises(EngineError, match="still loading"):
        await attach.look("http://h", transport=httpx.MockTransport(answer))
    assert len(asked) == len(set(asked))


def test_the_command_has_the_option_that_its_message_names():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = ["probe", f"http://127.0.0.1:{port}", "--wait", "0.1"]
    done = CliRunner().invoke(PROGRAM.command_line(), command)
    assert isinstance(done.exception, EngineError)
    assert "give it longer with --wait" in str(done.exception)
