"""Files that are written for somebody: whole or not at all, and in the place of nothing else."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from .errors import UsageError
from .outputs import objection

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_OUTPUT = Path("-")
"""What a user writes for it in place of a file's name."""
_MOST_LINKS = 40
"""As many as Linux follows."""


def place(option: str, path: Path, *, make_folder: bool = False) -> Path:
    """The regular file that a name leads to, or that is to be made there: no link, no device.

    Raises:
        UsageError: it is something else, or nothing can be written beside it; ``option`` says
            where the name came from.
    """
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        steps = _steps(path)
        at = Path(steps[-1])
        problem = objection(steps, _mode(at))
        if problem is None and not at.parent.exists():
            problem = f"there is no folder {at.parent}; make it, or name another one"
        elif problem is None and not os.access(at.parent, os.W_OK | os.X_OK):
            problem = f"nothing can be written into {at.parent}; name another folder"
    except OSError as error:
        problem = f"{error.strerror}; name another file"
    if problem is not None:
        raise UsageError(f"{option} {path}: {problem}")
    return at


@contextmanager
def replacing(target: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``target`` at the end, and is gone if anything is raised.

    It is on the disk before it is in its place, and has the permissions of the one that it
    replaces. Its name is its own: what lies beside ``target`` belongs to others.

    Args:
        target: As ``place`` gave it.
        mode: Permissions where nothing is replaced, less the user's mask.

    Raises:
        OSError: it cannot be written; ``target``, which it names, is as it was.
    """
    with beside(target, mode) as (file, name):
        _as_before(file.fileno(), target)
        yield file
        file.flush()
        os.fsync(file.fileno())
        name.replace(target)


@contextmanager
def beside(target: Path, mode: int) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file in the same folder, under a name of its own, which is gone at the end."""
    name = target.with_name(f".edgesweep-{secrets.token_hex(6)}.tmp")
    try:
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(made, "wb") as file:
            yield file, name
    except OSError as error:
        # A write names no file, and the name of our own means nothing to anybody.
        if error.filename in {None, str(name)}:
            error.filename = str(target)
        raise
    finally:
        name.unlink(missing_ok=True)


@contextmanager
def sink(target: Path) -> Iterator[BinaryIO]:
    """Standard output for ``-``, else what ``replacing`` gives.

    Raises:
        OSError: it cannot be written.
    """
    if target != STANDARD_OUTPUT:
        with replacing(target) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def drop(stream: IO[str]) -> None:
    """Let what is still in a stream's buffer go nowhere: its reader is gone, or its disk full.

    Else it would fail once more when the program ends.
    """
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _steps(path: Path) -> list[str]:
    """The name itself and where each link leads, folders resolved."""
    found: list[str] = []
    at = path
    while len(found) <= _MOST_LINKS:
        try:
            at = at.parent.resolve() / at.name
        except RuntimeError as error:  # how Python before 3.13 tells of folders in a circle
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        found.append(str(at))
        if not at.is_symlink():
            return found
        at = at.parent / at.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None


def _as_before(handle: int, target: Path) -> None:
    with suppress(FileNotFoundError):
        was = target.stat()
        # Only root may give a file away.
        with suppress(PermissionError):
            os.fchown(handle, was.st_uid, was.st_gid)
        os.fchmod(handle, stat.S_IMODE(was.st_mode))
