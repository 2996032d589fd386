"""Results to the daemon's spool: what was handed over there survives anything but the disk."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from edgesweep import codec
from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgesweep.records import LevelResult, Record, Run, Sample

    from .recorder import Progress

_log = logging.getLogger(__name__)

TRY_FOR_S = 120.0
"""A daemon that is being upgraded is back by then; a level took longer than that to measure."""


@dataclass(slots=True)
class Submitter:
    """Hands every run snapshot and level over, and waits until the daemon has committed it."""

    socket: Path

    async def on_run(self, run: Run) -> None:
        """Hand the snapshot over."""
        await self._put(run)

    async def on_level(self, level: LevelResult, _samples: Sequence[Sample]) -> None:
        """Hand the level over; its samples stay on the device."""
        await self._put(level)

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to hand over."""

    async def _put(self, record: Record) -> None:
        kind, payload = codec.encode(record)
        deadline = anyio.current_time() + TRY_FOR_S
        while True:
            try:
                await control.put(self.socket, kind.value, payload)
            except DaemonError as error:
                if anyio.current_time() >= deadline:
                    raise
                _log.warning("the daemon does not take results: %s", error)
                await anyio.sleep(1.0)
            else:
                return
