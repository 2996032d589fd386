from __future__ import annotations

import asyncio
import zlib

import pytest

from edgesweep_agent.workloads.lengths import Wanted, adjust, fit_prompts
from edgesweep_agent.workloads.natural import notes
from edgesweep_agent.workloads.words import prompt


def in_pieces(text, overhead=7):
    """A tokenizer that cuts a quarter of the words in two, or one in eight in three."""
    cuts = {0: 2, 4: 2, 7: 3}
    words = text.split()
    return overhead + sum(
        1 if word == "the" else cuts.get(zlib.crc32(word.encode()) % 8, 1) for word in words
    )


def fit(wanted, tokenizer=in_pieces, **options):
    asked = []

    async def count(texts):
        asked.append(len(texts))
        return [tokenizer(text) for text in texts]

    return asyncio.run(fit_prompts(wanted, count, **options)), asked


@pytest.mark.parametrize("tokens", [16, 64, 512, 4096])
@pytest.mark.parametrize("prompter", [prompt, notes])
def test_prompts_become_exact_and_keep_their_first_words(tokens, prompter):
    wanted = [Wanted(prompter("seed", index, tokens), tokens) for index in range(4)]
    fitted, asked = fit(wanted)
    assert fitted.calibrated
    assert [in_pieces(text) for text in fitted.texts] == [tokens] * 4
    assert fitted.worst_tokens == 0
    assert len(asked) <= 8
    for text, one in zip(fitted.texts, wanted, strict=True):
        assert text.split()[:2] == one.text.split()[:2]


def test_only_texts_that_are_not_exact_are_counted_again():
    exact = Wanted(" ".join(["the"] * 13), 20)
    _, asked = fit([exact, Wanted(prompt("seed", 1, 20), 20), exact])
    assert asked[0] == 3
    assert set(asked[1:]) == {1}


@pytest.mark.parametrize(
    ("text", "counted", "wanted", "adjusted"),
    [
        ("one two", 2, 2, "one two"),
        ("one two", 2, 5, "one two the the the"),
        ("one two three", 3, 15, " ".join(["one two three", *["two", "three"] * 6])),
        ("one two three four", 4, 2, "one two"),
        ("one two three four", 8, 7, "one two three"),
        ("one two\n\nthree four", 4, 3, "one two\n\nthree"),
        ("one two three", 30, 2, "one"),
        ("one", 9, 2, "one"),
    ],
)  # fmt: skip
def test_one_step(text, counted, wanted, adjusted):
    assert adjust(text, counted, wanted) == adjusted


def test_what_cannot_be_made_exact_comes_as_close_as_it_can():
    """Every token count of this one is a multiple of three, and a prompt has ten at least."""
    fitted, asked = fit(
        [Wanted("alpha beta gamma", 100), Wanted("alpha beta", 5)],
        lambda text: 9 + 3 * len(text.split()),
        max_rounds=12,
    )
    assert len(asked) == 12
    assert 9 + 3 * len(fitted.texts[0].split()) in {99, 102}
    assert fitted.texts[1] == "alpha"
    assert fitted.worst_tokens == 7


def test_without_a_tokenizer_the_drafts_stay_and_it_says_so():
    wanted = [Wanted("one two", 9)]

    async def count(texts):
        return None

    fitted = asyncio.run(fit_prompts(wanted, count))
    assert (fitted.texts, fitted.calibrated, fitted.worst_tokens) == (("one two",), False, None)


def test_nothing_to_fit():
    assert fit([])[0].texts == ()
