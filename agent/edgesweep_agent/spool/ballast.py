"""A file that only takes room, so that there is some when the disk is full.

On a full disk SQLite cannot even delete: a commit is written before it is anything. The ballast
is given up for that, and made again when there is room (influxdata/influxdb#9923,
open-telemetry/opentelemetry-collector#8115).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BALLAST_BYTES = 1024 * 1024


class Ballast:
    """The file beside a spool. It is a help, never a trouble: nothing here raises."""

    def __init__(self, path: Path, disk_free: Callable[[], int]) -> None:
        self._path = path
        self._disk_free = disk_free

    @property
    def held(self) -> bool:
        """Whether there is something to give up."""
        return self._path.exists()

    def hold(self) -> None:
        """Make it, where that leaves as much again for others."""
        with suppress(OSError):
            if self.held or self._disk_free() < 2 * BALLAST_BYTES:
                return
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                # Real blocks, on file systems that would keep a hole for zeros as well.
                os.posix_fallocate(handle, 0, BALLAST_BYTES)
            except OSError:
                self._path.unlink()
            finally:
                os.close(handle)

    def give_up(self) -> bool:
        """Let go of its blocks; whether there were any."""
        with suppress(OSError):
            self._path.unlink()
            return True
        return False
