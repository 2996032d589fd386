"""Whether the build that a contender runs computes on the GPU that the box has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgesweep_agent.core.devices import computes_on_gpu
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.launchers.registry import LAUNCHERS
from edgesweep_agent.servers.registry import SERVERS

if TYPE_CHECKING:
    from edgesweep_agent.plan import ManagedSpec

    from .box import Box


async def box_of(spec: ManagedSpec, box: Box) -> Box:
    """The box as this contender's build can use it: without its GPU where it knows of none.

    PyPI's ``xllamacpp`` computes on the CPU alone: judged by the memory of a GPU, it would be
    let in where the host has no room for it.
    """
    if box.gpu == "none" or spec.launcher not in LAUNCHERS or spec.server not in SERVERS:
        return box
    try:
        place = LAUNCHERS[spec.launcher].place(spec)
    except SettingsError:
        # Its start says so, and for which contender.
        return box
    command = SERVERS[spec.server].devices_command(place.spec)
    if command is None or computes_on_gpu(await place.ask(command)) is not False:
        return box
    return replace(box, gpu="none")
