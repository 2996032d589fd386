"""Files of envelopes taken in: what a technician carried from a device, and backups of archives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from edgesweep.envelope import WireError
from edgesweep_collector.archive import backup
from edgesweep_collector.archive.rows import Kept, Received
from edgesweep_collector.core.clock import Fixed, TimeSource

from .check import Refusal, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgesweep.carried import Carried
    from edgesweep.events import Ranges

_GROUP = 64
_TRANSPORT = "file"
_MAX_63_BIT = 2**63 - 1
_TRANSPORT_CHARS = 32
_SOURCES = {source.value: source for source in TimeSource}


class Sink(Protocol):
    """What is needed of the archive."""

    def append(self, batch: Sequence[Received]) -> list[Kept]:
        """Store a batch durably."""

    def note_had(self, device_id: str, epoch: int, ranges: Ranges, now_ns: int) -> None:
        """Take note that these numbers were archived elsewhere."""


@dataclass(slots=True)
class Taken:
    """What became of the envelopes of a file.

    Attributes:
        stored: Are new.
        duplicates: Were here already, byte for byte.
        conflicts: Other records are here under their numbers.
        rejected: By reason, those that are none, or are damaged.
        problem: Why the file was not read to its end; empty if it was.
    """

    stored: int = 0
    duplicates: int = 0
    conflicts: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    problem: str = ""

    @property
    def n(self) -> int:
        """How many were read."""
        return self.stored + self.duplicates + self.conflicts + self.rejected.total()


def take_in(
    archive: Sink,
    carried: Iterable[Carried],
    now_ns: int,
    *,
    is_backup: bool,
    progress: Callable[[Taken], None],
) -> Taken:
    """Archive what a file holds; doing it again changes nothing.

    Args:
        archive: Where it goes, in groups of a transaction each.
        carried: The file, as it is read.
        now_ns: Now, in ns since 1970.
        is_backup: Whether what the file says of times and transports counts: so of a backup.
        progress: Called after each group.

    Raises:
        ArchiveUnavailable: the groups before are stored; the file can be taken in again.
    """
    taken = Taken()
    group: list[Received] = []
    try:
        for one in carried:
            checked = _checked(archive, one, now_ns, is_backup=is_backup)
            if isinstance(checked, Refusal):
                taken.rejected[checked.reason] += 1
            elif checked is not None:
                group.append(checked)
            if len(group) == _GROUP:
                _store(archive, group, taken, progress)
    except WireError as error:
        taken.problem = str(error)
    _store(archive, group, taken, progress)
    return taken


def _store(
    archive: Sink, group: list[Received], taken: Taken, progress: Callable[[Taken], None]
) -> None:
    kept = archive.append(group)
    taken.stored += kept.count(Kept.STORED)
    taken.duplicates += kept.count(Kept.DUPLICATE)
    taken.conflicts += kept.count(Kept.CONFLICT)
    group.clear()
    progress(taken)


def _checked(
    archive: Sink, one: Carried, now_ns: int, *, is_backup: bool
) -> Received | Refusal | None:
    """What is to be archived, or why not; ``None`` of what is no record of a device."""
    received_ns, transport = now_ns, _TRANSPORT
    if is_backup:
        told_ns = one.received_ns or 0
        received_ns = told_ns if 0 < told_ns <= _MAX_63_BIT else now_ns
        transport = one.transport[:_TRANSPORT_CHARS] if one.transport.isprintable() else _TRANSPORT
    checked = check(one.envelope, None, received_ns, transport)
    if isinstance(checked, Refusal):
        return checked
    if not is_backup:
        return replace(checked, is_live=False)
    if transport == backup.TRANSPORT:
        return _had(archive, checked, now_ns)
    return replace(checked, is_live=False, fixed=_fixed(one))


def _fixed(one: Carried) -> Fixed | None:
    source = _SOURCES.get(one.time_source)
    if one.effective_wall_ns is None or source is None:
        return None
    return Fixed(one.effective_wall_ns, source)


def _had(archive: Sink, told: Received, now_ns: int) -> Refusal | None:
    envelope = told.envelope
    try:
        ranges = backup.had_ranges(envelope)
    except WireError as error:
        return Refusal("not_an_envelope", str(error))
    archive.note_had(envelope.device_id, envelope.epoch, ranges, now_ns)
    return None
