"""Opens a contender, whichever kind it is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from edgesweep_agent.plan import AttachedSpec

from .attached import attached
from .managed import managed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep_agent.plan import ContenderSpec

    from .contender import Opening, Ready


@asynccontextmanager
async def open_contender(spec: ContenderSpec, opening: Opening) -> AsyncIterator[Ready]:
    """Attach to a contender, or start it; a managed one is gone when the context is left.

    Raises:
        EngineError: it cannot be measured.
        UsageError: it has no such model.
        LaunchError: it did not start, or is not what was asked for.
        SettingsError: its plan names what does not exist.
    """
    if isinstance(spec, AttachedSpec):
        yield await attached(spec, opening)
        return
    async with managed(spec, opening) as ready:
        yield ready
