"""A level of a workload, as it is asked for and as it is sent.

Tracks and turns have the fields of the load generator's, which sits above: what sends them is
told there, what they say here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep_agent.core.arrangement import Arrangement, WindowKind

    from .shape import Shape

ChatMessage = dict[str, Any]
"""A message as the API has it: role and content."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One of the user's own requests.

    Attributes:
        output_tokens: Of its answer, where the user says; ``None`` takes the workload's.
    """

    messages: tuple[ChatMessage, ...]
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """What is to be arranged: one level of one session.

    Attributes:
        requests: Measured ones in all; a workload of bursts or tasks goes on to the end of one,
            and has a least number of them.
        seed: Of run, session, concurrency and attempt, without the contender: texts, lengths
            and arrivals are the same for all of them.
        overhead_tokens: What the chat template adds to a prompt, for first drafts.
        warmup_bursts: Bursts of warm-up to have ready; it ends as soon as two agree.
        replayed: The user's requests, for a replay.
    """

    shape: Shape
    concurrency: int
    requests: int
    seed: str
    overhead_tokens: int = 0
    warmup_bursts: int = 4
    replayed: tuple[Replayed, ...] = ()

    @property
    def warmup_requests(self) -> int:
        """Requests of all bursts of warm-up."""
        return self.warmup_bursts * self.concurrency


class Ask(Protocol):
    """Turns what is said into a request of the engine's API.

    ``natural``: the answer stops where it likes; otherwise it has exactly ``max_tokens``.
    ``response_format``: what the answer must look like, for engines that can enforce it.
    ``nonce``: requests with different ones must not reuse each other's prompts.
    """

    def body(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        natural: bool = False,
        response_format: Mapping[str, Any] | None = None,
        nonce: str = "",
    ) -> bytes:
        """The JSON body of a streamed request."""

    def fields(
        self,
        *,
        max_tokens: int,
        natural: bool = False,
        response_format: Mapping[str, Any] | None = None,
        nonce: str = "",
    ) -> dict[str, Any]:
        """All fields of such a body but the messages."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of a chain: what is said before the model is asked again.

    Attributes:
        messages: Appended to the chain's history before this step.
        fields: The other fields of the request's body.
    """

    messages: tuple[ChatMessage, ...]
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Track:
    """A stream of requests within a level, such as a fan-out's burst or an operator's session.

    Attributes:
        name: Which part of the level a request belongs to; "" if there is but one.
        bodies: JSON of its requests, in order (not with chains).
        chains: Serial conversations instead of bodies.
        concurrency: Closed loop: requests in flight at once.
        arrivals_s: Open loop instead: when each body is due, from the start of the track.
        after: Name of the track that must have ended before this one starts.
        after_done: Start when that track has this many ended requests instead.
        delay_s: Then wait so long.
        think_s: Pause between an answer and the next request.
        until: Name of a track; when that has ended no further request is started here, except
            ``until_more`` further ones.
    """

    name: str = ""
    bodies: tuple[bytes, ...] = ()
    chains: tuple[tuple[Turn, ...], ...] = ()
    concurrency: int = 1
    arrivals_s: tuple[float, ...] | None = None
    after: str = ""
    after_done: int = 0
    delay_s: float = 0.0
    think_s: float = 0.0
    until: str = ""
    until_more: int = 0


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """A level, ready to send.

    Attributes:
        warmup_bodies: Bursts of ``warmup_burst`` requests, sent before.
        asked_output_tokens: By position over the requests of all tracks; ``None`` where an
            answer stops where it likes.
        most_output_tokens: Likewise, the bound that every answer has.
        arrangement: What its samples are read by.
        natural: Answers stop where they like.
    """

    tracks: tuple[Track, ...]
    warmup_bodies: tuple[bytes, ...]
    warmup_burst: int
    asked_output_tokens: tuple[int | None, ...]
    most_output_tokens: tuple[int, ...]
    arrangement: Arrangement
    natural: bool = False

    @property
    def window(self) -> WindowKind:
        """Over which time its rates are taken."""
        return self.arrangement.window

    @property
    def requests(self) -> int:
        """Measured requests; fewer are sent if the plan is ``open_ended``."""
        return len(self.asked_output_tokens)

    @property
    def open_ended(self) -> bool:
        """Whether a track ends with another one, and need not send all that it has."""
        return any(track.until for track in self.tracks)

    @property
    def needs_text(self) -> bool:
        """Whether the metrics need the answers' text."""
        return bool(self.arrangement.tools) or self.window == "burst"
