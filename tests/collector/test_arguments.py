"""What a user types wrong is refused with the option's name, in both kinds of complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.models import OptionInfo

from edgesweep_collector.cli.commands import PROGRAM


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
            if get_origin(hint) is Annotated and kind in {
                (whole := get_args(hint))[0],
                *get_args(whole[0]),
            }:
                yield words, name, whole[1]


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
        option = info.param_decls[-1] if info.param_decls else f"--{name.replace('_', '-')}"
        told = refused(capsys, *words, option, "")
        assert option in told
    else:
        told = refused(capsys, *words, "--", "")
        assert info.metavar in told
    assert "an empty name names no file" in told


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--speed", "nan", "no finite number"),
        ("--speed", "inf", "no finite number"),
        ("--speed", "-1", "no speed"),
        ("--duration", "0", "no time at all"),
        ("--duration", "inf", "no duration"),
        ("--telemetry", "nan", "no duration"),
        ("--heartbeat", "0", "no time at all"),
    ],
)
def test_a_value_is_refused_by_its_option(option, value, says, capsys):
    told = refused(capsys, "simulate", "--to", "127.0.0.1:9", option, value)
    assert option in told
    assert says in told


@pytest.mark.parametrize("name", ["/dev/stdout", "."])
def test_a_report_takes_the_place_of_no_device_and_no_folder(name, capsys):
    told = refused(capsys, "report", "--config", "absent.toml", "--out", name)
    assert f"--out {name}: " in told


def test_a_backup_takes_the_place_of_no_device(capsys):
    told = refused(capsys, "archive", "backup", "/dev/stdout", "--config", "absent.toml")
    assert "FILE /dev/stdout: " in told


def test_two_files_do_not_go_to_standard_output(capsys):
    paths = ["--ca", "ca", "--cert", "cert", "--key", "key"]
    assert "two files" in refused(capsys, "mosquitto", "--out", "-", *paths)
