"""What a server answered to a few plain questions; judged here by bodies, not by status codes.

LM Studio answers 200 with an error to unknown paths, and some proxies answer 200 to anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json_object(self) -> dict[str, Any]:
        """The body if it is a JSON object, else an empty one."""
        body = self._json()
        return body if isinstance(body, dict) else {}

    def json_array(self) -> list[Any]:
        """The body if it is a JSON array, else an empty one."""
        body = self._json()
        return body if isinstance(body, list) else []

    def _json(self) -> object:
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    @property
    def is_html(self) -> bool:
        """Whether the body is a page for people."""
        start = self.text.lstrip()[:15].lower()
        return start.startswith(("<!doctype", "<html"))


Answers = dict[str, Reply]
"""What a server answered, by path; a path without an HTTP answer is missing."""

NO_REPLY = Reply(0, {}, "")


def object_at(answers: Answers, path: str) -> dict[str, Any]:
    """The JSON object that ``path`` answered, an empty one where it did not."""
    return answers.get(path, NO_REPLY).json_object()


def objects_in(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; what is no list has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_in(value: object) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


_MOST = 2**31
"""No server has as many slots, or as long a context."""
_VERSION_CHARS = 80


def positive(value: object) -> int | None:
    """A count that a server tells: zero, text and the like are "it does not say".

    Gateways written in JavaScript or Lua may send 4096 as 4096.0.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= _MOST else None


def version_of(value: object) -> str:
    """A version as it goes into records: one line of at most 80 characters."""
    return " ".join(text_of(value)[: 8 * _VERSION_CHARS].split())[:_VERSION_CHARS]


def text_of(value: object) -> str:
    """``value`` if it is text, else nothing; halves of characters fit into no record."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def one_line(text: str) -> str:
    """What goes into a sentence, of what a server sent."""
    line = " ".join(text_of(text).split())
    return "".join(sign for sign in line if sign.isprintable())[:200]


def listed_models(answers: Answers) -> list[dict[str, Any]]:
    """The entries of ``GET /v1/models``; what is no list of objects has none."""
    return objects_in(object_at(answers, "/v1/models").get("data"))


def owners_of(answers: Answers) -> frozenset[str]:
    """Every ``owned_by`` of ``GET /v1/models``."""
    return frozenset(text_of(entry.get("owned_by")) for entry in listed_models(answers)) - {""}


def aliases_of(entry: Mapping[str, Any]) -> list[str]:
    """Further names of one entry of a listing."""
    aliases = entry.get("aliases")
    return [text_of(alias) for alias in aliases] if isinstance(aliases, list) else []


def models_of(answers: Answers) -> tuple[str, ...]:
    """The model names of ``GET /v1/models``, aliases included, in the server's order."""
    names: list[str] = []
    for entry in listed_models(answers):
        names += [text_of(entry.get("id")), *aliases_of(entry)]
    return tuple(dict.fromkeys(name for name in names if name))
