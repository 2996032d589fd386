"""What an engine adapter knows: how its engine answers, and what makes requests to it fair.

Adapters are pure: they judge answers that somebody else fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of itself. ``None`` is "it does not say"."""

    engine: str
    version: str = ""
    build: str = ""
    models: tuple[str, ...] = ()
    weight_format: str = ""
    slots: int | None = None
    context_per_request: int | None = None
    running: int | None = None
    waiting: int | None = None
    evidence: tuple[str, ...] = ()


class Engine(Protocol):
    """One adapter.

    Attributes:
        name: The engine's word in every record.
        paths: What is fetched (GET, no generation) to recognise it.
    """

    name: str
    paths: tuple[str, ...]

    def recognise(self, answers: Answers) -> Facts | None:
        """What the answers say of the engine, or ``None`` if they are not this engine's."""

    def body_fields(self) -> Mapping[str, object]:
        """Request fields beyond OpenAI's that make a measurement fair on this engine."""
