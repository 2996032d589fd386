"""A damaged spool: set aside under another name, and its rows saved one by one.

The saving goes on in small steps beside everything else, since a large file takes longer than
anybody should wait for a start. How far it came is written down with each step.
"""

from __future__ import annotations

import itertools
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from edgesweep.events import SPOOL_QUARANTINED, ranges_text
from edgesweep.records import Event

from .adopting import adopt
from .database import SIDES
from .image import Image
from .ledger import MAX_RANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgesweep.events import Ranges

    from .facts import Facts
    from .lock import Mark
    from .store import Store

STEP_PAGES = 2000
"""So many pages are a step: some tens of milliseconds."""
KEEP_FILES = 3
"""So many damaged files stay for people to look at."""
FACT = "salvage"
LOST = "lost"


def set_aside(path: Path) -> Path:
    """Rename a damaged spool with what SQLite put beside it.

    Raises:
        OSError: it cannot be renamed.
    """
    before = set_aside_before(path)
    number = int(before[-1].name.rpartition("-")[2]) + 1 if before else 1
    aside = path.with_name(f"{path.name}.corrupt-{number}")
    # Of some only the log is left.
    path.touch()
    path.rename(aside)
    for suffix in SIDES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def set_aside_before(path: Path) -> list[Path]:
    """The damaged files beside a spool, oldest first."""
    found = {
        int(number): one
        for one in path.parent.glob(f"{path.name}.corrupt-*")
        if (number := one.name.rpartition("-")[2]).isdigit()
    }
    return [found[number] for number in sorted(found)]


def thin(path: Path, limit_bytes: int, wanted_bytes: Callable[[], int]) -> None:
    """Delete damaged files, the oldest first, that are too many or whose room is wanted.

    Args:
        path: The spool; what could be saved of them is in it.
        limit_bytes: So much may they have together.
        wanted_bytes: How much the disk lacks of what is to be free.
    """
    files = set_aside_before(path)
    sizes = [file.stat().st_size for file in files]
    for n, file in enumerate(files):
        many = len(files) - n > KEEP_FILES or sum(sizes[n:]) > limit_bytes
        if many or wanted_bytes() > 0:
            for suffix in ("", *SIDES):
                file.with_name(file.name + suffix).unlink(missing_ok=True)


def begin(facts: Facts, aside: Path | None, lost: Sequence[Mark]) -> None:
    """Write down what is to be saved, and which numbers may be lost; within a change."""
    if aside is not None:
        facts.put(FACT, {"file": aside.name, "page": 1, "saved": 0})
    if lost:
        before = facts.structure(LOST) or []
        facts.put(LOST, before + [[mark.epoch, mark.low, mark.bound] for mark in lost])


def pending(store: Store, path: Path) -> Salvage | None:
    """What is still to be saved beside the spool at ``path``."""
    progress = store.facts.structure(FACT)
    if progress is None and store.facts.get(LOST) is None:
        return None
    if progress is None:
        return Salvage(None, 1, 0)
    return Salvage(path.with_name(progress["file"]), progress["page"], progress["saved"])


class Salvage:
    """The saving of a damaged file, and the word of what is lost."""

    def __init__(self, aside: Path | None, page: int, saved: int) -> None:
        self._aside = aside
        self._next = page
        self._saved = saved
        self._found: dict[int, array[int]] = {}
        self._image: Image | None = None
        if aside is not None:
            with suppress(OSError):
                self._image = Image(aside)

    def step(self, store: Store) -> bool:
        """Save the rows of some pages; whether there is more to do.

        Raises:
            SpoolError: the disk takes nothing.
        """
        image = self._image
        if image is None or self._next > image.count:
            self._finish(store)
            self.close()
            return False
        end = min(self._next + STEP_PAGES, image.count + 1)
        rows = [row for number in range(self._next, end) for row in image.rows(number)]
        if end > image.count:
            rows += image.tail()
        name = self._aside.name if self._aside else ""
        with store.change():
            saved = self._saved + adopt(store, rows)
            store.facts.put(FACT, {"file": name, "page": end, "saved": saved})
        for row in rows:
            self._found.setdefault(row.epoch, array("q")).append(row.seq)
        self._next, self._saved = end, saved
        return True

    def close(self) -> None:
        """Let go of the file; what is left is saved another time."""
        if self._image is not None:
            self._image.close()
            self._image = None

    def _finish(self, store: Store) -> None:
        spans = [(epoch, low, bound) for epoch, low, bound in store.facts.structure(LOST) or ()]
        marked = {epoch for epoch, _, _ in spans}
        # Of other epochs it is known what lay between the first and the last of their rows.
        spans += [
            (epoch, min(seqs), max(seqs) + 1)
            for epoch, seqs in self._found.items()
            if epoch not in marked
        ]
        with store.change():
            lost = {
                epoch: store.lose(epoch, low, bound - 1, self._found.get(epoch, ()))
                for epoch, low, bound in spans
            }
            store.facts.forget(LOST)
            store.facts.forget(FACT)
            if self._aside is not None:
                store.facts.owe(self._word(self._aside, lost))

    def _word(self, aside: Path, lost: dict[int, Ranges]) -> Event:
        size = 0
        with suppress(OSError):
            size = aside.stat().st_size
        told = {"file": aside.name, "bytes": str(size), "salvaged": str(self._saved)}
        for epoch, ranges in itertools.islice(lost.items(), 1):
            told |= {"epoch": f"{epoch:016x}", "ranges": ranges_text(ranges[:MAX_RANGES])}
        text = (
            f"the spool was damaged and set aside as {aside.name}; {self._saved} of its records "
            "were saved"
        )
        return Event(SPOOL_QUARANTINED, text, told)
