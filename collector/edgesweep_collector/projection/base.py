"""What the projection needs of its neighbours: where levels come from, where lines go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import Device, LevelResult, Telemetry


class WriteError(Exception):
    """A request did not store its lines; the subclass says whose fault that is."""


class Unavailable(WriteError):  # noqa: N818 - the name is the fact, as in http
    """The server cannot take anything now: network, 429, 5xx. Nothing is wrong with the lines.

    Attributes:
        retry_after_s: How long the server asked to be left alone; ``None`` if it did not.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(WriteError):  # noqa: N818
    """The server takes nothing from us until a person acts: token, bucket, address.

    Attributes:
        alarm: What to put right: ``influx_auth`` (401, 403, the token file), ``influx_bucket``
            (404), ``influx_tls``, or ``influx_answer`` (not an answer of InfluxDB).
    """

    def __init__(self, message: str, alarm: str) -> None:
        super().__init__(message)
        self.alarm = alarm


class TooLarge(WriteError):  # noqa: N818
    """The request was too large (413); fewer lines may pass."""


class Rejected(WriteError):  # noqa: N818
    """At least one line is at fault, for good (400, 422); the server's words are the message."""


class Expiring(Rejected):
    """At least one line is older than the server's retention policy keeps any.

    Attributes:
        dropped: How many lines the server says it left out, for this or any other reason.
    """

    def __init__(self, message: str, dropped: int) -> None:
        super().__init__(message)
        self.dropped = dropped


class Writer(Protocol):
    """Where lines go."""

    def write(self, lines: Sequence[str]) -> None:
        """Store ``lines`` (at least one) in one request, blocking; returning means stored.

        Raises:
            WriteError: not all of them are stored, for the reason that the subclass says.
        """


class ArchivedLevel(Protocol):
    """One level as the archive has it; all three never change once they are there."""

    @property
    def row_id(self) -> int:
        """Its place in the archive's order, above zero."""

    @property
    def effective_wall_ns(self) -> int:
        """Its start in nanoseconds since 1970, corrected for what is known of the clock."""

    @property
    def tie(self) -> int:
        """As :func:`edgesweep_collector.core.projection.place` needs it."""

    @property
    def level(self) -> LevelResult:
        """What the device reported."""


class ArchivedTelemetry(Protocol):
    """One telemetry record as the archive has it; none of it ever changes."""

    @property
    def row_id(self) -> int:
        """Its place in the archive's order, above zero."""

    @property
    def effective_wall_ns(self) -> int:
        """When it was measured, in nanoseconds since 1970, as for a level."""

    @property
    def tie(self) -> int:
        """As for a level."""

    @property
    def device_id(self) -> str:
        """Who measured."""

    @property
    def device(self) -> Device | None:
        """What the device had said of itself when the record came."""

    @property
    def telemetry(self) -> Telemetry:
        """What its sensors said."""


class Source(Protocol):
    """The archive, as far as a projection sees it. Every call blocks."""

    def levels_after(self, row_id: int, limit: int) -> Sequence[ArchivedLevel]:
        """The first ``limit`` levels after ``row_id``, ascending.

        A row that appears later must have a greater id than any row ever returned, else the
        cursor has passed it.
        """

    def telemetry_after(self, row_id: int, limit: int) -> Sequence[ArchivedTelemetry]:
        """Likewise for telemetry."""

    def cursor(self, name: str) -> int:
        """The last row that the projection ``name`` is done with; 0 at the beginning."""

    def set_cursor(self, name: str, row_id: int, *, expected: int | None = None) -> bool:
        """Store the cursor of ``name`` durably, and only if it still is what was ``expected``.

        Whether it was: somebody else may have set it back meanwhile, to have rows written again,
        or may have gone on from here after our lease had run out.
        """

    def add_dead_letter(
        self, projection: str, row_id: int, line: str, error: str, at_ns: int
    ) -> None:
        """Keep a line that the server refuses for good; it may be told of the same row twice."""
