"""What an engine adapter knows: how its engine answers, and what makes requests to it fair.

Adapters are pure: they judge answers that somebody else fetched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from edgesweep_agent.core.counters import Counters, MetricsState, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgesweep_agent.core.answers import Answers, Reply


@dataclass(frozen=True, slots=True)
class Claim:
    """What speaks for an engine, and what speaks against it: never a model's name, never a port.

    Attributes:
        signs: What only this engine answers.
        against: What it would not answer, or why the signs do not suffice.
    """

    signs: tuple[str, ...] = ()
    against: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the answers are certainly this engine's."""
        return bool(self.signs) and not self.against

    @property
    def evidence(self) -> tuple[str, ...]:
        """Both, for people."""
        return (*self.signs, *(f"but {text}" for text in self.against)) if self.signs else ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of itself. ``None`` is "it does not say".

    Attributes:
        slots: Requests it works on at once.
        context_per_request: Tokens that one request may use, prompt and output together.
        settings: Further settings that change what is measured.
        needs_model: It serves nothing until it is told which model.
        hint: What to ask, or to start it with, to learn more.
        evidence: What the engine was recognised by, or why it was not.
    """

    engine: str
    version: str = ""
    build: str = ""
    models: tuple[str, ...] = ()
    weight_format: str = ""
    slots: int | None = None
    context_per_request: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    needs_model: bool = False
    hint: str = ""
    evidence: tuple[str, ...] = ()

    def misfit(self, prompt_tokens: int, output_tokens: int) -> str:
        """Why a request cannot be served whole; empty if it can, or if that is not known."""
        total, limit = prompt_tokens + output_tokens, self.context_per_request
        if limit is None or total <= limit:
            return ""
        return f"{prompt_tokens}+{output_tokens}={total} > {limit}"


@dataclass(frozen=True, slots=True)
class Step:
    """One POST on the way to a token count.

    Attributes:
        path: Where it goes.
        body: The JSON body, out of the model's name and what the step before it read (the
            first one: the text of a user's message).
        read: What the answer says, ``None`` if it does not: text for the next step, or the count.
    """

    path: str
    body: Callable[[str, str], Mapping[str, object]]
    read: Callable[[Reply], str | int | None]


@dataclass(frozen=True, slots=True)
class Counting:
    """How to ask for the exact length of a chat prompt: ways to try, each of a few steps."""

    ways: tuple[tuple[Step, ...], ...]


class Engine(Protocol):
    """One adapter.

    Attributes:
        name: The engine's word in every record.
        paths: What is fetched (GET, no generation) to recognise it and to learn its facts.
        scrape_paths: Where it counts; a later one is asked if those before it told nothing.
        emulates: Engines whose signs it shows beside its own.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def paths(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def scrape_paths(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def emulates(self) -> tuple[str, ...]: ...  # noqa: D102

    def claim(self, answers: Answers) -> Claim:
        """What in the answers speaks for this engine."""

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """What the server says of itself, and of one model where it has several."""

    def bound(self, model: str) -> Engine:
        """The adapter for one model of a server whose addresses depend on it."""

    def counters(self, answers: Answers) -> Counters:
        """What the answers to ``scrape_paths`` say."""

    def counting(self) -> Counting | None:
        """How to ask for prompt lengths; ``None`` if it cannot be asked."""

    def body_fields(self) -> Mapping[str, object]:
        """Fields beyond OpenAI's for greedy requests of a fixed output length."""

    def natural_fields(self) -> Mapping[str, object]:
        """Fields for requests that stop by themselves, with the engine's own sampler."""

    def request_fields(self, nonce: str) -> Mapping[str, object]:
        """Fields of one request that keep it from what a cache holds of others.

        Args:
            nonce: Different for each request that must not share, not empty.
        """


class Adapter(ABC):
    """What most engines have in common: they say little and take no field beyond OpenAI's.

    A strict server refuses fields that it does not know.
    """

    name = "unknown"
    paths: tuple[str, ...] = ("/v1/models",)
    scrape_paths: tuple[str, ...] = ()
    emulates: tuple[str, ...] = ()

    def bound(self, model: str) -> Engine:  # noqa: ARG002 - one address for every model
        """Itself."""
        return self

    def counters(self, answers: Answers) -> Counters:  # noqa: ARG002 - nothing was asked
        """Nothing."""
        return silent(MetricsState.ABSENT, f"{self.name} tells no figures")

    def counting(self) -> Counting | None:
        """It cannot be asked."""
        return None

    def body_fields(self) -> Mapping[str, object]:
        """None."""
        return {}

    def natural_fields(self) -> Mapping[str, object]:
        """None."""
        return {}

    def request_fields(self, nonce: str) -> Mapping[str, object]:  # noqa: ARG002 - as above
        """None."""
        return {}

    @abstractmethod
    def claim(self, answers: Answers) -> Claim:
        """What in the answers speaks for this engine."""

    @abstractmethod
    def facts(self, answers: Answers, model: str | None) -> Facts:
        """What the server says of itself, and of one model where it has several."""
