"""What can go wrong with the set-up, by who has to act.

AgentError
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


class AgentError(Exception):
    """The root of the tree; ``exit_code`` is what the command ends with."""

    exit_code = 1


class UsageError(AgentError):
    """An argument that cannot be right, such as a model that the server does not have."""

    exit_code = 2


class SettingsError(AgentError):
    """A configuration file that cannot be read or used; systemd must not restart on it."""

    exit_code = 78


class EngineError(AgentError):
    """The engine cannot be measured: unreachable, still loading, or no such API."""


class LaunchError(AgentError):
    """A managed engine did not start; its levels have failed for ``reason``."""

    def __init__(self, message: str, *, reason: str = "not_ready") -> None:
        super().__init__(message)
        self.reason = reason


class SpoolError(AgentError):
    """The spool cannot be used by this process."""


class DaemonError(AgentError):
    """The daemon's control socket does not answer, or refuses."""
