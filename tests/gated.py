"""An archive that commits when the test says so."""

from __future__ import annotations

import threading


class Gated:
    """The real archive behind a gate that the test opens."""

    def __init__(self, archive):
        self.archive = archive
        self.gate = threading.Event()
        self.gate.set()

    def append(self, batch):
        self.gate.wait(10)
        return self.archive.append(batch)
