from __future__ import annotations

from pathlib import Path

import pytest

from edgesweep.durations import seconds
from edgesweep_agent.core.budget import LevelCost, expected_s, fits
from edgesweep_agent.core.ids import uuid7
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.plan import ManagedSpec, SweepPlan
from edgesweep_agent.settings import load, load_settings, read_secret
from edgesweep_agent.workloads import chat

ATTACHED = '[[contenders]]\nmode = "attached"\nurl = "http://h"\n'
AGENT = """
[device]
id = "{id}"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
{uplink}
"""


def plan(tmp_path, text) -> SweepPlan:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return load(path, SweepPlan)


def test_a_level_has_enough_requests_for_a_median(tmp_path):
    quick = plan(tmp_path, ATTACHED)
    assert [quick.requests_at(c) for c in (1, 2, 4, 8)] == [11, 11, 12, 24]
    assert plan(tmp_path, "requests = 5\n" + ATTACHED).requests_at(64) == 5


def test_paths_are_relative_to_the_plan(tmp_path):
    spec = plan(
        tmp_path,
        '[[contenders]]\nmode="managed"\nmodel="m.gguf"\nslots=2\ncontext_per_request=9\n',
    ).contenders[0]
    assert isinstance(spec, ManagedSpec)
    assert spec.model == tmp_path / "m.gguf"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "contenders: missing"),
        ("levels = [2, 1]\n" + ATTACHED, "must ascend"),
        ("levels = []\n" + ATTACHED, "length >= 1"),
        ("levels = [0]\n" + ATTACHED, ">= 1"),
        ("contenders = []", "at least one contender"),
        ('budget = "soon"\n' + ATTACHED, "is no duration"),
        (ATTACHED + 'name = "a"\n' + ATTACHED + 'name = "a"\n', "must differ"),
        (ATTACHED + "slots = 3\n", "contenders[0].slots: unknown key"),
        ('[[contenders]]\nmode = "guessed"\n', "guessed"),
        ("levels = [1", "not TOML"),
    ],
)
def test_a_wrong_plan_is_told_by_file_and_key(tmp_path, text, says):
    with pytest.raises(SettingsError) as raised:
        plan(tmp_path, text)
    assert says in str(raised.value)
    assert str(tmp_path / "plan.toml") in str(raised.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("120s", 120), ("2m", 120), ("1.5h", 5400), (" 3 s", 3), ("2d", 172_800)],
)
def test_durations(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0s", "-1s", "1w", "s", "1e3"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("elapsed", "budget", "needed", "allowed"),
    [
        (0, None, 1e9, True),
        (0, 10, 0, True),
        (4, 10, 6, True),
        (4, 10, 7, False),
        (10, 10, 0, False),
    ],
)
def test_a_level_begins_only_if_it_fits(elapsed, budget, needed, allowed):
    assert fits(elapsed, budget, needed) is allowed


def test_a_level_is_expected_to_take_its_share_of_the_last_one():
    assert expected_s(None, 4, 12) == 0
    assert expected_s(LevelCost(2, 10, 20.0), 4, 15) == 30.0


def test_run_ids_sort_by_time_and_say_their_version():
    first, second = uuid7(1, b"\xff" * 10), uuid7(2, b"\x00" * 10)
    assert first < second
    assert first[14] == "7"
    assert first[19] in "89ab"


def test_neighbouring_prompts_start_with_different_words_and_repeat_for_a_seed():
    prompts = [chat.prompt("run/1/4", i, 20) for i in range(300)]
    assert len(set(prompts)) == 300
    assert len({text.split()[0] for text in prompts}) == 300
    assert {len(text.split()) for text in prompts} == {20}
    assert prompts[7] == chat.prompt("run/1/4", 7, 20)
    assert prompts[7] != chat.prompt("run/1/8", 7, 20)


@pytest.mark.parametrize(
    ("name", "uplink", "says"),
    [
        ("Orin 7", 'kind = "grpc"\naddress = "h:1"', "must be 1 to 63"),
        ("a", 'kind = "carrier-pigeon"', "carrier-pigeon"),
        ("a", 'kind = "mqtt"', "uplink.host: missing"),
        ("a", 'kind = "mqtt"\nhost = "h"\nport = 0', "uplink.port: "),
        ("a", 'kind = "grpc"\naddress = "h:1"\ntsl = true', "uplink.tsl: unknown key"),
    ],
)
def test_a_wrong_configuration_is_told_by_file_and_key(tmp_path, name, uplink, says):
    path = tmp_path / "agent.toml"
    path.write_text(AGENT.format(id=name, uplink=uplink))
    with pytest.raises(SettingsError) as raised:
        load_settings(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)


def test_secrets_come_from_files_and_are_in_no_message(tmp_path):
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    assert read_secret(secret) == "s3cret"
    assert read_secret(None) is None
    with pytest.raises(SettingsError, match="No such file"):
        read_secret(Path(tmp_path / "absent"))
