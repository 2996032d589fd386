"""A server whose text comes early and whose end comes late, with a count that is too low."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from engine_server import EngineServer, Response, Script
from levels import flags_of
from streams import DONE, delta, usage

pytestmark = pytest.mark.anyio
AGENT = Path(sys.executable).parent / "edgesweep-agent"
TEXT = tuple((5 + n / 4, delta(content="x ")) for n in range(24))
SILENT = Response(frames=(*TEXT, (160, delta(finish="stop") + usage(20) + DONE)))


async def test_a_run_tells_of_early_text_and_of_counts_that_cannot_be(tmp_path):
    prompts, run = tmp_path / "prompts.jsonl", tmp_path / "run.json"
    prompts.write_text('{"prompt": "Say x.", "output_tokens": 20}\n')
    async with EngineServer(Script(responses=(SILENT,) * 100)) as server:
        process = await asyncio.create_subprocess_exec(
            AGENT, "sweep", "--url", server.url, "--prompts", prompts, "--levels", "4",
            "--requests", "4", "--json", run,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said.decode()
    (level,) = json.loads(run.read_text())["levels"]
    assert (level["status"], level["n_ok"]) == ("flagged", 4)
    assert flags_of(level) == ["tokens_estimated", "late_end"]
    told = {flag["name"]: flag for flag in level["flag_details"]}
    assert (told["late_end"]["value"], told["late_end"]["threshold"]) == (1.0, 0.05)
    assert (told["tokens_estimated"]["value"], told["tokens_estimated"]["threshold"]) == (1.0, 0.0)
    assert "fewer tokens than" in told["tokens_estimated"]["detail"]
