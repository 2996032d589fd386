"""The lock on a spool, and in its file a mark of how far the numbers have gone.

The mark outlives the spool: when the database is damaged or gone, it still says of which epoch
records may be missing, and which numbers they can have had at most.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.errors import SettingsError, SpoolError

if TYPE_CHECKING:
    from pathlib import Path

_MARK_BYTES = 96
PASSING = frozenset(
    {errno.EROFS, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENXIO, errno.ENODEV, errno.EMFILE}
)
"""A disk that does not work now; anything else is a place that can never be one."""


class UnavailableError(SpoolError):
    """The place does not work now, and may later."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the numbers of an epoch have gone.

    Attributes:
        low: Nothing below it waits or is to be told.
        next: The next number when the mark was written: the file has to be as far.
        bound: None from here on was given out.
    """

    epoch: int
    low: int
    next: int
    bound: int


class Lock:
    """Held as long as the spool is open.

    Raises:
        SpoolError: another process has it.
        UnavailableError: the disk does not work.
        SettingsError: it cannot be made there.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise cannot(path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            raise SpoolError(
                f"{path}: another agent has this spool open; stop it, or give this one a spool "
                "of its own"
            ) from error

    def mark(self) -> Mark | None:
        """The mark that was written last; ``None`` if none can be read."""
        with suppress(OSError, ValueError):
            epoch, *numbers = os.pread(self._handle, _MARK_BYTES, 0).split()
            low, following, bound = map(int, numbers)
            return Mark(int(epoch, 16), low, following, bound)
        return None

    def write(self, mark: Mark, *, sync: bool) -> None:
        """Write a mark; on a disk that takes nothing the old one stays."""
        text = f"{mark.epoch:016x} {mark.low} {mark.next} {mark.bound}"
        with suppress(OSError):
            os.pwrite(self._handle, text.ljust(_MARK_BYTES - 1).encode() + b"\n", 0)
            if sync:
                os.fdatasync(self._handle)

    def release(self) -> None:
        """Let go of it."""
        os.close(self._handle)


def cannot(path: Path, error: OSError) -> SpoolError | SettingsError:
    """What an error with the spool's place is: one that passes, or one of the configuration."""
    text = f"spool.path {path}: {error.strerror}"
    return UnavailableError(text) if error.errno in PASSING else SettingsError(text)
