"""Results to the daemon's spool: what was handed over there survives anything but the disk."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from edgesweep import codec
from edgesweep.records import RunState
from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgesweep.records import LevelResult, Record, Run, Sample

    from .recorder import Progress

_log = logging.getLogger(__name__)

TRY_FOR_S = 120.0
"""How long the end of a run waits for a daemon that is away, such as one being upgraded."""
INTERRUPTED_TRY_FOR_S = 10.0
"""The same for a run that was told to stop: whoever told it waits, and its daemon may be gone."""


@dataclass(slots=True)
class Submitter:
    """Hands every run snapshot and level over, in their order.

    Without a daemon at its start a run does not begin. One that goes away later is asked again
    at each level, and waited for at the end: measuring is never held up.

    Attributes:
        problem: What was not taken, for people; or "".
    """

    socket: Path
    problem: str = ""
    _waiting: deque[Record] = field(default_factory=deque)
    _said: bool = False

    async def on_run(self, run: Run) -> None:
        """Hand the snapshot over.

        Raises:
            DaemonError: the run is about to begin, and no daemon takes its results.
        """
        self._waiting.append(run)
        if run.state is RunState.RUNNING:
            await self._hand_over()
            return
        patience_s = INTERRUPTED_TRY_FOR_S if run.state is RunState.INTERRUPTED else TRY_FOR_S
        deadline = anyio.current_time() + patience_s
        while not await self._try() and anyio.current_time() < deadline:
            await anyio.sleep(1.0)

    async def on_level(self, level: LevelResult, _samples: Sequence[Sample]) -> None:
        """Hand the level over; its samples stay on the device."""
        self._waiting.append(level)
        await self._try()

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to hand over."""

    async def _try(self) -> bool:
        try:
            await self._hand_over()
        except DaemonError as error:
            self.problem = f"{len(self._waiting)} records are not in the spool: {error}"
            if not self._said:
                _log.warning("%s; the sweep goes on and asks again", error)
            self._said = True
            return False
        self.problem, self._said = "", False
        return True

    async def _hand_over(self) -> None:
        while self._waiting:
            kind, payload = codec.encode(self._waiting[0])
            await control.put(self.socket, kind.value, payload)
            self._waiting.popleft()
