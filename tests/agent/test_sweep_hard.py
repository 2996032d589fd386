"""What a user without a plan is told when server, budget or folder are not as they should be."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from engine_server import EngineServer, Response, Script
from streams import DONE, delta, usage

pytestmark = pytest.mark.anyio
AGENT = Path(sys.executable).parent / "edgesweep-agent"
FIRST = Response(frames=((5, delta(content="x ") + delta(finish="length") + usage(1) + DONE),))


async def sweep(*options, within_s=60):
    process = await asyncio.create_subprocess_exec(
        AGENT, "sweep", *map(str, options),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), within_s)
    return process.returncode, out.decode(), err.decode()


async def test_a_device_too_slow_for_a_first_level_is_told_what_would_do():
    async with EngineServer(Script(ttft_ms=100, tpot_ms=60)) as server:
        code, out, err = await sweep("--url", server.url, "--levels", "1,2", "--budget", "7s")
    assert code == 0, err
    assert out.count("skipped: time_budget") == 2
    # 11 requests and two of warm-up, each of 1.96 s.
    found = re.search(r"level 1 needs about (\d+) s more: --budget (\d+)s; or (.*)\n", err)
    assert found, err
    assert 15 <= int(found[1]) <= 30
    assert re.fullmatch(r"(--requests 3 )?--output-tokens (8|16) goes into this one", found[3])


async def test_a_server_that_hangs_after_its_first_answer_is_not_said_to_be_slow():
    async with EngineServer(Script(responses=(FIRST,), fault="silent")) as server:
        _, out, err = await sweep("--url", server.url, "--levels", "1", "--budget", "3s")
    assert "skipped: time_budget" in out
    assert re.search(r"level 1; no byte came for the last [23] s; look at the server's", err), err


async def test_fewer_requests_than_the_level_are_explained():
    async with EngineServer(Script(ttft_ms=5, tpot_ms=1)) as server:
        code, out, _ = await sweep("--url", server.url, "--levels", "4", "--requests", "1")
    assert code == 0
    assert "fewer requests than the level: no rates (--requests 12)" in out


async def test_a_folder_that_cannot_be_written_is_told_before_anything_is_asked(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    async with EngineServer(Script()) as server:
        code, out, err = await sweep("--url", server.url, "--state", taken / "runs")
        assert server.peak_connections == 0
    assert (code, out) == (2, "")
    assert "name a folder that can be written with --state FOLDER" in err
    assert str(taken) in err


async def test_a_wait_names_the_server_once():
    async with EngineServer(Script(loading_s=60)) as server:
        code, out, err = await sweep("--url", server.url, "--wait", "1")
    assert code == 1
    assert out == f"{server.url}: still loading its model (HTTP 503)\n"
    assert err == (
        f"edgesweep-agent: {server.url}: still loading its model (HTTP 503) after 1 s: give it "
        "longer with --wait SECONDS\n"
    )
