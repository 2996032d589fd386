"""The spool's file over the life of an agent: opened, mended, written to while its disk lets it.

It keeps a store open or says what keeps it from that. A full disk, a damaged page, a file system
that turned read-only: each is one line in the log when it begins and one when it is over.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from edgesweep_agent.errors import SettingsError, SpoolError

from . import migration, salvage
from .ballast import Ballast
from .database import PAGE_BYTES, DamagedError
from .lock import Lock, Mark, UnavailableError, cannot
from .opening import opened
from .store import NoRoomError, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .migration import Migration
    from .opening import Conditions
    from .salvage import Salvage

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

REOPEN_S = 30.0
"""How often a spool that cannot be opened is tried again."""
OPENING_S = 2.0
"""How long an opening works at saving or moving rows; the rest goes on beside everything else."""
RESERVED = 1024
"""The mark is so many numbers ahead, so that it need not be written with each commit."""
COMPACT_BYTES = 16 * 2**20
"""So much free room of the file goes back to the disk, once little is in it."""
LITTLE_BYTES = 8 * 2**20
COMPACT_AGAIN_S = 3600.0


class SpoolFile:
    """The file, its lock, its ballast, and what is to be done about them.

    Attributes:
        store: What is open; ``None`` while it cannot be opened.
        trouble: What keeps it from being opened or written to, for people; or "".
        quarantined: Where a damaged file was set aside by this agent.
    """

    def __init__(self, path: Path, conditions: Conditions, clock: Callable[[], float]) -> None:
        self.path = path
        self.store: Store | None = None
        self.trouble = ""
        self.quarantined: Path | None = None
        self._conditions = conditions
        self._clock = clock
        self._lock: Lock | None = None
        self._low = 1
        self._bound = 0
        self._work: Salvage | Migration | None = None
        self._retry_s = 0.0
        self._compact_s = 0.0
        self._ballast = Ballast(
            path.with_name(path.name + ".ballast"), lambda: conditions.disk_free() or 0
        )

    def open(self) -> None:
        """Open it, or say in ``trouble`` why it cannot be.

        Raises:
            SpoolError: another agent has it.
            SettingsError: it cannot be there.
        """
        self._retry_s = self._clock() + REOPEN_S
        try:
            if self._lock is None:
                _make(self.path.parent)
                self._lock = Lock(self.path.with_name(self.path.name + ".lock"))
            self.store, aside = opened(self.path, self._conditions, self._lock.mark())
            self.quarantined = aside or self.quarantined
            if aside is not None:
                _log.error("the spool was damaged and set aside as %s", aside.name)
            self._work = migration.pending(self.store) or salvage.pending(self.store, self.path)
        except UnavailableError as error:
            self._fail(error)
            return
        self._well()
        self._reserve(RESERVED)
        self._ballast.hold()
        deadline = self._clock() + OPENING_S
        with suppress(SpoolError):
            while self._clock() < deadline and self._step():
                pass

    def write(self, act: Callable[[Store], _T], *, numbers: int = 0) -> _T:
        """Change the store; a damaged file is mended first, a full disk made room on.

        Args:
            act: What is done to it.
            numbers: How many new ones are given out at most.

        Raises:
            SpoolError: the disk does not take it; nothing has changed.
        """
        store = self._opened()
        if store.next_seq + numbers > self._bound:
            self._reserve(numbers + RESERVED)
        before = store.next_seq
        try:
            result = act(store)
        except NoRoomError:
            raise
        except DamagedError as error:
            result = act(self._mended(error))
        except SpoolError as error:
            result = self._with_room(store, act, error)
        self._well()
        if store.next_seq != before:
            self._mark(sync=False)
        return result

    def read(self, ask: Callable[[Store], _T], otherwise: _T) -> _T:
        """Ask the store; what cannot be read is ``otherwise``."""
        if self.store is None:
            return otherwise
        try:
            return ask(self.store)
        except DamagedError as error:
            with suppress(SpoolError):
                return ask(self._mended(error))
        except SpoolError as error:
            self._fail(error)
        return otherwise

    def tend(self) -> bool:
        """Do what is due; whether there is more to do at once.

        Raises:
            SpoolError: the disk does not take it.
        """
        if self.store is None:
            if self._clock() < self._retry_s:
                return False
            with suppress(SettingsError):
                self.open()
        if self.store is None:
            return False
        if self.store.unwritten:
            self.write(Store.flush)
        if not self.trouble:
            self._ballast.hold()
        more = self._step()
        if not more:
            self._compact(self.store)
        return more

    def close(self) -> None:
        """Write down what was delivered, close the file, let go of the lock."""
        if self.store is not None:
            with suppress(SpoolError):
                self.store.flush()
            self._reserve(0)
        self._drop()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _opened(self) -> Store:
        if self.store is None:
            raise SpoolError(self.trouble)
        return self.store

    def _mended(self, error: SpoolError) -> Store:
        """The store of a file that turned out to be damaged, or of the one after it."""
        _log.error("%s", error)
        self._drop()
        self.open()
        return self._opened()

    def _with_room(self, store: Store, act: Callable[[Store], _T], error: SpoolError) -> _T:
        # Rows that were delivered make room within the file, if they can be deleted.
        if store.unwritten and self._ballast.give_up():
            try:
                store.flush()
                store.database.write_back()
                return act(store)
            except NoRoomError:
                raise
            except SpoolError as again:
                error = again
        self._fail(error)
        raise error

    def _step(self) -> bool:
        """One step of saving or moving rows; whether there is more."""
        work = self._work
        if work is None:
            return False
        try:
            if not work.step(self._opened()):
                self._work = None
                self._thin()
        except DamagedError as error:
            self._mended(error)
        return self._work is not None

    def _thin(self) -> None:
        limits, left = self._conditions.limits, self._conditions.disk_free

        def wanted_bytes() -> int:
            free = left()
            return 0 if free is None else limits.min_free_bytes - free

        with suppress(OSError):
            salvage.thin(self.path, limits.max_bytes, wanted_bytes)

    def _compact(self, store: Store) -> None:
        database = store.database
        if self._clock() < self._compact_s or database.used_bytes > LITTLE_BYTES or self.trouble:
            return
        try:
            if database.spare_bytes > COMPACT_BYTES:
                database.compact()
            elif database.page_bytes != PAGE_BYTES:
                database.repage()
        except DamagedError as error:
            self._mended(error)
        except SpoolError:
            # It harms nobody, but takes its time.
            self._compact_s = self._clock() + COMPACT_AGAIN_S

    def _reserve(self, numbers: int) -> None:
        """Mark that so many numbers may be given out from here on."""
        if self.store is not None:
            self._low, self._bound = self.store.low, self.store.next_seq + numbers
            self._mark(sync=True)

    def _mark(self, *, sync: bool) -> None:
        # Each commit has one sync, its own; a log that was cut afterwards shows all the same.
        if self._lock is not None and self.store is not None:
            mark = Mark(self.store.epoch, self._low, self.store.next_seq, self._bound)
            self._lock.write(mark, sync=sync)

    def _drop(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None
        if self.store is not None:
            self.store.database.close()
            self.store = None

    def _fail(self, error: SpoolError) -> None:
        if not self.trouble:
            _log.error("the spool does not take anything: %s", error)
        self.trouble = str(error)

    def _well(self) -> None:
        if self.trouble:
            _log.info("the spool takes records again")
        self.trouble = ""


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot(folder, error) from error
