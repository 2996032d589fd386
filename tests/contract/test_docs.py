"""What a user can reach is documented, and what is documented is there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from typer.main import get_command

from edgesweep.metrics import REGISTRY
from edgesweep_agent.cli import commands as agent_cli
from edgesweep_agent.plan import AttachedSpec, ManagedSpec, Shape, SweepPlan
from edgesweep_agent.settings import Settings as AgentSettings
from edgesweep_agent.settings import load as load_agent
from edgesweep_collector.cli import commands as collector_cli
from edgesweep_collector.settings import Settings as CollectorSettings
from edgesweep_collector.settings import load as load_collector

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGES = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def keys_of(kind: type) -> set[str]:
    """Every key of a configuration, tables within tables included."""
    found = set(kind.__struct_fields__)
    for field in msgspec.structs.fields(kind):
        for part in [field.type, *getattr(field.type, "__args__", ())]:
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                found |= keys_of(part)
            for inner in getattr(part, "__args__", ()):
                if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                    found |= keys_of(inner)
    return found


@pytest.mark.parametrize(
    ("app", "program"),
    [
        (agent_cli.PROGRAM.command_line(), "edgesweep-agent"),
        (collector_cli.PROGRAM.command_line(), "edgesweep-collector"),
    ],
)
def test_every_command_is_in_the_readme(app, program):
    for name in get_command(app).commands:
        assert f"{program} {name}" in PAGES, name


@pytest.mark.parametrize("name", REGISTRY)
def test_every_metric_is_in_the_architecture_with_its_meaning(name):
    text = (ROOT / "docs/architecture.md").read_text()
    assert f"| `{name}` | {REGISTRY[name].unit} |" in text
    assert REGISTRY[name].description in text


@pytest.mark.parametrize(
    ("example", "kinds"),
    [
        ("agent/agent.example.toml", [AgentSettings]),
        ("agent/plan.example.toml", [SweepPlan, Shape, AttachedSpec, ManagedSpec]),
        ("collector/collector.example.toml", [CollectorSettings]),
    ],
)
def test_every_key_is_in_the_example(example, kinds):
    text = (ROOT / example).read_text()
    for kind in kinds:
        for key in keys_of(kind) - {"contenders", "workload", "plans"}:
            assert re.search(rf"(?m)^(# ?)?\[*(\w+\.)*{key}\b", text), (example, key)


def test_the_examples_are_valid():
    assert load_agent(ROOT / "agent/agent.example.toml", AgentSettings)
    assert load_agent(ROOT / "agent/plan.example.toml", SweepPlan)
    assert load_collector(ROOT / "collector/collector.example.toml")


def test_the_folders_of_the_architecture_page_exist():
    page = (ROOT / "docs/architecture.md").read_text()
    for folder in re.findall(r"(?m)^\| `([a-z_/]+/)` \|", page):
        assert (ROOT / folder).is_dir(), folder


def test_the_lock_holds_everything_that_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = [*project["dependency-groups"]["dev"], *extras["agent"], *extras["collector"]]
    locked = set(re.findall(r"(?m)^([a-z0-9-]+)==", (ROOT / "requirements/dev.txt").read_text()))
    names = {re.match(r"[A-Za-z0-9-]+", entry)[0].lower() for entry in asked}
    assert names <= locked


def test_the_lock_names_no_index():
    for path in (ROOT / "requirements").glob("*.txt"):
        assert not re.search(r"(?m)^-|://", path.read_text()), path


def test_the_examples_reach_each_other():
    agent = load_agent(ROOT / "agent/agent.example.toml", AgentSettings)
    collector = load_collector(ROOT / "collector/collector.example.toml")
    assert agent.uplink.address == collector.grpc.listen
    assert collector.http.listen in (ROOT / "docs/real-path.md").read_text()


def test_links_within_the_docs_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), (page, target)


def test_the_files_that_the_architecture_page_names_exist():
    roots = [
        ROOT / root
        for root in (
            "",
            "agent/edgesweep_agent",
            "collector/edgesweep_collector",
            "protos/edgesweep",
        )
    ]
    named = re.findall(r"`((?:[a-z_]+/)+\w+\.py)`", (ROOT / "docs/architecture.md").read_text())
    assert named
    for name in named:
        assert any((root / name).is_file() for root in roots), name
