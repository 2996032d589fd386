"""One sweep at a time on a device: two would measure each other."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARENT = "EDGESWEEP_PARENT_PID"
"""Tells a sweep which daemon started it: it ends with that one."""
_PR_SET_PDEATHSIG = 1


class Busy(ProgramError):  # noqa: N818 - it passes
    """Another sweep is running on this device."""


@contextmanager
def turn(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the device's turn, a lock on the file at ``path``, for as long as the context lasts.

    Raises:
        Busy: another sweep still holds it after ``wait_s`` seconds.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(handle, path, wait_s)
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= deadline:
            raise Busy(f"another sweep is running on this device ({path}); wait until it has ended")
        time.sleep(0.5)


def end_with(parent: int) -> None:
    """Be told to stop (SIGTERM) as soon as the process that started us is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
