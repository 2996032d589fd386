"""The root of what either program raises on purpose, and what both of them raise."""

from __future__ import annotations


class ProgramError(Exception):
    """The message is one line for the operator; ``exit_code`` is what the command ends with."""

    exit_code = 1


class UsageError(ProgramError):
    """An argument that cannot be right, such as a folder where a file is to be written."""

    exit_code = 2


class SettingsError(ProgramError):
    """A configuration that cannot be read or used; systemd must not restart on it."""

    exit_code = 78
