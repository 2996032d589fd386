"""Managed llama.cpp from PyPI's ``xllamacpp``: its server, prebuilt, in its own process."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from edgesweep_agent.errors import LaunchError

if TYPE_CHECKING:
    from edgesweep_agent.plan import ManagedSpec


def command(spec: ManagedSpec, port: int) -> list[str]:
    """The command line that serves ``spec`` on a loopback port."""
    argv = [sys.executable, "-m", "edgesweep_agent.servers.xllamacpp_serve"]
    argv += ["--model", str(spec.model), "--port", str(port)]
    argv += ["--slots", str(spec.slots), "--context-per-request", str(spec.context_per_request)]
    if spec.threads is not None:
        argv += ["--threads", str(spec.threads)]
    return argv


def server_version() -> str:
    """The package's version: its llama.cpp is built without one of its own (``b0-unknown``).

    Raises:
        LaunchError: the package is not installed.
    """
    try:
        return f"xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError as error:
        raise LaunchError("xllamacpp is not installed: pip install xllamacpp") from error
