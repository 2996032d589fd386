"""Chat in readable English with natural stops: what speculative decoding is measured with.

A draft model, or a look-up of n-grams, guesses plain text far better than random words, and text
behind an end that was overruled far better than any: both would be figures of nothing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .chat import unrelated
from .words import first_word

if TYPE_CHECKING:
    from .base import Level
    from .draft import Draft

TOKENS_PER_WORD = 1.3
"""Of English prose with its punctuation, as far as a first draft goes."""

_ASKS = (
    "Write a short summary of these notes for the next shift.",
    "Explain to a new colleague what happened and why it matters.",
    "List what should be checked first, and give a reason for each point.",
    "Write a friendly message to the supplier about this.",
    "Say which of these events belong together, and what may have caused them.",
)
_SENTENCES = (
    "The {machine} on line {n} stopped twice during the {time}, each time for about {m} minutes.",
    "Somebody had left the cover of the {machine} open, so the guard switch kept it from starting.",
    "We measured {m} degrees at the {part}, which is a little more than last week.",
    "The {part} makes a dull noise when the {machine} slows down, but not when it speeds up.",
    "A new roll of film was put in early in the {time}, and the sealing has been clean since.",
    "Quality took {n} samples from the {machine} and found nothing wrong with them.",
    "The supplier says that the {part} should be replaced every {m} days.",
    "It rained in the {time}, and water came in near the door behind line {n}.",
    "The forklift cannot pass when the pallets stand in front of the {machine}.",
    "After the {part} had been cleaned, the pressure went back to normal within {m} minutes.",
    "Two colleagues from the {time} will be on a training course tomorrow.",
    "The display of the {machine} shows the wrong time, which makes the records hard to compare.",
    "Nobody knows why the {machine} used {m} percent more power than on the day before.",
    "The spare {part} is in the second cabinet, on the shelf at the top.",
    "An alarm about the {part} came up {n} times, and went away without anybody doing anything.",
    "Please do not run the {machine} faster until the {part} has been looked at.",
    "The order for line {n} was changed at noon, so the labels had to be printed again.",
    "There is still some oil under the {machine}, although the {part} is new.",
    "The inspector wants to see the log of the {machine} on Thursday.",
    "When the {part} is cold, the first {m} pieces come out too thin.",
)
_WORDS = {
    "machine": ("press", "oven", "packing machine", "mixer", "conveyor", "pump", "labeller"),
    "part": ("bearing", "valve", "motor", "belt", "filter", "sensor", "coupling", "hose"),
    "time": ("early shift", "late shift", "night shift", "morning", "afternoon"),
}


def draft(level: Level) -> Draft:
    """Unrelated questions about notes from a plant."""
    return unrelated(level, notes, natural=True)


def notes(seed: str, index: int, tokens: int) -> str:
    """A question and readable notes of about ``tokens`` tokens, in whole sentences.

    Args:
        seed: What the prompts of a level have in common.
        index: Position of the prompt; neighbours start with different words.
        tokens: About how long.
    """
    rng = random.Random(f"{seed}/{index}")  # noqa: S311 - text, not keys
    title = first_word(seed, index).capitalize()
    text = [f"{title} is the word of the day, and these are its notes. {rng.choice(_ASKS)}"]
    words = len(text[0].split())
    while words < tokens / TOKENS_PER_WORD:
        text.append(_sentence(rng))
        words += len(text[-1].split())
    return " ".join(text)


def _sentence(rng: random.Random) -> str:
    words = {name: rng.choice(choices) for name, choices in _WORDS.items()}
    return rng.choice(_SENTENCES).format(n=rng.randint(2, 9), m=rng.randint(3, 95), **words)
