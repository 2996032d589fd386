"""Where the cases of ``fixtures/cases/cli.json`` are; and that no case goes without its test.

| case | test |
|---|---|
| CLI-01 | ``test_sweep_order.py``: ``test_a_resumed_sweep_goes_on_with_the_next_level`` |
| CLI-02 | ``test_guard.py``: ``test_cli_02_memory_runs_out_in_mid_sweep`` |
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_fixtures import cases

TESTS = Path(__file__).parents[1]
_NAME = re.compile(r"def test_(?:case_)?([a-z]+_\d\d)_")
_DOCSTRING = re.compile(r'def test_.*:\n +"""([A-Z]+-\d\d):')


@pytest.mark.parametrize("name", ["sse", "metrics_scrape", "engine_detect", "telemetry", "cli"])
def test_every_case_is_named_by_a_test(name):
    code = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    named = {found.upper().replace("_", "-") for found in _NAME.findall(code)}
    assert set(cases(name)) <= named | set(_DOCSTRING.findall(code))
