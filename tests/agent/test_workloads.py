from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import get_args

import msgspec
import pytest

from edgesweep_agent.core.arrangement import Arrangement
from edgesweep_agent.loadgen import job
from edgesweep_agent.workloads.base import Level, Track, Turn
from edgesweep_agent.workloads.registry import (
    DRAFTS,
    MEANINGS,
    QUICK,
    SHARING,
    WORKLOADS,
    draft,
)
from edgesweep_agent.workloads.shape import Kind, Shape

NAMES = [
    "chat-64-32",
    "chat-128-256",
    "chat-512-128",
    "chat-natural-512-128",
    "rag-4096-256",
    "ctx-1k",
    "ctx-4k",
    "ctx-8k",
    "fanout-2048+256-128",
    "agent-8x",
    "pipeline",
    "incident",
    "interference-operator",
    "interference-fanout",
]


class Plain:
    """An API that takes everything as it is told."""

    def fields(self, **fields):
        return fields

    def body(self, messages, **fields):
        return json.dumps({"messages": list(messages), **fields}).encode()


def arranged(name, concurrency=4, requests=12, seed="run/1/4", **fields):
    shape = WORKLOADS[name] if isinstance(name, str) else Shape(**name)
    return draft(Level(shape, concurrency, requests, seed, **fields))


def bodies(track):
    return [json.loads(body) for body in track.bodies]


def said(body):
    (message,) = body["messages"]
    assert message["role"] == "user"
    return message["content"]


def first_words(texts):
    return [text.split()[0] for text in texts]


def test_every_name_of_the_table_is_there_with_a_meaning():
    assert list(WORKLOADS) == NAMES
    assert set(MEANINGS) == {*NAMES, "replay"}
    assert all(name == shape.name == shape.workload().name for name, shape in WORKLOADS.items())
    assert set(DRAFTS) == set(get_args(Kind))
    assert {shape.kind for shape in WORKLOADS.values()} | {"replay"} == set(DRAFTS)
    assert QUICK is WORKLOADS["chat-64-32"]
    assert {WORKLOADS[name].kind in SHARING for name in NAMES[:8]} == {False}
    assert {WORKLOADS[name].kind in SHARING for name in NAMES[8:]} == {True}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_load_generator_takes_every_workload(name, concurrency):
    plan = arranged(name, concurrency).plan(Plain())
    tracks = [msgspec.convert(dataclasses.asdict(track), job.Track) for track in plan.tracks]
    assert sum(track.size for track in tracks) == plan.requests >= 12
    names = [track.name for track in tracks]
    assert len(set(names)) == len(names)
    for track in tracks:
        for other in (track.after, track.until):
            assert not other or other in names
    assert len(plan.warmup_bodies) == 4 * concurrency
    assert plan.warmup_burst == concurrency
    assert plan.natural is (None in plan.asked_output_tokens)


@pytest.mark.parametrize(("own", "theirs"), [(Track, job.Track), (Turn, job.Turn)])
def test_tracks_have_the_fields_of_the_load_generators(own, theirs):
    assert [one.name for one in dataclasses.fields(own)] == list(theirs.__struct_fields__)


@pytest.mark.parametrize("name", NAMES)
def test_a_level_is_the_same_for_every_contender_and_no_other_level_has_its_texts(name):
    one, other = arranged(name), arranged(name, seed="run/2/4")
    assert one == arranged(name)
    assert not {text.text for text in one.wanted} & {text.text for text in other.wanted}


def test_no_workload_of_a_session_has_the_texts_of_another():
    starts = [" ".join(arranged(name).wanted[0].text.split()[:3]) for name in NAMES]
    assert len(set(starts)) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_texts_begin_with_different_words(name):
    texts = [one.text for one in arranged(name, 2).wanted]
    assert len(set(first_words(texts))) == len(texts)


def test_chat_is_a_closed_loop_of_unrelated_requests():
    plan = arranged("chat-512-128", overhead_tokens=30).plan(Plain())
    (track,) = plan.tracks
    assert (track.name, track.concurrency, track.arrivals_s) == ("", 4, None)
    sent = bodies(track)
    everything = [said(body) for body in (*sent, *map(json.loads, plan.warmup_bodies))]
    assert len(set(first_words(everything))) == 12 + 16
    assert {len(text.split()) for text in everything} == {482}
    assert [body["max_tokens"] for body in sent] == list(plan.asked_output_tokens)
    assert sum(plan.asked_output_tokens) == 12 * 128
    assert min(plan.asked_output_tokens) >= 96
    assert max(plan.asked_output_tokens) <= 160
    assert len(set(plan.asked_output_tokens)) > 6
    assert {json.loads(body)["max_tokens"] for body in plan.warmup_bodies} == {128}
    assert len({body["nonce"] for body in sent}) == 12
    assert plan.arrangement == Arrangement()
    assert not plan.open_ended
    assert not plan.needs_text


