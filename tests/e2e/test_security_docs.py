"""The lines of docs/security.md, run as they stand there, end in certificates that are taken."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from edgesweep_agent.settings import Settings as AgentSettings
from edgesweep_agent.settings import load as load_agent
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import TlsSettings
from edgesweep_collector.settings import load as load_collector
from edgesweep_collector.tls import Role, read

BIN = Path(sys.executable).parent
PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
AGENT = """
[device]
id = "press-07"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
kind = "grpc"
address = "127.0.0.1:7443"
"""


def blocks(kind):
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```$", PAGE)


@pytest.fixture
def shell(tmp_path):
    """Runs lines in one folder; ``sign`` and the programs are there."""
    authority, device, broker = blocks("sh")[:3]
    (tmp_path / "tls").mkdir()
    (tmp_path / "agent.toml").write_text(AGENT + blocks("toml")[0])
    lines = broker.replace("/etc/mosquitto/tls/broker", f"{tmp_path}/broker.plant-4")
    steps = (authority, "cp ca.crt tls/ca.crt", device, lines)
    script = "set -eu\n" + "\n".join(steps)
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tmp_path, done.stdout


def test_the_authority_signs_what_both_sides_take(shell):
    folder, said = shell
    assert "device       press-07" in said
    tls = TlsSettings(
        ca_file=str(folder / "ca.crt"),
        cert_file=str(folder / "broker.plant-4.crt"),
        key_file=str(folder / "broker.plant-4.key"),
    )
    pems = read(tls, "grpc.tls", Role.SERVER)
    assert (pems.not_after - datetime.now(timezone.utc)).days in (396, 397)
    with pytest.raises(SettingsError, match="clientAuth"):
        read(tls, "mqtt.tls", Role.CLIENT)
    assert (folder / "broker" / "acl").read_text().count("user collector.") == 2


def test_the_tables_of_the_page_are_settings(tmp_path):
    device, collector = blocks("toml")
    (tmp_path / "agent.toml").write_text(AGENT + device)
    assert load_agent(tmp_path / "agent.toml", AgentSettings).uplink.tls.key_file.name
    archive = '[archive]\nurl = "sqlite:///archive.db"\n'
    (tmp_path / "collector.toml").write_text(archive + collector)
    settings = load_collector(tmp_path / "collector.toml")
    assert settings.mqtt.tls.denylist_file == settings.grpc.tls.denylist_file
