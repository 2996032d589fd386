"""A level before its texts have their final length, and before an engine's API is known.

Every kind of workload is a function from a :class:`Level` to a :class:`Draft`. In between the
engine's tokenizer can be asked how long the texts are (:mod:`.lengths`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgesweep_agent.core.arrangement import Arrangement

from .base import ChatMessage, LevelPlan, Track, Turn
from .lengths import Wanted
from .words import prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .base import Ask, Level

    Prompter = Callable[[str, int, int], str]
    """Seed, position among the texts of a level and words wanted become a text."""

SEPARATOR = "\n\n"
"""Stands between the parts of a message; one token as a rule."""
CHARS_PER_TOKEN = 3
"""Of what stands as it is, to be on the safe side: English has about four, JSON fewer."""

_CLOSED_LOOP = Arrangement()


class Texts:
    """The texts of a level in the making. Each begins with another word than its neighbours."""

    def __init__(self, level: Level, prompter: Prompter = prompt) -> None:
        self._level = level
        self._prompter = prompter
        self._wanted: list[Wanted] = []

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """All of them so far."""
        return tuple(self._wanted)

    def add(self, tokens: int) -> int:
        """One more text that comes to ``tokens`` as a message; returns its position."""
        words = max(1, tokens - self._level.overhead_tokens)
        text = self._prompter(self._level.seed, len(self._wanted), words)
        self._wanted.append(Wanted(text, tokens))
        return len(self._wanted) - 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request before its texts are known.

    Attributes:
        parts: What the user's message is joined of: positions among the texts, or words that
            stand as they are.
        max_tokens: Length of the answer, or its limit if it is ``natural``.
        nonce: Requests with different ones must not reuse each other's prompts.
        response_format: What the answer must look like.
        messages: Instead of parts: the user's own messages.
    """

    parts: tuple[int | str, ...]
    max_tokens: int
    nonce: str
    natural: bool = False
    response_format: Mapping[str, Any] | None = None
    messages: tuple[ChatMessage, ...] = ()

    @property
    def asked_tokens(self) -> int | None:
        """Tokens that its answer must have; ``None`` if it may stop where it likes."""
        return None if self.natural else self.max_tokens

    def said(self, texts: Sequence[str]) -> tuple[ChatMessage, ...]:
        """Its messages. The one of a user alone: not every template knows another role."""
        if self.messages:
            return self.messages
        content = SEPARATOR.join(
            texts[part] if isinstance(part, int) else part for part in self.parts
        )
        return ({"role": "user", "content": content},)

    def prompt_tokens(self, wanted: Sequence[Wanted]) -> int:
        """What its own messages come to at most, as far as that can be told beforehand."""
        known = sum(wanted[part].tokens for part in self.parts if isinstance(part, int))
        free = [part for part in self.parts if isinstance(part, str)]
        free += [str(message.get("content", "")) for message in self.messages]
        return known + sum(-(-len(text) // CHARS_PER_TOKEN) for text in free)

    def body(self, ask: Ask, texts: Sequence[str]) -> bytes:
        """As bytes to send."""
        return ask.body(
            self.said(texts),
            max_tokens=self.max_tokens,
            natural=self.natural,
            response_format=self.response_format,
            nonce=self.nonce,
        )

    def turn(self, ask: Ask, texts: Sequence[str]) -> Turn:
        """As a step of a conversation."""
        fields = ask.fields(
            max_tokens=self.max_tokens,
            natural=self.natural,
            response_format=self.response_format,
            nonce=self.nonce,
        )
        return Turn(self.said(texts), fields)


@dataclass(frozen=True, slots=True)
class TrackDraft:
    """A track, and what it will send: requests, or conversations."""

    track: Track
    requests: tuple[Request, ...] = ()
    chains: tuple[tuple[Request, ...], ...] = ()

    @property
    def all_requests(self) -> tuple[Request, ...]:
        """In the order in which their samples are numbered."""
        return (*self.requests, *(request for chain in self.chains for request in chain))

    def build(self, ask: Ask, texts: Sequence[str]) -> Track:
        """The track with its bodies and turns."""
        return replace(
            self.track,
            bodies=tuple(request.body(ask, texts) for request in self.requests),
            chains=tuple(
                tuple(request.turn(ask, texts) for request in chain) for chain in self.chains
            ),
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """A level but for the final texts and the engine's API.

    Attributes:
        wanted: Its texts, with the lengths that they should have.
        warmup_burst: Requests of warm-up at once.
        distinct: Of a replay, the user's own requests; 0 where every request is another.
    """

    wanted: tuple[Wanted, ...]
    tracks: tuple[TrackDraft, ...]
    warmup: tuple[Request, ...]
    warmup_burst: int
    arrangement: Arrangement = _CLOSED_LOOP
    distinct: int = 0

    @property
    def longest(self) -> tuple[int, int]:
        """Prompt, with what was said before it, and answer of the request with the most tokens.

        The context of one request must hold both.
        """
        chains = [[request] for track in self.tracks for request in track.requests]
        chains += [list(chain) for track in self.tracks for chain in track.chains]
        chains += [[request] for request in self.warmup]
        return max((self._length(chain) for chain in chains), key=sum)

    def _length(self, chain: Sequence[Request]) -> tuple[int, int]:
        """Of a conversation's last request: everything before it stands in its prompt."""
        prompts = sum(request.prompt_tokens(self.wanted) for request in chain)
        answers = [request.max_tokens for request in chain]
        return prompts + sum(answers[:-1]), answers[-1]

    def plan(self, ask: Ask, texts: Sequence[str] | None = None) -> LevelPlan:
        """The level, ready to send.

        Args:
            ask: The engine's API.
            texts: Those of ``wanted`` at their final length; by itself the first drafts.
        """
        said = [one.text for one in self.wanted] if texts is None else texts
        requests = [request for track in self.tracks for request in track.all_requests]
        return LevelPlan(
            tracks=tuple(track.build(ask, said) for track in self.tracks),
            warmup_bodies=tuple(request.body(ask, said) for request in self.warmup),
            warmup_burst=self.warmup_burst,
            asked_output_tokens=tuple(request.asked_tokens for request in requests),
            most_output_tokens=tuple(request.max_tokens for request in requests),
            arrangement=self.arrangement,
            natural=any(request.natural for request in requests),
        )
