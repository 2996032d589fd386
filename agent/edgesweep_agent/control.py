"""The daemon's Unix socket: how the command line and the sweep hand over what they made.

One JSON object a line, a request and its answer. A ``put`` is answered after the spool has
committed, so that whoever sent it may forget it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from edgesweep.envelope import MAX_PAYLOAD_BYTES

from .errors import DaemonError, SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyio.abc import SocketListener, SocketStream

    from .spool import Listed

MAX_LINE_BYTES = 2 * MAX_PAYLOAD_BYTES
"""Of a request: base64 adds a third; twice leaves room for the rest."""
MAX_ANSWER_BYTES = 128 * MAX_PAYLOAD_BYTES
"""Of an answer: a portion of the spool."""
_A = TypeVar("_A")


class Put(msgspec.Struct, frozen=True, tag="put", tag_field="op", forbid_unknown_fields=True):
    """Spool a record: its kind and its encoded payload."""

    kind: str
    payload: bytes


class Status(msgspec.Struct, frozen=True, tag="status", tag_field="op"):
    """Tell how the daemon is."""


class Show(msgspec.Struct, frozen=True, tag="show", tag_field="op"):
    """Tell what is in the spool, row by row: so many at most, only what was refused if asked."""

    limit: int
    refused: bool = False


class Requeue(msgspec.Struct, frozen=True, tag="requeue", tag_field="op"):
    """Let rows that were set aside wait again: those of (epoch, seq), or all."""

    keys: list[tuple[str, int]] | None = None


class Portion(msgspec.Struct, frozen=True, tag="portion", tag_field="op"):
    """Hand out envelopes that wait, from a place on; they go on waiting."""

    rank: int = 0
    row: int = 0


class Stored(msgspec.Struct, frozen=True, tag="stored", tag_field="answer"):
    """The record is on the disk under this identity."""

    epoch: str
    seq: int


class Report(msgspec.Struct, frozen=True, tag="report", tag_field="answer"):
    """How the daemon is: spool and uplink.

    Attributes:
        made: Envelopes of this epoch.
        delivered_bytes: Results that were delivered and stay, in case they are asked for again.
        dropped: By kind, what will never be delivered.
        refused: Records that had no room; whoever made them was told.
        troubles: By part, what is wrong with it now.
    """

    device_id: str
    agent_version: str
    epoch: str
    made: int
    rows: int
    bytes: int
    rejected: int
    rows_by_kind: dict[str, int]
    delivered_bytes: int
    dropped: dict[str, int]
    refused: int
    uplink: str
    uplink_state: str
    uplink_detail: str
    troubles: dict[str, str]


class Row(msgspec.Struct, frozen=True):
    """One row of the spool; ``wall_ns`` is when it was made by the device's clock."""

    epoch: str
    seq: int
    kind: str
    size_bytes: int
    state: str
    wall_ns: int | None
    reason: str = ""

    @classmethod
    def of(cls, one: Listed) -> Row:
        """A row as the spool lists it."""
        name = f"{one.epoch:016x}"
        return cls(name, one.seq, one.kind, one.size_bytes, one.state, one.wall_ns, one.reason)


class Rows(msgspec.Struct, frozen=True, tag="rows", tag_field="answer"):
    """What was asked for."""

    rows: list[Row]


class Requeued(msgspec.Struct, frozen=True, tag="requeued", tag_field="answer"):
    """So many rows wait again."""

    count: int


class Envelopes(msgspec.Struct, frozen=True, tag="envelopes", tag_field="answer"):
    """Some envelopes, and the request for the next ones; ``None`` behind the last."""

    envelopes: list[bytes]
    next: tuple[int, int] | None = None


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="answer"):
    """The request cannot be done; the reason is for people."""

    reason: str


Request = Put | Status | Show | Requeue | Portion
Answer = Stored | Report | Rows | Requeued | Envelopes | Refused

_decode_request = msgspec.json.Decoder(Request).decode
_decode_answer = msgspec.json.Decoder(Answer).decode
_encode = msgspec.json.Encoder().encode


class Desk(Protocol):
    """Who answers."""

    async def answer(self, request: Request) -> Answer:
        """Do what is asked."""


