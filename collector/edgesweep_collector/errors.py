"""What can go wrong in the collector, and who acts on it.

    ProgramError
      UsageError             the caller: an argument that cannot be right (exit 2)
      SettingsError          the operator: edit the file, then start again (exit 78)
      ArchiveError
        ArchiveUnusable      the operator: permissions, a backup, or a newer version (exit 1)
        ArchiveUnavailable   the senders: nothing of the batch was stored, they send it again
      NotArchived            the caller: name a run that the archive holds (exit 1)
      ListenError            the operator or the service manager: free the address (exit 1)

A damaged, forged or oversized envelope is none of these: it is answered, counted and logged.
"""

from __future__ import annotations

from edgesweep_common.errors import ProgramError, SettingsError, UsageError

__all__ = [
    "ArchiveError",
    "ArchiveUnavailable",
    "ArchiveUnusable",
    "ListenError",
    "NotArchived",
    "ProgramError",
    "SettingsError",
    "UsageError",
]


class ArchiveError(ProgramError):
    """The archive did not do what it was asked."""


class ArchiveUnusable(ArchiveError):  # noqa: N818 -- a state of the archive, named as one
    """The archive cannot be opened, or was written by a newer version."""


class ArchiveUnavailable(ArchiveError):  # noqa: N818 -- a state of the archive, named as one
    """A write failed and was rolled back: the disk is full, or the file is locked."""


class NotArchived(ProgramError):  # noqa: N818 -- a state of the archive, named as one
    """What was asked for is not in the archive."""


class ListenError(ProgramError):
    """An address cannot be bound."""
