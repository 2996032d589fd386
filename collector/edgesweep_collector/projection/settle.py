"""The error policy: what becomes of a batch, request by request, until every line is settled.

Telegraf's table, with bisection: a refused batch is halved down to the lines that are at fault.
Writing the good ones again is harmless, since a resend has the same bytes, so the same rule is
right for 1.x (stores the good lines of a refused batch), 2.x (stores none when a line is
malformed) and 3 (lists the lines at fault).

Lines older than the retention policy are no fault: the server would delete them at once. They are
told apart, and a batch of nothing else is settled in one request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from edgesweep_collector.projection.base import (
    Expiring,
    Refused,
    Rejected,
    TooLarge,
    Unavailable,
    WriteError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Lines and newlines of one request, uncompressed; InfluxDB 3 Core takes 10 MB."""
BACKOFF_CAP_S = 60.0
MAX_RETRY_AFTER_S = 3600.0
REFUSED_RETRY_S = 30.0
"""Slow enough not to lock an account, quick enough to notice a corrected token."""


class State(Enum):
    """How the server took the last request."""

    OK = "ok"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line and the archive row that it tells of."""

    row_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The server has ``count`` more lines."""

    count: int


@dataclass(frozen=True, slots=True)
class Dead:
    """The server refuses this one line for good, in its own words."""

    entry: Entry
    error: str


@dataclass(frozen=True, slots=True)
class Expired:
    """``count`` lines are older than the server keeps any: it would delete them at once."""

    count: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is lost; ask for the next step after ``seconds``.

    ``alarm`` names what a person has to put right (:class:`Refused`), else it is empty.
    """

    seconds: float
    state: State
    error: str
    alarm: str = ""


Step = Stored | Dead | Expired | Wait
"""What happened, one at a time."""


def settle(
    entries: Sequence[Entry],
    write: Callable[[Sequence[str]], None],
    *,
    max_bytes: int = MAX_REQUEST_BYTES,
) -> Iterator[Step]:
    """Write ``entries`` until each is stored or dead; each step asked for is one request.

    It never waits itself: a :class:`Wait` asks its caller to. It ends only when all is settled;
    leaving it earlier loses nothing that is not written again by the next attempt.
    """
    pending = [*reversed(list(_requests(entries, max_bytes)))]
    failures = 0
    while pending:
        chunk = pending.pop()
        error = _error_of(write, chunk)
        if isinstance(error, Unavailable | Refused):
            failures += 1
            pending.append(chunk)
            yield _wait(error, failures)
            continue
        failures = 0
        if error is None:
            yield Stored(len(chunk))
        elif isinstance(error, Expiring) and error.dropped >= len(chunk):
            yield Expired(len(chunk))
        elif len(chunk) == 1:
            yield Dead(chunk[0], str(error))
        else:
            middle = len(chunk) // 2
            pending += [chunk[middle:], chunk[:middle]]


def backoff_s(failures: int) -> float:
    """Seconds to wait after that many failures in a row: 1, 2, 4 ... up to the cap."""
    return min(BACKOFF_CAP_S, 2.0 ** min(failures - 1, 16))


def _wait(error: Unavailable | Refused, failures: int) -> Wait:
    if isinstance(error, Refused):
        return Wait(REFUSED_RETRY_S, State.REFUSED, str(error), error.alarm)
    asked = error.retry_after_s or 0.0
    seconds = min(asked, MAX_RETRY_AFTER_S) if asked > 0 else backoff_s(failures)
    return Wait(seconds, State.UNAVAILABLE, str(error))


def _error_of(write: Callable[[Sequence[str]], None], chunk: Sequence[Entry]) -> WriteError | None:
    try:
        write([entry.text for entry in chunk])
    except (Unavailable, Refused, TooLarge, Rejected) as error:
        return error
    return None


def _requests(entries: Sequence[Entry], max_bytes: int) -> Iterator[Sequence[Entry]]:
    """``entries`` in order, in runs of at most ``max_bytes``; a longer line goes alone."""
    run: list[Entry] = []
    size = 0
    for entry in entries:
        length = len(entry.text.encode()) + 1
        if run and size + length > max_bytes:
            yield run
            run, size = [], 0
        run.append(entry)
        size += length
    if run:
        yield run
