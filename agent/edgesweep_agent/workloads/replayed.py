"""What a replay's file holds: the lengths that a record states for it."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from . import replay
from .shape import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Replayed
    from .shape import Shape


def stated(shape: Shape) -> Shape:
    """A replay's shape with the mean lengths of its file; any other shape as it is.

    Raises:
        SettingsError: the file cannot be replayed.
    """
    if shape.kind != "replay" or shape.file is None:
        return shape
    found = replay.read(shape.file)
    return msgspec.structs.replace(
        shape,
        prompt_tokens=_prompt_tokens(found),
        output_tokens=_output_tokens(found, shape.output_tokens),
    )


def _prompt_tokens(found: Sequence[Replayed]) -> int:
    """Before an engine has counted them: by the rule of thumb for English text."""
    chars = fmean(sum(len(message["content"]) for message in one.messages) for one in found)
    return _within(chars / replay.CHARS_PER_TOKEN)


def _output_tokens(found: Sequence[Replayed], default: int) -> int:
    """The file's own, if it has one for every request: else the default is what the rest takes."""
    told = [one.output_tokens for one in found if one.output_tokens is not None]
    return _within(fmean(told)) if len(told) == len(found) else default


def _within(tokens: float) -> int:
    return min(MOST, max(1, round(tokens)))
