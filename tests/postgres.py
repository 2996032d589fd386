"""A real PostgreSQL for tests: a cluster in a folder of its own, and a database for each test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = "PostgreSQL is not installed: apt-get install postgresql"
PASSWORD = "CANARY-postgres"
_FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
BINARIES = _FOUND[-1] if _FOUND else Path(shutil.which("initdb") or "/absent/initdb").parent

needs_postgres = pytest.mark.skipif(not (BINARIES / "initdb").exists(), reason=MISSING)


class Postgres:
    """One cluster: it may be stopped, killed and started again on its data.

    By its Unix socket the user ``edgesweep`` needs no password, over TCP it does.

    Args:
        root: Its folder, short enough for the name of a socket, and the server user's own.
        durable: Whether commits are forced to the disk, as where they count.
    """

    def __init__(self, root: Path, *, durable: bool = False) -> None:
        self.root = root
        self.port = _free_port()
        self._data = root / "data"
        self._fsync = "on" if durable else "off"

    def create(self) -> None:
        """Make the cluster, with the user ``edgesweep`` as its owner."""
        password = self.root / "password"
        password.write_text(PASSWORD)
        _own(password)
        self._run(
            "initdb", "--username", "edgesweep", "--pwfile", str(password),
            "--auth-local", "trust", "--auth-host", "scram-sha-256",
            "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--pgdata", str(self._data),
        )  # fmt: skip

    def start(self) -> None:
        options = (
            f"-k {self.root} -h 127.0.0.1 -p {self.port} -c fsync={self._fsync} "
            "-c max_connections=200 -c shared_buffers=32MB"
        )
        self._control("start", "-w", "-l", str(self.root / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """End it: ``fast`` cuts connections, ``immediate`` ends as a power cut would."""
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "-w", "-m", mode)

    def new_database(self) -> str:
        """Make an empty database; its name."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f'CREATE DATABASE "{name}"')
        return name

    def url(self, database: str) -> str:
        """By the Unix socket."""
        return f"postgresql://edgesweep@/{database}?host={self.root}&port={self.port}"

    def tcp_url(self, database: str, port: int | None = None) -> str:
        """Over TCP, where a password is wanted; by way of another port, if one is given."""
        return f"postgresql://edgesweep@127.0.0.1:{port or self.port}/{database}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple]:
        import psycopg  # noqa: PLC0415 -- not before a test needs it

        with psycopg.connect(
            host=str(self.root), port=self.port, user="edgesweep", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", *arguments, "--pgdata", str(self._data))

    def _run(self, program: str, *arguments: str) -> None:
        # pg_ctl's server would hold a pipe open for ever.
        with (self.root / "output").open("w+") as output:
            done = subprocess.run(
                [*_AS, str(BINARIES / program), *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.root,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                timeout=60,
                check=False,
            )
            if done.returncode:
                output.seek(0)
                log = self.root / "log"
                raise RuntimeError(output.read() + (log.read_text() if log.exists() else ""))


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """A started cluster; nothing of it is left afterwards."""
    if not (BINARIES / "initdb").exists():
        pytest.skip(MISSING)
    # Not pytest's folder: that is the test's user's own, and too long for a socket.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        root = Path(folder)
        _own(root)
        server = Postgres(root, durable=durable)
        try:
            server.create()
            server.start()
            yield server
        finally:
            server.stop("immediate")


def _server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as when the tests run as root, which it refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


_USER = _server_user()
_AS = (
    ("setpriv", f"--reuid={_USER.pw_uid}", f"--regid={_USER.pw_gid}", "--clear-groups")
    if _USER
    else ()
)


def _own(path: Path) -> None:
    if _USER is not None:
        os.chown(path, _USER.pw_uid, _USER.pw_gid)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
