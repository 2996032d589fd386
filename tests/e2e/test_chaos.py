"""A sample of ``make chaos``; and that records can be lost in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from influx import MISSING as NO_INFLUX
from mosquitto import needs_mosquitto
from postgres import needs_postgres

CHAOS = Path(__file__).parents[1] / "chaos/chaos.py"
LAST_LINE = r"made (\d+) stored (\d+) lost (\d+) doubled (\d+) resent (\d+)"

pytestmark = [
    pytest.mark.sample,
    needs_mosquitto,
    needs_postgres,
    pytest.mark.skipif(shutil.which("influxd") is None, reason=NO_INFLUX),
]


def chaos(*options):
    """Its exit code, what it counted, and all that it said."""
    done = subprocess.run(
        [sys.executable, CHAOS, *options], capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stderr + done.stdout
    found = re.fullmatch(LAST_LINE, done.stdout.splitlines()[-1] if done.stdout else "")
    assert found, said
    return done.returncode, [int(count) for count in found.groups()], said


def test_what_an_agent_promised_is_archived_once_whatever_fails():
    code, (made, stored, lost, doubled, resent), said = chaos("--duration", "90", "--seed", "1")
    assert code == 0, said
    assert (stored, lost, doubled) == (made, 0, 0)
    assert made > 300
    assert resent < made / 4


def test_an_agent_that_takes_the_word_of_a_broker_loses_records():
    code, (made, stored, lost, doubled, _), said = chaos(
        "--variant", "puback", "--duration", "7", "--seed", "1"
    )
    assert code == 1, said
    assert lost > 0, said
    assert (stored + lost, doubled) == (made, 0)
