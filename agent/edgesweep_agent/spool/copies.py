"""A spool that no agent runs on: the copy on a stick, or what a dead device left.

It is read page by page, so that a damaged one, one of an older version and one on a medium that
cannot be written to are all the same.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from edgesweep.carried import Carried, write
from edgesweep_agent.errors import SpoolError

from .image import Image
from .listing import Listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from edgesweep_agent.core.spooled import Frozen


class SpoolCopy:
    """The rows of a spool file that can be read, each checked.

    Raises:
        SpoolError: it is not there, or an agent has it open.
    """

    def __init__(self, path: Path) -> None:
        _refuse_a_live_one(path)
        try:
            self._image = Image(path)
        except OSError as error:
            raise SpoolError(f"{path}: {error.strerror}") from error

    def rows(self, limit: int) -> list[Listed]:
        """What is in it, with what was delivered lately and with what was refused."""
        delivered = self._image.delivered()
        found: list[Listed] = []
        for row in self._frozen():
            if len(found) >= limit:
                break
            key = (row.epoch, row.seq)
            state = "delivered" if key in delivered else "waiting"
            found.append(
                shown(key, row.kind, row.data, state)
                if row.reason is None
                else shown(key, row.kind, row.data, "refused", row.reason)
            )
        return found

    def rejected(self) -> list[Listed]:
        """What was set aside."""
        return [
            shown((row.epoch, row.seq), row.kind, row.data, "refused", row.reason)
            for row in self._frozen()
            if row.reason is not None
        ]

    def export(self, file: BinaryIO) -> int:
        """Write what waits as a file to be carried to a collector; how many there were.

        Raises:
            OSError: the file does not take it.
        """
        delivered = self._image.delivered()
        return write(
            file,
            (
                Carried(row.data)
                for row in self._frozen()
                if row.reason is None and (row.epoch, row.seq) not in delivered
            ),
        )

    def close(self) -> None:
        """Close the file."""
        self._image.close()

    def _frozen(self) -> Iterator[Frozen]:
        """Each row once; a page that was moved may still be found in its old place."""
        seen = set()
        for number in range(1, self._image.count + 1):
            for row in self._image.rows(number):
                if (row.epoch, row.seq) not in seen:
                    seen.add((row.epoch, row.seq))
                    yield row
        for row in self._image.tail():
            if (row.epoch, row.seq) not in seen:
                seen.add((row.epoch, row.seq))
                yield row


def _refuse_a_live_one(path: Path) -> None:
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SpoolError(
            f"{path}: an agent has this spool open; ask it: edgesweep-agent spool --config"
        ) from error
    finally:
        os.close(handle)
