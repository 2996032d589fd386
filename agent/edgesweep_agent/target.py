"""A server that answered and can be measured: how requests to it are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import questions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .engines.base import Engine, Facts

CHAT_PATH = "/v1/chat/completions"
_SAMPLING = frozenset({"temperature", "samplers", "top_k", "top_p", "repetition_penalty"})
_REUSE = frozenset({"cache_prompt"})


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answered a completion and can be measured.

    Attributes:
        overhead_tokens: What the chat template adds to a prompt, by the server's own count.
        ready_s: From the first question to the first answer.
        trial_s: What that answer took: a short prompt and one token.
        sampler: ``greedy``, or the engine's ``default``.
        shares: Requests may reuse each other's openings: the engine is not asked to forget.
    """

    url: str
    engine: Engine
    facts: Facts
    model: str
    api_key: str | None
    overhead_tokens: int = 0
    ready_s: float = 0.0
    trial_s: float = 0.0
    sampler: str = "greedy"
    shares: bool = False

    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return questions.bearer(self.api_key)

    def body(self, messages: Sequence[Mapping[str, Any]], **wanted: Any) -> bytes:
        """One streamed chat request as bytes; what is ``wanted`` is that of :meth:`fields`."""
        return json.dumps({"messages": list(messages), **self.fields(**wanted)}).encode()

    def fields(
        self,
        *,
        max_tokens: int,
        natural: bool = False,
        response_format: Mapping[str, Any] | None = None,
        nonce: str = "",
    ) -> dict[str, Any]:
        """All fields of a request but its messages.

        Args:
            max_tokens: The length of the answer; its limit, if it may stop by itself.
            natural: With natural stops and the engine's own sampler, instead of a fixed length.
            response_format: What the answer must look like.
            nonce: Keeps the engine from reusing what it holds of requests with another one.
        """
        shape = {} if response_format is None else {"response_format": dict(response_format)}
        return {
            "model": self.model,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **(self.engine.natural_fields() if natural else self._fixed_fields()),
            **shape,
            **(self.engine.request_fields(nonce) if nonce else {}),
        }

    def _fixed_fields(self) -> dict[str, Any]:
        fields = {"temperature": 0, **self.engine.body_fields()}
        left_out = (_REUSE if self.shares else frozenset()) | (
            _SAMPLING if self.sampler == "default" else frozenset()
        )
        return {name: value for name, value in fields.items() if name not in left_out}
