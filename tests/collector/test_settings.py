"""A wrong setting is named by its file and key; nothing starts with half of the settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import Listen, listen, load, secret

_ARCHIVE = '[archive]\nurl = "sqlite:///a.db"\n'
_EXAMPLE = Path(__file__).parents[2] / "collector" / "collector.example.toml"


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "collector.toml"
        path.write_text(text)
        return path

    return written


def test_the_least_is_an_archive_taken_from_the_folder_of_the_file(file):
    path = file(_ARCHIVE)
    settings = load(path)
    assert settings.archive.url == f"sqlite:///{path.parent / 'a.db'}"
    assert (settings.grpc, settings.mqtt, settings.influx, settings.http) == (None,) * 4
    assert settings.log.level == "info"


def test_the_example_is_valid_as_it_is_and_uncommented():
    assert load(_EXAMPLE).mqtt.host == "127.0.0.1"


def test_every_key_is_in_the_example(tmp_path):
    lines = _EXAMPLE.read_text().splitlines()
    keys = [line.removeprefix("# ") if " = " in line or "# [" in line else line for line in lines]
    path = tmp_path / "all.toml"
    path.write_text("\n".join(keys))
    settings = load(path)
    for table in settings.__struct_fields__:
        for key in getattr(settings, table).__struct_fields__:
            assert re.search(rf"(?m)^(# )?\[?([a-z]+\.)?{key}( = |\])", path.read_text()), key
            assert getattr(getattr(settings, table), key) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "archive: missing"),
        ("[archive]\n", "archive.url: missing"),
        ("[archive]\nurl = 1", "archive.url: Expected `str`, got `int`"),
        (_ARCHIVE + "sync = true", "archive.sync: unknown key"),
        (_ARCHIVE + "[mqqt]\n", "mqqt: unknown key"),
        (_ARCHIVE + '[mqtt]\nhost = "b"\nport = "1883"', "mqtt.port: Expected `int`, got `str`"),
        (_ARCHIVE + '[mqtt]\nhost = "b"\nport = 0', "mqtt.port: Expected `int` >= 1"),
        (_ARCHIVE + '[mqtt]\nhost = "b"\npassword = "x"', "mqtt.password: unknown key"),
        (_ARCHIVE + '[grpc]\nlisten = "50051"', "grpc.listen: '50051' is not host:port"),
        (_ARCHIVE + '[http]\nlisten = "a:99999"', "http.listen: 'a:99999' is not host:port"),
        (_ARCHIVE + '[log]\nlevel = "loud"', "log.level: Invalid enum value 'loud'"),
        ("[archive", "not TOML: Expected ']'"),
    ],
)
def test_a_wrong_key_is_named(file, text, message):
    path = file(text)
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert caught.value.exit_code == 78


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"absent\.toml: No such file"):
        load(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:50051", Listen("127.0.0.1", 50051), True),
        ("127.8.8.8:0", Listen("127.8.8.8", 0), True),
        ("localhost:1", Listen("localhost", 1), True),
        ("[::1]:1", Listen("::1", 1), True),
        ("[::]:1", Listen("::", 1), False),
        ("0.0.0.0:1", Listen("0.0.0.0", 1), False),
        ("localhost.example:1", Listen("localhost.example", 1), False),
    ],
)
def test_addresses(text, address, loopback):
    assert listen(text, "key") == address
    assert address.is_loopback is loopback
    assert str(address) == text


def test_a_secret_is_read_without_its_line_end(tmp_path):
    (tmp_path / "secret").write_text("CANARY \n")
    assert secret(str(tmp_path / "secret"), "key") == "CANARY "
    with pytest.raises(SettingsError, match=r"mqtt\.password_file: cannot read .*absent"):
        secret(str(tmp_path / "absent"), "mqtt.password_file")
