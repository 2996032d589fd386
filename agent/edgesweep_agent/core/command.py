"""The command line of a server, as far as it can be said without touching the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and what of it describes the contender.

    Attributes:
        program: The executable and what belongs to it (``python -m module``); empty in a
            container whose image knows what it runs.
        arguments: What follows it.
        environment: Variables on top of the agent's own.
        dropped: Settings that the build does not know, and that were left out.
        settings: What goes into the contender's identity, by name, sorted.
    """

    program: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return self.program + self.arguments
