"""What a program may put a file in the place of: a regular file, or nothing that is there yet."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_KERNELS = ("/dev/", "/proc/", "/sys/")
_ORDINARY = "/dev/shm/"  # noqa: S108 - the name alone
"""A file system like any other."""
_KINDS = {
    stat.S_IFDIR: "is a folder; name a file in it",
    stat.S_IFIFO: "is a pipe; name a file, or - for standard output",
    stat.S_IFCHR: "is a device; name a file, or - for standard output",
    stat.S_IFBLK: "is a device; name a file, or - for standard output",
    stat.S_IFSOCK: "is a socket; name a file, or - for standard output",
}


def objection(steps: Sequence[str], mode: int | None) -> str | None:
    """Why nothing is to be renamed to where a name leads; ``None`` if it may be.

    A rename to ``/dev/stdout`` takes that name away from every other program, and one through
    ``/proc/self/fd`` takes the file away from the shell that opened it.

    Args:
        steps: Absolute paths, their folders without links: what was named, and where each link
            leads.
        mode: ``st_mode`` of what is at the last one; ``None`` if nothing is.
    """
    for step in steps:
        if step.startswith(_KERNELS) and not step.startswith(_ORDINARY):
            return "leads into /dev, /proc or /sys; name a file, or - for standard output"
    if mode is None or stat.S_ISREG(mode):
        return None
    return _KINDS.get(stat.S_IFMT(mode), "is no file; name another one")
