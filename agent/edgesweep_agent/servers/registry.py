"""The servers that can be started, by the name a plan calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import xllamacpp

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.plan import ManagedSpec

COMMANDS: dict[str, Callable[[ManagedSpec, int], list[str]]] = {"xllamacpp": xllamacpp.command}
"""How to serve a managed contender on a port, by the server's name in a plan."""

VERSIONS: dict[str, Callable[[], str]] = {"xllamacpp": xllamacpp.server_version}
"""What a managed server's own package says its version is."""
