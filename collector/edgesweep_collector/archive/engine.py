"""How each database is opened: what makes its commits durable and its writers take turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from edgesweep_collector.errors import ArchiveUnusable, SettingsError

from .migrations import TYPES

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

WRITES = "edgesweep_writes"
"""The execution option of a connection that is about to write."""

# FULL: a commit that was acknowledged survives a power cut, at 3 ms each. WAL: readers (the
# CLI, HTTP, projections) never wait for the writer.
_PRAGMAS = (
    "PRAGMA busy_timeout=5000",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
)

# One writer at a time. Row ids then ascend in the order of commits, so that a projection which
# has read up to row n never finds a smaller one later.
_BEGIN_WRITING = {
    "sqlite": "BEGIN IMMEDIATE",
    # Any number will do, as long as every collector takes the same one.
    "postgresql": "SELECT pg_advisory_xact_lock(3837465012)",
}


def open_engine(url: str, *, create: bool) -> Engine:
    """An engine for ``sqlite:///path`` or ``postgresql+psycopg://...``.

    Args:
        url: In SQLAlchemy's form; the parents of an SQLite file are created with it.
        create: Whether a file that does not exist may be created.

    Raises:
        SettingsError: the URL is malformed, or names a database that is not supported.
        ArchiveUnusable: there is no such file, or its folder cannot be created.
    """
    parsed = _parse(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        _prepare_file(parsed, create=create)
    engine = _engine(parsed)
    if backend == "sqlite":
        event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        # The URL is not repeated: it may hold a password.
        raise SettingsError("archive.url: not a database URL such as sqlite:///path") from error
    if parsed.get_backend_name() not in TYPES:
        raise SettingsError(f"archive.url: only {' and '.join(TYPES)} are supported")
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise SettingsError("archive.url: an archive in memory keeps nothing; name a file")
    return parsed


def _engine(url: URL) -> Engine:
    try:
        return create_engine(url)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise SettingsError(f"archive.url: the database driver is not installed: {error}") from (
            error
        )


def _prepare_file(url: URL, *, create: bool) -> None:
    path = Path(url.database or "")
    if not create and not path.exists():
        raise ArchiveUnusable(f"there is no archive at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArchiveUnusable(f"cannot create the folder of {path}: {error}") from error


def _on_sqlite_connect(connection: Any, _record: object) -> None:
    # The driver would open transactions by its own rules, and only before some statements.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _on_begin(connection: Connection) -> None:
    name = connection.dialect.name
    if connection.get_execution_options().get(WRITES):
        connection.exec_driver_sql(_BEGIN_WRITING[name])
    elif name == "sqlite":
        connection.exec_driver_sql("BEGIN")
