from __future__ import annotations

import json
from itertools import pairwise

import pytest

from edgesweep_agent.errors import SettingsError
from edgesweep_agent.workloads.base import Level, Replayed
from edgesweep_agent.workloads.registry import draft
from edgesweep_agent.workloads.replay import read
from edgesweep_agent.workloads.shape import Shape


def user(text):
    return ({"role": "user", "content": text},)


JSONL = """\ufeff{"prompt": "one"}

{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}], "id": 7}
{"prompt": "three\\u2028x", "output_tokens": 99}
"""
SHAREGPT = [
    {"id": "a", "conversations": [
        {"from": "system", "value": "be kind"},
        {"from": "human", "value": "why?"},
        {"from": "gpt", "value": "x" * 400},
        {"from": "human", "value": "and then?"},
    ]},
    {"conversations": [{"from": "human", "value": "who?"}]},
]  # fmt: skip


def test_json_lines(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(JSONL, encoding="utf-8")
    assert read(path) == (
        Replayed(user("one")),
        Replayed(({"role": "system", "content": "s"}, *user("two"))),
        Replayed(user("three\u2028x"), 99),
    )


def test_sharegpt_asks_the_first_question_for_an_answer_as_long(tmp_path):
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps(SHAREGPT, indent=1))
    assert read(path) == (Replayed(user("why?"), 100), Replayed(user("who?")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no prompt"),
        ("\n \n", "no prompt"),
        ("[]", "no prompt"),
        ('{"prompt": "a"}\n{"prompt"', ":2: not JSON"),
        ("[{]", ": not JSON"),
        ('{"prompt": "a"}\n\n{"question": "a"}', ':3: wants an object with "prompt"'),
        ('"a"', ":1: wants an object"),
        ('{"prompt": "a", "messages": []}', ":1: wants"),
        ('{"prompt": ""}', ":1: a message wants"),
        ('{"prompt": 5}', ":1: a message wants"),
        ('{"messages": []}', ":1: messages must be a list"),
        ('{"messages": "a"}', ":1: messages must be a list"),
        ('{"messages": [{"content": "a"}]}', ":1: a message wants"),
        ('{"prompt": "a", "output_tokens": 0}', ":1: output_tokens"),
        ('{"prompt": "a", "output_tokens": true}', ":1: output_tokens"),
        ('{"prompt": "a", "output_tokens": "9"}', ":1: output_tokens"),
        ('[{"prompt": "a"}, {"conversations": []}]', ": entry 2: a conversation wants"),
        ('[{"conversations": [{"from": "gpt", "value": "a"}]}]', ": entry 1: a conversation"),
    ],
)
def test_what_is_wrong_is_told_by_file_and_line(tmp_path, text, says):
    path = tmp_path / "prompts"
    path.write_text(text)
    with pytest.raises(SettingsError) as raised:
        read(path)
    assert str(raised.value).startswith(str(path))
    assert says in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "latin").write_bytes(b'{"prompt": "\xff"}')
    for name, says in (("absent", "No such file"), ("latin", "not UTF-8")):
        with pytest.raises(SettingsError, match=says):
            read(tmp_path / name)


def replayed(tmp_path, requests, seed="run/1/2", **fields):
    shape = Shape(kind="replay", file=tmp_path / "x", output_tokens=64, **fields)
    entries = tuple(Replayed(user(f"p{n}"), 10 + n if n else None) for n in range(5))
    level = Level(shape, 2, requests, seed, warmup_bursts=1, replayed=entries)
    return draft(level)


def test_prompts_come_in_their_order_from_a_seeded_place_on_and_round_again(tmp_path):
    got = replayed(tmp_path, 7)
    requests = [*got.tracks[0].requests, *got.warmup]
    numbers = [int(request.messages[0]["content"][1:]) for request in requests]
    assert [(b - a) % 5 for a, b in pairwise(numbers)] == [1] * 8
    starts = {
        replayed(tmp_path, 7, f"run/1/{n}").tracks[0].requests[0].messages[0]["content"]
        for n in range(30)
    }
    assert len(starts) == 5
    # What was recorded is asked for; else the workload's own length.
    for number, request in zip(numbers, requests, strict=True):
        assert request.max_tokens == 10 + number if number else 48 <= request.max_tokens <= 80


def test_a_round_shares_with_itself_and_with_no_other(tmp_path):
    got = replayed(tmp_path, 7)
    nonces = [request.nonce for request in got.tracks[0].requests]
    assert len(set(nonces[:5])) == 1
    assert set(nonces[:5]).isdisjoint(nonces[5:])
    other = replayed(tmp_path, 7, "run/1/4").tracks[0].requests[0].nonce
    assert other not in nonces


def test_a_replay_may_arrive_as_it_likes(tmp_path):
    got = replayed(tmp_path, 7, arrival="poisson", rate_per_user_per_s=0.5)
    assert len(got.tracks[0].track.arrivals_s) == 7
    assert got.arrangement.window == "open"
