"""Named starting points for a plan: what a question needs, so that nobody has to work it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {
        "workloads": ["chat-64-32"],
        "levels": [1, 2, 4, 8, 16, 32],
        "order": "ascending",
        "budget": "120s",
    },
    "standard": {
        "workloads": ["chat-512-128"],
        "levels": [1, 2, 4, 8, 16],
        "budget": "2h",
    },
    "headline": {
        "workloads": ["chat-512-128"],
        "levels": [1, 2, 4, 8, 16, 32],
        "sessions": 3,
        "min_requests": 130,
        "requests_per_stream": 10,
        "precision": 0.02,
        "second_pass": True,
        "thermal": "soaked",
    },
    "agents": {
        "workloads": ["fanout-2048+256-128", "agent-8x", "interference-operator"],
        "levels": [1, 2, 4, 8],
        "budget": "4h",
    },
}
"""``quick``: a look, in two minutes. ``standard``: one session of the usual shape. ``headline``:
the figures that go into a report, with intervals. ``agents``: whether requests that share an
opening, call tools or get in each other's way change the answer."""

MEANINGS = {
    "quick": "a look at one server in two minutes",
    "standard": "one session of chat-512-128 at 1 to 16",
    "headline": "three sessions to 2 % precision, soaked, with a second pass: for a report",
    "agents": "fan-out, tool calls and interference",
}
"""What each is for, for people who choose."""


def with_preset(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's tree over the preset that it names.

    Raises:
        ValueError: there is no such preset.
    """
    own = dict(tree)
    name = own.pop("preset", None)
    if name is None:
        return own
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"preset: there is no {name!r}; there is {', '.join(PRESETS)}")
    return {**PRESETS[name], "name": name, **own}
