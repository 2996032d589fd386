"""Replay: the user's own prompts, as they stand in a file.

Either JSON lines, each an object with ``prompt`` or ``messages`` and, if known, the
``output_tokens`` of its answer; or ShareGPT's list of conversations, of which the first question
is asked, for an answer as long as the recorded one.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgesweep_agent.errors import SettingsError

from .base import Replayed
from .chat import arriving, lengths
from .draft import Draft, Request, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .base import Level

CHARS_PER_TOKEN = 4
"""Of English text, as a rule of thumb: what a recorded answer comes to."""

_ASKER = frozenset({"human", "user"})


def draft(level: Level) -> Draft:
    """The user's requests in their order, from a seeded place on, and round again if need be.

    They keep what they have in common: that is the user's traffic. A round shares nothing with
    the one before it, nor a level with another.
    """
    count = level.requests + level.warmup_requests
    start = random.Random(level.seed).randrange(len(level.replayed))  # noqa: S311 - a place
    requests = []
    for position, tokens in enumerate(lengths(level, count)):
        lap, place = divmod(position, len(level.replayed))
        one = level.replayed[(start + place) % len(level.replayed)]
        nonce = f"{level.seed}/{lap}"
        requests.append(Request((), one.output_tokens or tokens, nonce, messages=one.messages))
    measured, warmup = requests[: level.requests], requests[level.requests :]
    arranged = arriving(level, Texts(level), tuple(measured), tuple(warmup))
    return replace(arranged, distinct=len(level.replayed))


def read(path: Path) -> tuple[Replayed, ...]:
    """The requests of a file.

    Raises:
        SettingsError: it cannot be read, has none, or one of them is not what it should be; the
            message names file and line (or entry).
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8: {error}") from error
    found = tuple(_one(value, where) for where, value in _entries(path, text))
    if not found:
        raise SettingsError(f"{path}: there is no prompt in it")
    return found


def _entries(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        entries = _parsed(text, str(path))
        yield from ((f"{path}: entry {number}", one) for number, one in enumerate(entries, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", _parsed(line, f"{path}:{number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: not JSON: {error}") from error


def _one(value: Any, where: str) -> Replayed:
    entry = value if isinstance(value, dict) else {}
    if "conversations" in entry:
        return _conversation(entry["conversations"], where)
    prompt, messages = entry.get("prompt"), entry.get("messages")
    if (prompt is None) == (messages is None):
        raise SettingsError(
            f'{where}: wants an object with "prompt" or "messages" (or ShareGPT\'s "conversations")'
        )
    if prompt is not None:
        messages = [{"role": "user", "content": prompt}]
    return Replayed(_messages(messages, where), _output_tokens(entry.get("output_tokens"), where))


def _messages(value: Any, where: str) -> tuple[dict[str, Any], ...]:
    messages = value if isinstance(value, list) else []
    for message in messages:
        fields = message if isinstance(message, dict) else {}
        content = fields.get("content")
        if not isinstance(fields.get("role"), str) or not isinstance(content, str) or not content:
            raise SettingsError(
                f'{where}: a message wants "role" and "content", text that is not empty'
            )
    if not messages:
        raise SettingsError(f"{where}: messages must be a list with at least one message")
    return tuple(messages)


def _output_tokens(value: Any, where: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise SettingsError(f"{where}: output_tokens must be a whole number of at least 1")
    return value


def _conversation(value: Any, where: str) -> Replayed:
    turns = value if isinstance(value, list) else []
    said = [turn for turn in turns if isinstance(turn, dict) and isinstance(turn.get("value"), str)]
    asked = next((i for i, turn in enumerate(said) if turn.get("from") in _ASKER), None)
    if asked is None or not said[asked]["value"]:
        raise SettingsError(f"{where}: a conversation wants a turn from human with a value")
    answer = said[asked + 1]["value"] if asked + 1 < len(said) else ""
    tokens = max(1, round(len(answer) / CHARS_PER_TOKEN)) if answer else None
    return Replayed(({"role": "user", "content": said[asked]["value"]},), tokens)
