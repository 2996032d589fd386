"""How each database is opened: what makes its commits durable and its writers take turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from edgesweep_collector.errors import ArchiveUnusable, SettingsError
from edgesweep_collector.settings import secret

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
    "PRAGMA journal_size_limit=67108864",
)

# A server that is gone without a word is noticed in 15 s, and a collector that was stopped in
# mid-transaction does not keep the others from writing.
_LINK = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_ON_POSTGRESQL = (
    "SET lock_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # What is acknowledged is on the disk, whatever the server's default; stricter ones stay.
    """SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') = 'off'""",
)

# One writer at a time. Row ids then ascend in the order of commits, so that a projection which
# has read up to row n never finds a smaller one later.
_BEGIN_WRITING = {
    "sqlite": "BEGIN IMMEDIATE",
    # Any number will do, as long as every collector takes the same one.
    "postgresql": "SELECT pg_advisory_xact_lock(3837465012)",
}


def open_engine(url: str, *, create: bool, password_file: str | None = None) -> Engine:
    """An engine for ``sqlite:///path`` or ``postgresql://user@host/database``.

    Args:
        url: In SQLAlchemy's form; the parents of an SQLite file are created with it. The driver
            is psycopg whatever it says.
        create: Whether a file that does not exist may be created.
        password_file: Where PostgreSQL's password is; without it libpq looks in PGPASSFILE.

    Raises:
        SettingsError: the URL is malformed, names a database that is not supported, or holds a
            password; or the file cannot be read.
        ArchiveUnusable: there is no such file, or its folder cannot be created.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, create=create, password_file=password_file)
    return _postgresql(parsed, password_file)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        # The URL is not repeated: it may hold a password.
        raise SettingsError("archive.url: not a database URL such as sqlite:///path") from error
    if parsed.get_backend_name() not in TYPES:
        raise SettingsError(f"archive.url: only {' and '.join(TYPES)} are supported")
    return parsed


def _sqlite(url: URL, *, create: bool, password_file: str | None) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SettingsError("archive.url: an archive in memory keeps nothing; name a file")
    if password_file is not None:
        raise SettingsError("archive.password_file: an SQLite file has no password; leave it out")
    _prepare_file(url, create=create)
    engine = _engine(url)
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _postgresql(url: URL, password_file: str | None) -> Engine:
    if url.password is not None or "password" in url.query:
        raise SettingsError("archive.url: it holds a password; name archive.password_file instead")
    if password_file is not None:
        url = url.set(password=secret(password_file, "archive.password_file"))
    link = {name: value for name, value in _LINK.items() if name not in url.query}
    # A ping costs a round trip at each transaction (0.1 ms on one machine), and saves the first
    # one after a restart of the server, which would else find a connection that is dead.
    engine = _engine(
        url.set(drivername="postgresql+psycopg"), connect_args=link, pool_pre_ping=True
    )
    event.listen(engine, "connect", _on_postgresql_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _engine(url: URL, **options: Any) -> Engine:
    try:
        # What is bound is a device's business, and not for a log.
        return create_engine(url, hide_parameters=True, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise SettingsError(f"archive.url: the database driver is not installed: {error}") from (
            error
        )


def reading(engine: Engine) -> Engine:
    """The engine for transactions that read: each sees the archive as it was at its beginning."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def check_encoding(connection: Connection) -> None:
    """See to it that the database takes any text.

    Raises:
        ArchiveUnusable: it does not.
    """
    if connection.dialect.name == "postgresql":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            raise ArchiveUnusable(
                f"the database is encoded as {encoding}: createdb --encoding UTF8 --template "
                "template0"
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
    if cursor.execute("PRAGMA page_count").fetchone() == (0,):
        # Only a file that is made now can be told to give back to the disk what retention removes;
        # in others that space is used again. It is a write, which would wait for other writers.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _on_postgresql_connect(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for statement in _ON_POSTGRESQL:
            cursor.execute(statement)
    connection.commit()


def _on_begin(connection: Connection) -> None:
    name = connection.dialect.name
    if connection.get_execution_options().get(WRITES):
        connection.exec_driver_sql(_BEGIN_WRITING[name])
    elif name == "sqlite":
        connection.exec_driver_sql("BEGIN")
