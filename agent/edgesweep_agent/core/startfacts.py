"""A start that failed: how it ended, what was asked, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
_SIGNALS |= {2: "SIGINT", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS"}
_SIGNAL_EXIT = 128
"""A shell, and a container, tell a signal N as exit code 128 + N."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a server ended.

    Attributes:
        code: Its exit code, unless a signal ended it.
        signal: The signal that ended it.
        oom_kills: Processes that the kernel killed for memory on this machine since the server
            was started (``/proc/vmstat``); ``None`` if it does not say.
    """

    code: int | None = None
    signal: int | None = None
    oom_kills: int | None = None

    @property
    def text(self) -> str:
        """How it ended, in words."""
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal_name}"

    @property
    def signal_name(self) -> str:
        """``SIGKILL`` for 9."""
        return _SIGNALS.get(self.signal or 0, str(self.signal))


def ended(code: int, *, oom_kills: int | None = None) -> Exit:
    """An exit from a return code: negative is a signal, and so is 128 + N."""
    if code < 0:
        return Exit(signal=-code, oom_kills=oom_kills)
    if code - _SIGNAL_EXIT in _SIGNALS:
        return Exit(signal=code - _SIGNAL_EXIT, oom_kills=oom_kills)
    return Exit(code=code, oom_kills=oom_kills)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of the server, as far as its failure may depend on it.

    Attributes:
        server: ``xllamacpp``, ``llama-server``, ``vllm``: what to install or rebuild.
        available_bytes: Memory that was there for it, where known.
    """

    server: str
    model: str
    port: int | None = None
    slots: int | None = None
    context_per_request: int | None = None
    available_bytes: int | None = None

    @property
    def tokens(self) -> int | None:
        """What the KV cache has to hold."""
        if self.slots is None or self.context_per_request is None:
            return None
        return self.slots * self.context_per_request


OF_MEMORY = frozenset({"gpu_memory", "ram", "kv_too_large"})
"""Kinds of failures for want of memory."""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why it did not start, or why it ended later.

    Attributes:
        kind: ``model_missing``, ``not_a_model``, ``port_taken``, ``kv_too_large``,
            ``gpu_memory``, ``ram``, ``memory_moved``, ``bad_argument``, ``missing_library``,
            ``illegal_instruction``, ``killed``, ``crashed``, ``exited_at_once``, ``hang``,
            ``container`` or ``unknown``.
        text: What happened, in one line.
        next_step: What to do.
        figures: The numbers in it, named with their units.
    """

    kind: str
    text: str
    next_step: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.text}: {self.next_step}"
