"""A real mosquitto on a free port of this machine, for the tests that need a broker."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

BINARY = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
needs_mosquitto = pytest.mark.skipif(
    not os.access(BINARY, os.X_OK), reason="mosquitto is not installed: apt-get install mosquitto"
)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Mosquitto:
    """One broker; it may be stopped, killed and started again on its port.

    Args:
        folder: For its configuration and log.
        extra: Further lines of mosquitto.conf; anonymous access unless they say otherwise.
    """

    def __init__(self, folder: Path, extra: str = "allow_anonymous true", port: int | None = None):
        self.host, self.port = "127.0.0.1", port or free_port()
        self.log = folder / "mosquitto.log"
        self._config = folder / "mosquitto.conf"
        # Started by root, it would drop to a user that may not read the test's files.
        lines = (f"listener {self.port} 127.0.0.1", f"user {getpass.getuser()}", extra)
        self._config.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen | None = None

    def start(self):
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [BINARY, "-c", str(self._config), "-v"], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 5
        while True:
            try:
                socket.create_connection((self.host, self.port), 1).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(f"mosquitto: {self.log.read_text()}") from None
                time.sleep(0.02)
            else:
                return

    def kill(self):
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(5)
            self._process = None

    def stop(self):
        """End it in good order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(5)
            self._process = None


@contextmanager
def running_mosquitto(folder: Path, extra: str = "allow_anonymous true"):
    broker = Mosquitto(folder, extra)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
