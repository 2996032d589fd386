"""What the collector serves over HTTP: health, metrics, and runs as read-only JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

import anyio.to_thread
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edgesweep.run_json import run_object
from edgesweep_collector.errors import ArchiveUnavailable

from .access import LET_IN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from edgesweep.records import Run
    from edgesweep_collector.archive.rows import ArchivedLevel, RunRow

Health = Callable[[], Mapping[str, "str | None"]]
"""What is wrong with each part by its name; ``None`` for a part that is well."""

_MOST_RUNS = 1000


class Runs(Protocol):
    """What the pages need of the archive; every call blocks."""

    def runs(self, device_id: str | None = None, limit: int = 100) -> Sequence[RunRow]:
        """The newest runs."""

    def run(self, run_id: str) -> Run | None:
        """The newest snapshot of a run."""

    def levels(self, run_id: str) -> Sequence[ArchivedLevel]:
        """Every level of a run."""


def application(archive: Runs, health: Health, registry: CollectorRegistry) -> Starlette:
    """The ASGI application.

    Args:
        archive: Where runs are read.
        health: Asked at each ``/healthz``; 503 as soon as one part is not well.
        registry: What ``/metrics`` prints.
    """
    pages = _Pages(archive, health, registry)
    return Starlette(
        routes=[
            Route("/healthz", pages.healthz),
            Route("/metrics", pages.metrics),
            Route("/v1/runs", pages.runs),
            Route("/v1/runs/{run_id}", pages.run),
        ],
        exception_handlers={ArchiveUnavailable: _unavailable},
    )


class _Pages:
    def __init__(self, archive: Runs, health: Health, registry: CollectorRegistry) -> None:
        self._archive = archive
        self._health = health
        self._registry = registry

    async def healthz(self, request: Request) -> JSONResponse:
        parts = self._health()
        well = all(problem is None for problem in parts.values())
        body: dict[str, object] = {"status": "ok" if well else "unwell"}
        # What is wrong names hosts and files: that is for those who were let in.
        if request.scope.get(LET_IN, True):
            body["parts"] = {name: problem or "ok" for name, problem in parts.items()}
        return JSONResponse(body, status_code=200 if well else 503)

    async def metrics(self, _request: Request) -> Response:
        # In a thread: some of it is read from the archive.
        text = await anyio.to_thread.run_sync(generate_latest, self._registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def runs(self, request: Request) -> JSONResponse:
        limit = request.query_params.get("limit", "100")
        if not re.fullmatch(r"[0-9]{1,9}", limit) or not 1 <= int(limit) <= _MOST_RUNS:
            return _refused(400, f"limit is a number from 1 to {_MOST_RUNS}")
        device_id = request.query_params.get("device")
        rows = await anyio.to_thread.run_sync(self._archive.runs, device_id, int(limit))
        return JSONResponse({"runs": [run_line(row) for row in rows]})

    async def run(self, request: Request) -> JSONResponse:
        run_id = request.path_params["run_id"]
        found = await anyio.to_thread.run_sync(self._archive.run, run_id)
        if found is None:
            return _refused(404, "no such run")
        levels = await anyio.to_thread.run_sync(self._archive.levels, run_id)
        return JSONResponse(run_object(found, [row.level for row in levels]))


def run_line(row: RunRow) -> dict[str, object]:
    """One line of a list of runs as a JSON object."""
    return {**asdict(row), "state": row.state.value}


def _refused(status: int, error: str) -> JSONResponse:
    return JSONResponse({"error": error}, status_code=status)


async def _unavailable(_request: Request, error: Exception) -> JSONResponse:
    return _refused(503, str(error))
