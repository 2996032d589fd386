"""How a spool file is opened: checked, set aside if it is damaged, brought up to date.

Whatever is wrong with the file, a store comes of it, unless the disk itself does not work. Where
it cannot be ruled out that numbers were given out of which the file knows nothing, a new epoch
begins: a number that is used twice would be taken for a duplicate, and its record lost.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.errors import SpoolError

from . import migration, salvage
from .adopting import adopt
from .database import DamagedError, Database
from .facts import Facts
from .image import Image, log_of
from .lock import Mark, UnavailableError
from .schema import Layout, create, layout_of
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from edgesweep_agent.core.room import Limits
    from edgesweep_agent.core.spooled import Frozen

_log = logging.getLogger(__name__)

_PROBE_BYTES = 64 * 1024
_PASSING = ("locked", "full", "out of memory")
"""In SQLite's words for what is not the fault of a file."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a file is opened.

    Attributes:
        disk_free: Bytes that are left for us on its file system; ``None`` if that is unknown.
        new_epoch: Gives a random 63-bit number.
    """

    limits: Limits
    disk_free: Callable[[], int | None]
    new_epoch: Callable[[], int]

    def unlike(self, known: Collection[int]) -> int:
        """An epoch that is none of those known."""
        epoch = self.new_epoch()
        while epoch in known:
            epoch = (epoch + 1) % 2**63
        return epoch


def opened(path: Path, conditions: Conditions, mark: Mark | None) -> tuple[Store, Path | None]:
    """The store in a file, and where a damaged one was set aside, if there was one.

    Raises:
        UnavailableError: the disk does not work, or somebody else holds the file.
    """
    aside = None
    undone = _undone(path)
    try:
        store = _existing(path, conditions)
    except SpoolError as error:
        if not (isinstance(error, DamagedError) or _is_the_file(path, error)):
            raise _unavailable(path, error) from error
        aside, store = _set_aside(path), None
    except OSError as error:
        raise UnavailableError(f"spool.path {path}: {error.strerror}") from error
    except Exception:  # noqa: BLE001 - whatever a file does to its readers, the agent starts
        _log.exception("the spool cannot be read")
        aside, store = _set_aside(path), None
    try:
        if store is None:
            store = created(conditions, path, mark)
            with store.change():
                adopt(store, undone or [], make_room=False)
        else:
            _account(store, conditions, mark, undone)
    except SpoolError as error:
        if store is not None:
            store.database.close()
        raise _unavailable(path, error) from error
    return store, aside


def created(conditions: Conditions, path: Path | None = None, mark: Mark | None = None) -> Store:
    """A new store; in memory without a path.

    Args:
        conditions: Under which it is.
        path: The file, which holds nothing.
        mark: Of the spool that was there before.

    Raises:
        SpoolError: the disk takes nothing.
    """
    database = Database(path)
    try:
        with database.transaction():
            create(database)
            facts = Facts(database)
            known = [] if mark is None else [mark.epoch]
            for epoch in (*known, conditions.unlike(known)):
                facts.put("current", facts.add_epoch(epoch))
            before = [] if path is None else salvage.set_aside_before(path)
            salvage.begin(facts, before[-1] if before else None, [] if mark is None else [mark])
        # A damaged log must not take the tables with it.
        database.write_back()
        return Store(database, conditions.limits, conditions.disk_free)
    except BaseException:
        database.close()
        raise


def _existing(path: Path, conditions: Conditions) -> Store | None:
    """The store in the file; ``None`` if it holds nothing yet.

    Raises:
        DamagedError: it is none.
        SpoolError: it cannot be told.
    """
    if not path.exists() or not path.stat().st_size:
        if log_of(path):
            # SQLite would take the log for a leftover and delete it.
            raise DamagedError(f"spool.path {path}: only its log is left")
        return None
    database = Database(path)
    try:
        database.check()
        layout = layout_of(database)
        if layout is Layout.OLD:
            migration.begin(database)
        if layout is not Layout.EMPTY:
            return Store(database, conditions.limits, conditions.disk_free)
    except BaseException:
        database.close()
        raise
    database.close()
    return None


def _undone(path: Path) -> list[Frozen] | None:
    """The rows that a damaged log has behind its damage; ``None`` if it is as a crash leaves it."""
    if not log_of(path):
        return None
    with suppress(OSError):
        image = Image(path)
        try:
            return image.tail() if image.log and image.log.damaged else None
        finally:
            image.close()
    return None


def _account(
    store: Store, conditions: Conditions, mark: Mark | None, undone: list[Frozen] | None
) -> None:
    """Begin a new epoch if the file is not as far as it was, and note what may be lost."""
    lost: list[Mark] = []
    marked = low = store.next_seq
    if mark is not None and mark.epoch == store.epoch:
        marked = mark.next
    elif mark is not None and store.rows.number(mark.epoch) is None:
        lost.append(mark)
    sound = store.ledger.is_sound
    if not sound:
        # What it had to tell may be lost; what is not here is, then.
        first = mark.low if mark is not None and mark.epoch == store.epoch else 1
        lost.append(Mark(store.epoch, first, low, low))
    # Its log is damaged or was cut, or somebody put an old file back.
    behind = undone is not None or marked > low
    if not behind and not lost:
        return
    with store.change():
        if not sound:
            store.ledger.mend()
        if behind:
            epoch = store.epoch
            rows = [row for row in undone or () if row.epoch == epoch and row.seq >= low]
            bound = mark.bound if mark is not None and mark.epoch == epoch else low
            bound = max([bound, *(row.seq + 1 for row in rows)])
            store.rows.begin_epoch(conditions.unlike(store.rows.epochs.values()))
            adopt(store, rows, make_room=False)
            lost.append(Mark(epoch, low, low, bound))
        for one in lost:
            store.rows.learn(one.epoch)
        salvage.begin(store.facts, None, lost)


def _is_the_file(path: Path, error: SpoolError) -> bool:
    """Whether what SQLite stumbles over is the file, and not its disk or who else has it."""
    passing = any(word in str(error) for word in _PASSING)
    if passing or not os.access(path, os.R_OK | os.W_OK):
        return False
    probe = path.with_name(path.name + ".probe")
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    finally:
        with suppress(OSError):
            probe.unlink()
    return True


def _set_aside(path: Path) -> Path:
    try:
        return salvage.set_aside(path)
    except OSError as error:
        raise UnavailableError(f"spool.path {path}: {error.strerror}") from error


def _unavailable(path: Path, error: SpoolError) -> UnavailableError:
    if "locked" in str(error):
        return UnavailableError(f"{error}; is another program using it?")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return UnavailableError(f"{error}: this user may not read and write it")
    return UnavailableError(str(error))
