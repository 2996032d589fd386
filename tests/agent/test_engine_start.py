"""How a managed engine is waited for, and what becomes of a port that another one took."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from edgesweep_agent.attach import Patience
from edgesweep_agent.errors import LaunchError
from edgesweep_agent.plan import ManagedSpec, SweepPlan
from edgesweep_agent.servers.registry import SERVERS
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.contender import Opening
from edgesweep_agent.sweep.managed import managed, start_s
from random_gguf import Recipe, write

pytestmark = pytest.mark.anyio

TESTS = Path(__file__).resolve().parents[1]
# Finds its port taken as often as it is told to, then serves.
SERVER = f"""#!{sys.executable}
import os, sys
from pathlib import Path
if "--help" in sys.argv or "--version" in sys.argv:
    sys.exit("version: 10573 (3f545becc)" if "--version" in sys.argv else 0)
ports = Path(__file__).with_name("ports")
port = sys.argv[sys.argv.index("--port") + 1]
with ports.open("a") as file:
    print(port, file=file)
if len(ports.read_text().split()) <= {{taken}}:
    sys.exit(f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {{{{port}}}}")
os.execv(sys.executable, [sys.executable, {str(TESTS / "engine_server.py")!r}, "--port", port])
"""


def opening(spec, **settings):
    plan = SweepPlan((spec,), reserve="1MiB", **settings)
    return Opening(plan, Box(), Patience(), lambda *_: None)


def contender(tmp_path, taken):
    model, program = tmp_path / "m.gguf", tmp_path / "llama-server"
    write(model, Recipe())
    program.write_text(SERVER.format(taken=taken))
    program.chmod(0o755)
    return ManagedSpec(model, 2, 64, server="llama-server", program=program)


def ports(tmp_path):
    return (tmp_path / "ports").read_text().split()


async def test_a_port_that_was_taken_meanwhile_is_followed_by_another(tmp_path, caplog):
    spec = contender(tmp_path, taken=1)
    with caplog.at_level(logging.WARNING):
        async with managed(spec, opening(spec)) as ready:
            assert ready.died() is None
            assert ready.target.url == f"http://127.0.0.1:{ports(tmp_path)[-1]}"
            assert "couldn't bind" not in ready.log.read_text()
            assert len(list(ready.pids())) == 1
    assert len(set(ports(tmp_path))) == 2
    assert "is taken by another program" in caplog.text
    assert "started once more" in caplog.text


async def test_a_port_that_is_taken_again_is_a_failure(tmp_path):
    spec = contender(tmp_path, taken=2)
    with pytest.raises(LaunchError, match="is taken by another program"):
        async with managed(spec, opening(spec)):
            pass
    assert len(ports(tmp_path)) == 2


@pytest.mark.parametrize(
    ("server", "gpu", "told", "expected"),
    [
        ("vllm", "none", None, 900),
        ("vllm", "unified", None, 300),
        ("vllm", "none", "40s", 40),
        ("xllamacpp", "none", None, 300),
        ("llama-server", "discrete", None, 300),
    ],
)
async def test_a_start_has_the_time_that_its_kind_of_server_takes(server, gpu, told, expected):
    spec = ManagedSpec(Path("m"), 1, 64, engine=SERVERS[server].engine, server=server)
    around = opening(spec, start_timeout=told)
    assert start_s(spec, Opening(around.plan, Box(gpu=gpu), around.patience, print)) == expected
