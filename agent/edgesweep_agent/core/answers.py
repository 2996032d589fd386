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
        except ValueError:
            return None

    @property
    def is_html(self) -> bool:
        """Whether the body is a page for people."""
        start = self.text.lstrip()[:15].lower()
        return start.startswith(("<!doctype", "<html"))


Answers = dict[str, Reply]
"""What a server answered, by path; a path without an HTTP answer is missing."""

NO_REPLY = Reply(0, {}, "")


def listed_models(answers: Answers) -> list[dict[str, Any]]:
    """The entries of ``GET /v1/models``; what is no list of objects has none."""
    listed = answers.get("/v1/models", NO_REPLY).json_object().get("data")
    return [x for x in listed if isinstance(x, dict)] if isinstance(listed, list) else []


def models_of(answers: Answers) -> tuple[str, ...]:
    """The model names of ``GET /v1/models``, aliases included, in the server's order."""
    names: list[str] = []
    for entry in listed_models(answers):
        names.append(str(entry.get("id", "")))
        aliases = entry.get("aliases")
        names.extend(str(alias) for alias in (aliases if isinstance(aliases, list) else []))
    return tuple(dict.fromkeys(name for name in names if name))
