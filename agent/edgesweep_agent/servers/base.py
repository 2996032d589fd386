"""What a kind of server offers: how it is started, what it said, and what its settings are.

Nothing here touches the machine: a launcher runs the commands, and hands back what they wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.plan import ManagedSpec

LOOPBACK = "127.0.0.1"
START_S = 300.0
"""How long a start may take where nobody says more: a large model from a slow disk."""
Gpu = Literal["none", "discrete", "unified"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command line depends on besides the plan.

    Attributes:
        help_text: What the build says of itself; empty if it could not be asked.
        host: The address to listen on; loopback, unless a container's own network is meant.
        gpu: Whether the engine computes on a GPU, and whether that has memory of its own.
        total_bytes: The machine's memory.
        weights_bytes: Size of the model's files.
        kv_bytes_per_token: Of the model, with the KV dtype asked for.
    """

    help_text: str = ""
    host: str = LOOPBACK
    gpu: Gpu = "none"
    total_bytes: int | None = None
    weights_bytes: int | None = None
    kv_bytes_per_token: int | None = None


class ServerKind(Protocol):
    """A server that can be started.

    Attributes:
        name: What a plan calls it.
        engine: Which engine it is.
    """

    name: str
    engine: str

    def check(self, spec: ManagedSpec) -> None:
        """Refuse what this server cannot do.

        Raises:
            SettingsError: the key, and what to do.
        """

    def start_s(self, gpu: Gpu) -> float:
        """How long it may take to answer its first completion, where the plan does not say."""

    def plan(self, spec: ManagedSpec, port: int, around: Surroundings) -> Command:
        """The command that serves ``spec`` on a port.

        Raises:
            SettingsError: it cannot be had from this build, or in these surroundings.
        """

    def help_command(self, spec: ManagedSpec) -> Command:
        """Asks the build which settings it has; what it writes is the help text."""

    def version_command(self, spec: ManagedSpec) -> Command:
        """Asks the build for its version."""

    def devices_command(self, spec: ManagedSpec) -> Command | None:
        """Asks the build what it computes on, as llama.cpp lists it; ``None`` if it cannot say."""

    def read_version(self, text: str) -> str:
        """The version in what the version command wrote; empty if there is none."""

    def reported(self, log_text: str) -> Reported:
        """What the server said of its sizes."""
