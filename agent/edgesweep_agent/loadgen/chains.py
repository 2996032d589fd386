"""A conversation: its history, which grows by what the model really answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from edgesweep_agent.core.interpret import read_answer

if TYPE_CHECKING:
    from edgesweep_agent.core.exchange import Exchange
    from edgesweep_agent.core.interpret import Answer

    from .job import Turn


class Conversation:
    """One chain under way."""

    def __init__(self) -> None:
        self._history: list[dict[str, Any]] = []
        self._unanswered: deque[str] = deque()

    def request(self, turn: Turn) -> bytes:
        """JSON of the next request: all that was said, and the turn's messages."""
        self._history += [self._addressed(message) for message in turn.messages]
        return msgspec.json.encode({**turn.fields, "messages": self._history})

    def hear(self, exchange: Exchange) -> bool:
        """Takes the model's answer into the history; whether there is one to go on from."""
        answer = read_answer(exchange)
        if answer.reason:
            return False
        self._history.append(self._message(answer))
        return True

    def _message(self, answer: Answer) -> dict[str, Any]:
        """The assistant message. Reasoning is left out, as OpenAI's and vLLM's clients do."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.content}
        if answer.tool_calls:
            ids = [
                call.id or f"call_{len(self._history)}_{position}"
                for position, call in enumerate(answer.tool_calls)
            ]
            self._unanswered = deque(ids)
            message["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for name, call in zip(ids, answer.tool_calls, strict=True)
            ]
        return message

    def _addressed(self, message: dict[str, Any]) -> dict[str, Any]:
        """A tool's result says which call it is of; servers refuse one that does not."""
        if message.get("role") != "tool" or "tool_call_id" in message or not self._unanswered:
            return message
        return {**message, "tool_call_id": self._unanswered.popleft()}
