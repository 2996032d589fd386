"""Space left where the agent keeps what it measured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .files import failed
from .readings import reading

if TYPE_CHECKING:
    from pathlib import Path

    from .base import Reading


class Disk:
    """``disk_free`` and ``disk_total`` of the file system that holds ``folder``."""

    name = "disk"
    fast = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> list[Reading]:
        """What an ordinary user may still fill."""
        try:
            told = os.statvfs(self._folder)
        except OSError as error:
            missing = failed(f"{self._folder}: {error.strerror}")
            return [reading(name, "bytes", missing) for name in ("disk_free", "disk_total")]
        return [
            reading("disk_free", "bytes", told.f_bavail * told.f_frsize),
            reading("disk_total", "bytes", told.f_blocks * told.f_frsize),
        ]