async def listen(path: Path) -> SocketListener:
    """Make the socket at ``path``; only this user may connect.

    Raises:
        SettingsError: it cannot be made there, or another daemon answers on it.
    """
    if await _somebody_answers(path):
        raise SettingsError(f"control.socket: {path}: another daemon answers on it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return await anyio.create_unix_listener(path, mode=0o600)
    except OSError as error:
        why = error.strerror or f"{error} (107 bytes at most)"
        raise SettingsError(f"control.socket: {path}: {why}") from error


async def _somebody_answers(path: Path) -> bool:
    try:
        stream = await anyio.connect_unix(path)
    except OSError:
        return False
    await stream.aclose()
    return True


async def serve(listener: SocketListener, path: Path, desk: Desk) -> None:
    """Answer on the socket at ``path`` until cancelled, then take it away."""

    async def talk(stream: SocketStream) -> None:
        async with stream:
            await _talk(stream, desk)

    try:
        async with listener:
            await listener.serve(talk)
    finally:
        path.unlink(missing_ok=True)


async def _talk(stream: SocketStream, desk: Desk) -> None:
    lines = BufferedByteReceiveStream(stream)
    # A caller that left, or one whose line has no end: neither is the daemon's trouble.
    over = (
        anyio.EndOfStream,
        anyio.IncompleteRead,
        anyio.BrokenResourceError,
        anyio.DelimiterNotFound,
    )
    with contextlib.suppress(*over):
        while True:
            line = await lines.receive_until(b"\n", MAX_LINE_BYTES)
            try:
                answer = await desk.answer(_decode_request(line))
            except msgspec.MsgspecError as error:
                answer = Refused(f"not a request: {error}")
            await stream.send(_encode(answer) + b"\n")


async def ask(path: Path, request: Request, *, timeout_s: float = 10.0) -> Answer:
    """Ask the daemon once.

    Raises:
        DaemonError: nobody answers there, or the answer is no answer.
    """
    try:
        with anyio.fail_after(timeout_s):
            async with await anyio.connect_unix(path) as stream:
                await stream.send(_encode(request) + b"\n")
                line = await BufferedByteReceiveStream(stream).receive_until(
                    b"\n", MAX_ANSWER_BYTES
                )
                return _decode_answer(line)
    except (OSError, anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
        raise DaemonError(
            f"no daemon answers at {path}: start `edgesweep-agent serve` with the same --config"
        ) from error
    except (msgspec.MsgspecError, anyio.DelimiterNotFound) as error:
        raise DaemonError(f"{path} gave no answer that we understand: {error}") from error


async def put(path: Path, kind: str, payload: bytes) -> Stored:
    """Hand a record over; it is on the disk when this returns.

    Raises:
        DaemonError: it is not.
    """
    answer = await ask(path, Put(kind, payload))
    if isinstance(answer, Stored):
        return answer
    reason = answer.reason if isinstance(answer, Refused) else "an answer to another question"
    raise DaemonError(f"the daemon at {path} did not take the {kind}: {reason}")


async def status(path: Path) -> Report:
    """How the daemon is.

    Raises:
        DaemonError: nobody answers.
    """
    return await _answered(path, Status(), Report)


async def rows(path: Path, *, limit: int, refused: bool) -> list[Row]:
    """What is in the spool.

    Raises:
        DaemonError: nobody answers.
    """
    return (await _answered(path, Show(limit, refused), Rows)).rows


async def requeue(path: Path, keys: list[tuple[str, int]] | None) -> int:
    """Let rows that were set aside wait again; how many there were.

    Raises:
        DaemonError: nobody answers, or the disk does not take it.
    """
    return (await _answered(path, Requeue(keys), Requeued)).count


async def envelopes(path: Path) -> AsyncIterator[bytes]:
    """All envelopes that wait, some at a time.

    Raises:
        DaemonError: nobody answers.
    """
    place: tuple[int, int] | None = (0, 0)
    while place is not None:
        answer = await _answered(path, Portion(*place), Envelopes)
        for one in answer.envelopes:
            yield one
        place = answer.next


async def _answered(path: Path, request: Request, kind: type[_A]) -> _A:
    answer = await ask(path, request)
    if isinstance(answer, kind):
        return answer
    reason = answer.reason if isinstance(answer, Refused) else "an answer to another question"
    raise DaemonError(f"the daemon at {path}: {reason}")
