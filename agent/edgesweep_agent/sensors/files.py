"""The one place where a file of a box is read: a text, or why there is none; never an error.

``open(path).read()`` will not do. Thermal zones of a Tegra answer EAGAIN while their part is
switched off, which CPython's buffered readers turn into a TypeError, an empty text or ``None``;
``os.read`` alone raises it as what it is (giampaolo/psutil#2477).
"""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .base import State

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_BYTES = 256 * 1024
SLOW_S = 0.2
"""A sysfs read takes microseconds; one that takes this long is a bus that hangs."""
STRIKES = 2
ASIDE_S = 60.0
"""How long a path is left alone after two slow or failing reads."""

_SWITCHED_OFF = frozenset({errno.EAGAIN, errno.ENODATA})
_NOT_THERE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ESRCH}
)
"""No such file, device or operation; ESRCH is a process that has just ended."""
_DENIED = frozenset({errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no value; ``state`` is ``ABSENT`` or ``FAILED``."""

    state: State
    reason: str


def absent(reason: str) -> Missing:
    """This box has no such thing, or has it switched off."""
    return Missing(State.ABSENT, reason)


def failed(reason: str) -> Missing:
    """There is one, and reading it did not work."""
    return Missing(State.FAILED, reason)


def fetch(path: Path, limit: int) -> bytes:
    """The first ``limit`` bytes of a file; does not wait on a FIFO or a device.

    Raises:
        OSError: it cannot be read, or not now.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        data = b""
        while len(data) < limit and (part := os.read(handle, limit - len(data))):
            data += part
        return data
    finally:
        os.close(handle)


class Files:
    """The files of one box under a root; paths are as on the box, without the leading slash.

    Args:
        root: ``/``, or a copy of another box's files.
        fetch: Reads one file; tests make it fail as a kernel would.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        fetch: Callable[[Path, int], bytes] = fetch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self._fetch = fetch
        self._clock = clock
        self._strikes: dict[str, int] = {}
        self._aside: dict[str, tuple[float, str]] = {}

    def read(self, path: str, *, limit: int = LIMIT_BYTES) -> str | Missing:
        """The text, without white space and NUL bytes around it."""
        began = self._clock()
        until, why = self._aside.get(path, (began, ""))
        if began < until:
            return failed(f"/{path}: left alone for a minute after two bad reads: {why}")
        try:
            data = self._fetch(self.root / path, limit)
        except OSError as error:
            found: str | Missing = _missing(path, error)
            bad = error.errno not in _SWITCHED_OFF | _NOT_THERE | _DENIED
        else:
            found, bad = data.decode("utf-8", "replace").strip("\0 \t\n"), False
        took = self._clock() - began
        if took > SLOW_S:
            self._strike(path, f"took {took:.1f} s")
        elif bad and isinstance(found, Missing):
            self._strike(path, found.reason)
        else:
            self._strikes.pop(path, None)
        return found

    def text(self, path: str) -> str:
        """The text, or "" where the reason does not matter."""
        found = self.read(path)
        return found if isinstance(found, str) else ""

    def number(self, path: str) -> int | Missing:
        """A whole number, also a negative one."""
        found = self.read(path)
        if isinstance(found, Missing):
            return found
        try:
            return int(found)
        except ValueError:
            return failed(f"/{path}: {found[:40]!r} is no number" if found else f"/{path}: empty")

    def integer(self, path: str) -> int | None:
        """A whole number, or ``None`` where the reason does not matter."""
        found = self.number(path)
        return found if isinstance(found, int) else None

    def names(self, folder: str, pattern: str = "") -> list[str]:
        """Paths of a folder's entries that match whole, ``zone2`` before ``zone10``."""
        try:
            found = [entry.name for entry in (self.root / folder).iterdir()]
        except OSError:
            return []
        kept = [name for name in found if not pattern or re.fullmatch(pattern, name)]
        return [f"{folder}/{name}" for name in sorted(kept, key=_natural)]

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return (self.root / path).exists()
        except OSError:
            return False

    def target(self, path: str) -> str:
        """The last name of where a link leads: a PCI address, a driver."""
        return Path(os.path.realpath(self.root / path)).name

    def _strike(self, path: str, why: str) -> None:
        self._strikes[path] = self._strikes.get(path, 0) + 1
        if self._strikes[path] >= STRIKES:
            self._strikes[path] = 0
            self._aside[path] = (self._clock() + ASIDE_S, why)


def _missing(path: str, error: OSError) -> Missing:
    code = errno.errorcode.get(error.errno or 0, "unknown error")
    if error.errno in _SWITCHED_OFF:
        return absent(f"/{path}: switched off just now ({code})")
    if error.errno in _NOT_THERE:
        return absent(f"/{path}: not on this box ({code})")
    if error.errno in _DENIED:
        return failed(f"/{path}: only root may read it ({code})")
    return failed(f"/{path}: {os.strerror(error.errno or 0)} ({code})")


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
