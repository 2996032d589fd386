"""Whether the engine is still the one that was opened: between levels too it may be another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent import attach
from edgesweep_agent.core.processes import parse_stat
from edgesweep_agent.errors import ProgramError, UsageError
from edgesweep_agent.sensors.files import Files

from .attached import alike

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgesweep_agent.core.processes import Identity

    from .box import Box
    from .contender import Ready


def processes_of(box: Box, pids: Iterable[int] | None) -> frozenset[Identity] | None:
    """The processes behind some numbers, for good; ``None`` where the numbers are not known."""
    if pids is None:
        return None
    files = Files(box.root)
    found = (parse_stat(files.text(f"proc/{pid}/stat")) for pid in pids)
    return frozenset(stat.identity for stat in found if stat is not None)


async def what_changed(ready: Ready, box: Box) -> str:
    """How the engine is known to be another than the one that was opened; "" if it is not.

    A supervisor starts a server anew, and a gateway loads another model, without a word.
    """
    if ready.born and processes_of(box, ready.pids()) != ready.born:
        return "its processes are others than those that were attached to"
    if ready.contender.managed:
        return ""
    for target in ready.targets:
        try:
            seen = await attach.look(target.url, model=target.model, api_key=target.api_key)
        except UsageError:
            return f"it does not have {target.model} any more"
        except ProgramError:
            # It does not answer just now: its level will say so.
            continue
        if alike(seen.facts) != alike(target.facts):
            return "it says other things of itself than when it was attached to"
    return ""
