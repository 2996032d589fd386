"""A helper program that writes a line a second, whose death nobody feels.

Started by exec, read without waiting, retried at most once a minute, logged at most once a
minute. It ends with us: its next line meets a closed pipe.
"""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from .files import Missing, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RETRY_S = 60.0
STALE_S = 5.0
"""Silence after which the last line is no longer now; a slow start is given ``START_S``."""
START_S = 15.0
_END_S = 0.2
_READ_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


class LineChild:
    """The newest line of a program.

    Args:
        name: What to call it in the log.
        command: The program and its arguments.
        clock: Monotonic seconds.
    """

    def __init__(self, name: str, command: Sequence[str], *, clock: Callable[[], float]) -> None:
        self._name = name
        self._command = list(command)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._line = ""
        self._heard_s = 0.0
        self._retry_s = float("-inf")
        self._why = failed(f"{name} has not said anything yet")

    def latest(self) -> str | Missing:
        """Its last whole line if that is fresh, else why there is none; never waits."""
        now = self._clock()
        if self._process is None and now >= self._retry_s:
            self._start(now)
        if self._process is not None:
            self._listen(self._process, now)
        return self._line or self._why

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        self._buffer, self._line = b"", ""
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # one that sits in a driver dies later
            process.wait(_END_S)
        if process.stdout is not None:
            process.stdout.close()

    def _start(self, now: float) -> None:
        self._retry_s = now + RETRY_S
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._give_up(f"{self._command[0]}: {error.strerror}")
            return
        self._heard_s = now + START_S - STALE_S
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def _listen(self, process: subprocess.Popen[bytes], now: float) -> None:
        if process.stdout is None:
            return
        ended = False
        with suppress(BlockingIOError):
            while part := os.read(process.stdout.fileno(), _READ_BYTES):
                self._buffer += part
            ended = True
        *lines, self._buffer = self._buffer.split(b"\n")
        if lines:
            self._line, self._heard_s = lines[-1].decode("utf-8", "replace"), now
        if ended:
            last = self._line
            self.close()
            self._give_up(f"it ended; its last words: {last[:200] or '(none)'}")
        elif now - self._heard_s > STALE_S:
            self.close()
            self._give_up(f"silent for {STALE_S:g} s")

    def _give_up(self, why: str) -> None:
        """Said here alone, so at most as often as it is started."""
        self._why = failed(f"{self._name}: {why}; tried again once a minute")
        _log.warning("%s: %s; going on without it", self._name, why)
