"""What can go wrong in the collector, and who acts on it.

    CollectorError
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


class CollectorError(Exception):
    """Anything the collector raises on purpose; the message is fit for the operator."""

    exit_code = 1


class UsageError(CollectorError):
    """An argument that cannot be right, such as a folder where a file is to be written."""

    exit_code = 2


class SettingsError(CollectorError):
    """The settings cannot be used as they are."""

    exit_code = 78


class ArchiveError(CollectorError):
    """The archive did not do what it was asked."""


class ArchiveUnusable(ArchiveError):  # noqa: N818 -- a state of the archive, named as one
    """The archive cannot be opened, or was written by a newer version."""


class ArchiveUnavailable(ArchiveError):  # noqa: N818 -- a state of the archive, named as one
    """A write failed and was rolled back: the disk is full, or the file is locked."""


class NotArchived(CollectorError):  # noqa: N818 -- a state of the archive, named as one
    """What was asked for is not in the archive."""


class ListenError(CollectorError):
    """An address cannot be bound."""