def test_prompts_are_wanted_at_their_length_and_sent_as_fitted():
    got = arranged("ctx-1k")
    assert {one.tokens for one in got.wanted} == {1024}
    plan = got.plan(Plain(), [f"text {n}" for n in range(len(got.wanted))])
    assert [said(body) for body in bodies(plan.tracks[0])] == [f"text {n}" for n in range(12)]


def test_an_open_loop_has_as_many_users_as_the_level():
    shape = {"arrival": "poisson", "rate_per_user_per_s": 0.5}
    (one,) = arranged(shape, 1, 400).plan(Plain()).tracks
    plan = arranged(shape, 8, 400).plan(Plain())
    (eight,) = plan.tracks
    assert len(eight.arrivals_s) == len(eight.bodies) == 400
    assert one.arrivals_s[-1] == pytest.approx(8 * eight.arrivals_s[-1])
    assert one.arrivals_s[-1] == pytest.approx(800, rel=0.2)
    assert plan.window == "open"


def test_natural_text_is_readable_and_stops_where_it_likes():
    plan = arranged("chat-natural-512-128").plan(Plain())
    sent = bodies(plan.tracks[0])
    assert plan.natural
    assert set(plan.asked_output_tokens) == {None}
    assert {(body["natural"], body["max_tokens"]) for body in sent} == {(True, 128)}
    for body in sent:
        text = said(body)
        assert text.endswith(".")
        assert "{" not in text
        assert 512 / 1.3 <= len(text.split()) < 512 / 1.3 + 30


def test_a_fan_out_has_cold_and_warm_bursts_each_with_its_join():
    plan = arranged("fanout-2048+256-128").plan(Plain())
    names = [track.name for track in plan.tracks]
    assert names == [
        "cold/1", "cold/1/join", "warm/1", "warm/1/join", "again/1",
        "cold/2", "cold/2/join", "warm/2", "warm/2/join",
        "cold/3", "cold/3/join", "warm/3", "warm/3/join",
    ]  # fmt: skip
    assert [track.after for track in plan.tracks] == ["", *names[:-1]]
    by_name = {track.name: track for track in plan.tracks}
    assert [len(track.bodies) for track in plan.tracks[:5]] == [4, 1, 4, 1, 4]
    assert [track.concurrency for track in plan.tracks[:5]] == [4, 1, 4, 1, 4]
    assert by_name["again/1"].bodies == by_name["cold/1"].bodies
    assert plan.arrangement == Arrangement(window="burst", shared_tokens=2048)
    assert plan.needs_text
    assert not plan.natural


def test_a_burst_shares_its_opening_and_nothing_else():
    plan = arranged("fanout-2048+256-128", overhead_tokens=20).plan(Plain())
    openings = {}
    for track in plan.tracks:
        for body in bodies(track):
            opening, _, own = said(body).partition("\n\n")
            openings.setdefault(track.name.split("/")[1], set()).add((opening, body["nonce"]))
            assert len(opening.split()) == 2048
            assert len(own.split()) == (4 * 32 if track.name.endswith("join") else 235)
    assert {len(found) for found in openings.values()} == {1}
    warm = [json.loads(body) for body in plan.warmup_bodies]
    found = {(said(body).partition("\n\n")[0], body["nonce"]) for body in warm}
    assert len(set.union(found, *openings.values())) == 3 + 4
    questions = [body for track in plan.tracks[:1] for body in bodies(track)]
    assert len({said(body) for body in questions}) == 4


def test_all_bursts_ask_for_the_same_lengths():
    plan = arranged("fanout-2048+256-128").plan(Plain())
    asked = [
        [body["max_tokens"] for body in bodies(track)]
        for track in plan.tracks
        if not track.name.endswith("join")
    ]
    assert asked == [asked[0]] * 7
    assert sum(asked[0]) == 4 * 128
    assert len(set(asked[0])) > 1


def test_bursts_are_repeated_until_there_are_enough_requests():
    tracks = arranged("fanout-2048+256-128", 4, 95).plan(Plain()).tracks
    assert max(int(track.name.split("/")[1]) for track in tracks) == 10


def test_an_agent_makes_eight_calls_in_one_conversation():
    plan = arranged("agent-8x", 2, 33).plan(Plain())
    names = [f"task/{n}" for n in range(1, 6)]
    assert [track.name for track in plan.tracks] == names
    assert [track.after for track in plan.tracks] == ["", "", *names[:3]]
    assert plan.asked_output_tokens == (None,) * 40
    chains = [chain for track in plan.tracks for chain in track.chains]
    assert {len(chain) for chain in chains} == {8}
    starts = [chain[0].messages[0]["content"] for chain in chains]
    assert len(set(first_words(starts))) == 5
    assert all("read_sensor" in text for text in starts)
    for chain in chains:
        assert len({turn.fields["nonce"] for turn in chain}) == 1
        for turn in chain:
            assert len(turn.messages) == 1
            assert turn.fields["response_format"]["type"] == "json_schema"
            assert turn.fields["max_tokens"] == 96
    assert plan.arrangement.steps == tuple(f"call {n}" for n in range(1, 9))
    assert plan.needs_text
    # A warm-up request is as long as the last step.
    assert len(json.loads(plan.warmup_bodies[0])["messages"][0]["content"].split()) > 8 * 256


