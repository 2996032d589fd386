"""What can go wrong with the set-up, by who has to act.

ProgramError
  + UsageError        the caller: an argument that cannot be right            exit 2
  + SettingsError     the operator: a configuration that cannot be used       exit 78
  + EngineError       the operator of the engine: it is not there, not ready, or not one
  + LaunchError       the operator: a managed engine did not start
  + SpoolError        the operator: another daemon holds the spool
  + DaemonError       the operator: no daemon answers on the control socket

A request that fails is none of these: it is a sample with a reason. Every message says what
was wrong and what to do about it.
"""

from __future__ import annotations

from edgesweep_common.errors import ProgramError, SettingsError, UsageError

__all__ = [
    "DaemonError",
    "EngineError",
    "LaunchError",
    "ProgramError",
    "SettingsError",
    "SpoolError",
    "UsageError",
]


class EngineError(ProgramError):
    """The engine cannot be measured: unreachable, still loading, or no such API."""


class LaunchError(ProgramError):
    """A managed engine did not start; its levels have failed for ``reason``."""

    def __init__(self, message: str, *, reason: str = "not_ready") -> None:
        super().__init__(message)
        self.reason = reason


class SpoolError(ProgramError):
    """The spool cannot be used by this process."""


class DaemonError(ProgramError):
    """The daemon's control socket does not answer, or refuses."""
