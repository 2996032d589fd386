"""Leases: of several collectors on one archive, which one does what only one should do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .statements import single

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TAKE = """INSERT INTO leases (name, holder, until_ns) VALUES ({}, {}, {})
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ns = excluded.until_ns
    WHERE leases.holder = excluded.holder OR leases.until_ns <= {}
    RETURNING holder"""


def lease(connection: Connection, name: str, holder: str, now_ns: int, ttl_ns: int) -> bool:
    """Take a lease, or prolong it; whether ``holder`` has it now."""
    return bool(single(connection, _TAKE, name, holder, now_ns + ttl_ns, now_ns))
