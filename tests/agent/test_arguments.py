"""What a user types wrong is refused with the option's name, in both kinds of complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.models import OptionInfo

from edgesweep_agent.cli.commands import PROGRAM


def callbacks(app, *names):
    """Every command's words and function, commands within commands included."""
    for one in app.registered_commands:
        yield (*names, one.name or one.callback.__name__), one.callback
    for group in app.registered_groups:
        yield from callbacks(group.typer_instance, *names, group.name)


def parameters(kind):
    """The parameters of a kind: the command's words, the name, and what typer is told of it."""
    for words, function in callbacks(PROGRAM.command_line()):
        for name, hint in get_type_hints(function, include_extras=True).items():
            # Before Python 3.11 what is None by default is wrapped once more.
            for one in (hint, *get_args(hint)):
                if get_origin(one) is Annotated and kind in {
                    (whole := get_args(one))[0],
                    *get_args(whole[0]),
                }:
                    yield words, name, whole[1]


def option_of(name, info):
    """As it is typed; what typer was given first is in the place of a default."""
    names = [one for one in (info.default, *info.param_decls) if str(one).startswith("--")]
    return names[-1] if names else f"--{name.replace('_', '-')}"


FILES = [pytest.param(*one, id=" ".join((*one[0], one[1]))) for one in parameters(Path)]
NUMBERS = [pytest.param(*one, id=" ".join((*one[0], one[1]))) for one in parameters(float)]


def refused(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        PROGRAM.run(list(words))
    assert caught.value.code == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.err.splitlines()[-1]


@pytest.mark.parametrize(("words", "name", "info"), NUMBERS)
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", ""])
def test_no_number_is_what_only_float_takes_for_one(words, name, info, text):
    with pytest.raises(typer.BadParameter):
        info.parser(text)


@pytest.mark.parametrize(("words", "name", "info"), FILES)
def test_an_empty_name_is_no_file(words, name, info, capsys):
    """``Path`` takes it for the folder that one is in."""
    if isinstance(info, OptionInfo):
        option = option_of(name, info)
        told = refused(capsys, *words, option, "")
        assert option in told
    else:
        told = refused(capsys, *words, "--", "")
        assert info.metavar in told
    assert "an empty name names no file" in told


ANYWHERE = ["sweep", "--url", "http://127.0.0.1:9"]


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--wait", "5x", "no duration"),
        ("--wait", "inf", "no duration"),
        ("--wait", "nan", "no duration"),
        ("--wait", "-1", "no duration"),
        ("--budget", "0", "no time at all"),
        ("--budget", "inf", "no duration"),
        ("--precision", "nan", "no finite number"),
        ("--precision", "1", "no share"),
        ("--rate", "inf", "no finite number"),
        ("--rate", "0", "no rate"),
        ("--levels", "0", "--levels 0: Expected `int` >= 1"),
        ("--levels", "1,9999", "--levels 1,9999: Expected `int` <= 4096"),
        ("--levels", "4,2", "--levels 4,2: must ascend"),
        ("--prompt-tokens", "10000000000", "--prompt-tokens 10000000000: Expected"),
        ("--workload", "", "--workload: no workload ''"),
    ],
)
def test_a_value_is_refused_by_its_option(option, value, says, capsys, monkeypatch):
    with pytest.raises(SystemExit) as caught:
        PROGRAM.run([*ANYWHERE, option, value])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert option in told
    assert says in told


def test_a_key_s_file_is_called_as_its_option_is(capsys):
    told = refused(capsys, "sweep", "--url", "http://u:p@h")
    assert "(--api-key-file)" in told


def test_an_offset_is_a_finite_number(capsys):
    for text in ("nan", "inf", "1e300"):
        told = refused(capsys, "meter", "wall.csv", "--run", "run.json", "--offset", text)
        assert "--offset" in told


def test_a_wait_is_a_duration_like_a_budget(capsys):
    """One that is over at once, so that the command says what it waited for."""
    with pytest.raises(SystemExit) as caught:
        PROGRAM.run(["probe", "http://127.0.0.1:9", "--wait", "0.1s"])
    assert caught.value.code == 1
    assert "nothing listens there" in capsys.readouterr().err
