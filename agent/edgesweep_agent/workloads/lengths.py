"""Prompts of an exact length in tokens, by the engine's own tokenizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

FILLER = "the"
"""One token in nearly every vocabulary, which makes the last few tokens exact."""
FEW = 8
"""So many tokens at most are filled up with the one word."""
MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text, and the tokens that it should come to.

    Attributes:
        text: A first draft, with about as many words as wanted tokens.
        tokens: As the only message of a user, with what the chat template adds.
    """

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """Texts made as long as wanted.

    Attributes:
        texts: In the order in which they were wanted.
        calibrated: Whether the engine's tokenizer was asked; otherwise they are first drafts.
        worst_tokens: The largest distance left from what was wanted; ``None`` if uncalibrated.
    """

    texts: tuple[str, ...]
    calibrated: bool
    worst_tokens: int | None = None


def adjust(text: str, counted: int, wanted: int) -> str:
    """A longer or shorter text, one step closer to the wanted length.

    The first words stay: they are what makes a prompt differ from all others.

    Args:
        text: A text of at least one word.
        counted: Tokens that it comes to.
        wanted: Tokens that it should come to.
    """
    words = text.split()
    missing = wanted - counted
    per_word = max(1.0, counted / len(words))
    if missing < 0:
        fewer = min(len(words) - 1, math.ceil(-missing / per_word))
        return text.rsplit(None, fewer)[0] if fewer else text
    if missing <= FEW:
        return " ".join([text, *[FILLER] * missing])
    more = max(1, int(missing / per_word))
    return " ".join([text, *islice(cycle(words[1:] or words), more)])


async def fit_prompts(
    wanted: Sequence[Wanted],
    count: Callable[[list[str]], Awaitable[list[int] | None]],
    max_rounds: int = MAX_ROUNDS,
) -> Fitted:
    """Adjust each text until it is exact, or as close as it gets in so many rounds.

    Args:
        wanted: The texts.
        count: Says how many tokens each of some texts comes to; ``None`` if nobody can tell.
        max_rounds: How often to ask; each round asks only for texts that are not exact yet.
    """
    texts = [one.text for one in wanted]
    best: dict[int, tuple[int, str]] = {}
    inexact = list(range(len(wanted)))
    for _ in range(max_rounds):
        if not inexact:
            break
        counts = await count([texts[i] for i in inexact])
        if counts is None:
            return Fitted(tuple(one.text for one in wanted), calibrated=False)
        for i, counted in zip(inexact, counts, strict=True):
            off = abs(counted - wanted[i].tokens)
            best[i] = min(best.get(i, (off, texts[i])), (off, texts[i]))
            texts[i] = adjust(texts[i], counted, wanted[i].tokens)
        inexact = [i for i in inexact if best[i][0]]
    fitted = tuple(best[i][1] for i in range(len(wanted)))
    return Fitted(
        fitted, calibrated=True, worst_tokens=max((off for off, _ in best.values()), default=0)
    )