def test_the_roles_of_a_pipeline_have_shapes_of_their_own():
    plan = arranged("pipeline", 1).plan(Plain())
    assert plan.asked_output_tokens == (128, 128, 384, 64) * 3
    assert plan.arrangement.steps == ("planner", "architect", "developer", "qa")
    assert [len(turn.messages[0]["content"].split()) for turn in plan.tracks[0].chains[0]] == [
        256 + 5, 512 + 5, 512 + 5, 256 + 5,
    ]  # fmt: skip
    assert not plan.needs_text


def test_an_incident_goes_from_one_fault_over_three_tools_to_a_join():
    plan = arranged("incident", 2).plan(Plain())
    assert [(track.name, track.after, len(track.bodies)) for track in plan.tracks[4:12]] == [
        ("task/2/fault", "", 1),
        ("task/2/tools", "task/2/fault", 3),
        ("task/2/summaries", "task/2/tools", 3),
        ("task/2/join", "task/2/summaries", 1),
        ("task/3/fault", "task/1/join", 1),
        ("task/3/tools", "task/3/fault", 3),
        ("task/3/summaries", "task/3/tools", 3),
        ("task/3/join", "task/3/summaries", 1),
    ]
    faults = Counter(said(body).split("\n\n")[0] for track in plan.tracks for body in bodies(track))
    assert set(faults.values()) == {8}
    assert plan.arrangement.steps == ("fault", "tools", "summaries", "join")


@pytest.mark.parametrize(
    ("name", "resident", "newcomer", "sizes"),
    [
        ("interference-operator", ("fanout", 4), ("operator", 1), (22 + 4 * 34, 11)),
        ("interference-fanout", ("operator", 1), ("fanout", 4), (55, 44)),
    ],
)
def test_interference_has_a_load_that_stays_and_one_that_comes_and_goes(
    name, resident, newcomer, sizes
):
    plan = arranged(name).plan(Plain())
    there, other = plan.tracks
    assert ((there.name, there.concurrency), (other.name, other.concurrency)) == (
        resident,
        newcomer,
    )
    assert (there.until, there.until_more) == (other.name, 11)
    assert (other.after, other.after_done) == (there.name, 11)
    assert (len(there.bodies), len(other.bodies)) == sizes
    assert plan.open_ended
    assert plan.arrangement == Arrangement(
        window="phases", resident=there.name, newcomer=other.name
    )
    fanned = [
        said(body).partition("\n\n")[0] for body in bodies(there if name == NAMES[-2] else other)
    ]
    assert set(Counter(fanned).values()) <= {4, len(fanned) % 4}
    assert len(fanned[0].split()) == 1024


def test_phases_grow_with_the_requests():
    assert arranged("interference-fanout", 2, 60).plan(Plain()).tracks[1].after_done == 20


@pytest.mark.parametrize(
    ("shape", "longest"),
    [
        ({"prompt_tokens": 100, "output_tokens": 40, "spread": 0.0}, 140),
        ({"prompt_tokens": 100, "output_tokens": 40, "kind": "fanout", "shared_tokens": 500,
          "spread": 0.0}, 500 + 4 * 32 + 40),
        ({"prompt_tokens": 100, "output_tokens": 40, "kind": "pipeline"},
         6 * 100 + 220 + 9 + 10 + 10 + 7),
    ],
)  # fmt: skip
def test_the_context_that_the_longest_request_needs(shape, longest):
    assert sum(arranged(shape).longest) == longest


def test_an_agents_context_grows_from_call_to_call():
    assert sum(arranged("agent-8x").longest) > 8 * (256 + 96)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "fanout"}, "shared_tokens"),
        ({"shared_tokens": 5}, "shared_tokens"),
        ({"kind": "replay"}, "file"),
        ({"arrival": "poisson"}, "rate_per_user_per_s"),
        ({"arrival": "poisson", "rate_per_user_per_s": 1.0, "kind": "agent"}, '"agent"'),
    ],
)
def test_shapes_that_contradict_themselves(fields, says):
    with pytest.raises(ValueError, match=says):
        Shape(**fields)


def test_an_unnamed_shape_is_called_by_its_kind_and_lengths():
    assert Shape(100, 20, kind="pipeline").workload().name == "pipeline-100-20"
    assert Shape(100, 20).workload().name == "chat-100-20"
