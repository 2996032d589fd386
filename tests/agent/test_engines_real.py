"""The adapter against a real llama.cpp: what it says, counts, and how it is asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import anyio
import pytest

from edgesweep_agent import attach, questions
from edgesweep_agent.attach import Patience
from edgesweep_agent.cli.probe import probe_object
from edgesweep_agent.core.counters import difference, peaks
from edgesweep_agent.target import CHAT_PATH

pytestmark = pytest.mark.anyio
SLOTS, CONTEXT = 2, 512
TEXTS = ("one two three", "Grüße 漢字 🎉\n\n tabs\t", "<|im_start|>user hi")


SERVE = """
import signal, sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port = sys.argv[1], int(sys.argv[2])
parameters.hostnames = ["127.0.0.1"]
parameters.n_parallel, parameters.n_ctx = int(sys.argv[3]), int(sys.argv[3]) * int(sys.argv[4])
parameters.kv_unified = parameters.fit_params = False
parameters.cpuparams.n_threads, parameters.cache_ram_mib = 1, 0
parameters.endpoint_metrics = parameters.endpoint_slots = True
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
server = xllamacpp.Server(parameters)
signal.sigwait({signal.SIGTERM})
"""


@pytest.fixture
def server(packaged_model):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = [str(packaged_model), str(port), str(SLOTS), str(CONTEXT)]
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-c", SERVE, *settings]
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        yield f"http://127.0.0.1:{port}", process
        process.terminate()


async def send(client, target, text, output_tokens):
    body = json.loads(target.body([{"role": "user", "content": text}], max_tokens=output_tokens))
    del body["stream"], body["stream_options"]
    reply = await questions.post(client, target.url + CHAT_PATH, body, 60)
    return reply.json_object()["usage"]


async def test_the_real_llama_cpp_is_known_counted_and_asked_for_lengths(server):
    url, process = server
    patience = Patience(60, 60, lambda: None if process.poll() is None else str(process.poll()))
    target = await attach.attach(url, patience=patience)
    async with questions.client(url, None) as client:
        await _facts(url, target)
        await _lengths(client, target)
        await _full(client, target)


async def _facts(url, target):
    report = probe_object(await attach.look(url))
    assert (report["engine"], report["slots"]) == ("llama.cpp", SLOTS)
    assert (report["context_per_request"], report["weight_format"]) == (CONTEXT, "Q4_1")
    assert (report["running"], report["waiting"], report["metrics_state"]) == (0, 0, "ok")
    assert target.facts.settings["chat_template_sha256"]


async def _lengths(client, target):
    """Both ways agree with what the engine itself says that it was sent."""
    told = await attach.count_prompt_tokens(target, TEXTS, client)
    ways = target.engine.counting().ways
    assert len(ways) == 2
    for way in ways:
        assert await questions.count(client, target.url, target.model, way, TEXTS) == told
    usages = [await send(client, target, text, 2) for text in TEXTS]
    assert [usage["prompt_tokens"] for usage in usages] == told
    # It would rather have stopped, and reuses nothing of the request before.
    assert [usage["completion_tokens"] for usage in usages] == [2] * len(TEXTS)
    again = await send(client, target, TEXTS[-1], 2)
    assert again["prompt_tokens_details"]["cached_tokens"] == 0


async def _full(client, target):
    """More requests than slots: it works on as many as it has, and holds the others back."""
    before, seen = await attach.scrape(target, client), []
    requests = 2 * SLOTS
    async with anyio.create_task_group() as tasks:
        for index in range(requests):
            tasks.start_soon(send, client, target, f"{index}", 8)
        while peaks(seen).waiting != requests - SLOTS:
            await anyio.sleep(0.02)
            seen.append(await attach.scrape(target, client))
    delta = difference(before, await attach.scrape(target, client), 1.0)
    assert peaks(seen).running == SLOTS
    assert not delta.restarted
    assert delta.increases["generation_tokens"] == requests * 8
    assert 1 < delta.busy_slots_per_decode <= SLOTS
