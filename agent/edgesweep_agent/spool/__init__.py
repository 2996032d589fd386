"""The durable outbox of a device: one SQLite file, and what keeps it whole."""

from __future__ import annotations

from .copies import SpoolCopy
from .listing import Listed
from .spool import Spool
from .status import SpoolStatus
from .store import Refused

__all__ = ["Listed", "Refused", "Spool", "SpoolCopy", "SpoolStatus"]
