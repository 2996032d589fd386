"""A report whose every text is a device's own, read as a browser would (SEC-02)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import wire
from edgesweep.records import Contender, Device, LevelStatus, Run, RunState
from edgesweep_collector.archive.archive import Archive

COLLECTOR = Path(sys.executable).parent / "edgesweep-collector"
CASES = json.loads((Path(__file__).parents[1] / "fixtures/cases/security.json").read_text())
CASE = next(one for one in CASES if one["id"] == "SEC-02")


class Page(HTMLParser):
    """A page as a browser takes it: tags, attributes and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def reported(folder, model, host, error):
    """A report of one run whose every text is the device's own."""
    folder.mkdir()
    url = f"sqlite:///{folder / 'archive.db'}"
    (folder / "collector.toml").write_text(f'[archive]\nurl = "{url}"\n')
    device = Device("n97-01", host, host, {f"{host} a": host}, {f"{host} l": host})
    settings = {"model": model, "weight_format": model, f"{model} set": model}
    two = [
        Contender(name, f"{name} {model}", model, slots=4, settings=settings) for name in ("a", "b")
    ]
    run_id = "01a22dcb-0000-7000-8000-000000000001"
    plan = json.dumps({"name": model})
    records = [Run(run_id, RunState.COMPLETE, device, plan, tuple(two), 5, reason=error)]
    for contender in two:
        records += [
            wire.level(n, run_id=run_id, device=device, contender=contender) for n in (1, 2, 4)
        ]
        failed = {"status": LevelStatus.FAILED, "reason": error, "values": {}, "distributions": {}}
        records.append(wire.level(8, run_id=run_id, device=device, contender=contender, **failed))
    archive = Archive.open(url)
    archive.append([wire.received(record, seq) for seq, record in enumerate(records, start=1)])
    archive.close()
    out = folder / "report.html"
    command = [COLLECTOR, "report", "--config", folder / "collector.toml", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_text()


def test_sec_02_names_of_devices_are_text_and_nothing_else(tmp_path):
    planted, expected = CASE["input"], CASE["expected"]
    model, host, error = planted["model"], planted["host"], planted["error_text"]
    text = reported(tmp_path / "hostile", model, host, error)
    page = Page(text)
    harmless = Page(reported(tmp_path / "harmless", "model", "host", "error"))
    for raw, count in expected["raw_matches_case_insensitive"].items():
        assert text.lower().count(raw.partition(" outside")[0]) == count
    assert page.tags == harmless.tags
    assert page.tags.count("script") == harmless.tags.count("script") == 0
    assert [name for name, _ in page.attributes] == [name for name, _ in harmless.attributes]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    everything = "".join(page.texts)
    # But for the time of its making, which has a minute of that number as well.
    assert ("49" in re.sub(r"\d\d:\d\d", "", everything)) is expected["rendered_49"]
    # No block of JSON is in the page; what is there comes back as it was.
    assert model in everything
    assert error.strip() in everything
    assert host in everything
    values = [value or "" for name, value in page.attributes if name != "xmlns"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in values
    assert not [value for value in values if "://" in value]
