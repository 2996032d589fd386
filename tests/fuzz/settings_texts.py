"""Settings and plans as nobody would write them: TOML from the examples, spoiled line by line."""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutations import damaged, number, real, utf8

from edgesweep_agent.plan import SweepPlan
from edgesweep_agent.presets import with_preset
from edgesweep_agent.settings import load as load_agent
from edgesweep_agent.settings import load_settings
from edgesweep_agent.sweep.ledger import plan_json
from edgesweep_collector.settings import listen, load
from edgesweep_common.errors import SettingsError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
_VALUES = [
    '""', "0", "-1", "1e400", "nan", "-inf", "[]", "{}", "[[1], {a = 2}]", "true", "1979-05-27",
    "07:32:00", "0x7fffffffffffffffffff", '"\\u0000"', '"~nobody/x"', '"../../etc"', "'''x'''",
    "9999999999999999999999", '"[::1]:99999"', '"sqlite:///"', '"sqlite:///:memory:"', '"90d"',
    '"1e9d"', '"-5m"', '"99999999999999999999d"', '"' + "9" * 400 + 's"', '"1PiB"', '"2GiB"',
    "[1, 2, 4, 8]", "[8, 1]", "[" * 60 + "]" * 60, '["chat-64-32", "chat-64-32"]', '"replay"',
]  # fmt: skip
_KEY = re.compile(r"(?m)^(\s*[\w.\"-]+\s*=\s*)(.*)$")


def _uncommented(path: Path) -> str:
    """An example with everything in it that it only shows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(
        re.sub(r"^#\s?", "", one) if re.match(r"#\s?(\[|[\w.]+ = )", one) else one for one in lines
    )


class Texts:
    """Texts of one kind of file."""

    def __init__(self, *samples: str) -> None:
        self._samples = samples
        self._bytes = [one.encode() for one in samples]

    def make(self, rng: random.Random) -> bytes:
        if rng.random() < 0.2:
            return damaged(rng, self._bytes)
        lines = rng.choice(self._samples).splitlines()
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(lines))
            lines[at : at + 1] = rng.choice(_SPOILED)(rng, lines, at)
            lines = lines or [""]
        return "\n".join(lines).encode(errors="replace")


def _value(rng: random.Random, lines: list[str], at: int) -> list[str]:
    given = rng.choice([*_VALUES, str(number(rng)), str(real(rng)), _quoted(utf8(rng))])
    return [_KEY.sub(lambda match: match[1] + given, lines[at])]


def _quoted(given: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else "_" for c in given) + '"'


def _gone(_rng: random.Random, _lines: list[str], _at: int) -> list[str]:
    return []


def _twice(_rng: random.Random, lines: list[str], at: int) -> list[str]:
    return [lines[at], lines[at]]


def _elsewhere(rng: random.Random, lines: list[str], _at: int) -> list[str]:
    return [rng.choice(lines)]


def _table(rng: random.Random, _lines: list[str], _at: int) -> list[str]:
    return [f"[{rng.choice(['a', 'a.b', '[x]', 'slo', 'mqtt.tls', 'plans.x', ''])}]"]


_SPOILED: list[Callable[[random.Random, list[str], int], list[str]]] = [
    _value, _value, _value, _value, _gone, _twice, _elsewhere, _table,
]  # fmt: skip


class _File:
    """One file, in memory where the system has such a folder, written again for each input."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self._path = Path(self._folder.name) / "fuzz.toml"

    def holding(self, given: bytes) -> Path:
        self._path.write_bytes(given)
        return self._path


def agent(target: Callable[..., Any]) -> Any:
    """The daemon's configuration."""
    texts = Texts(
        _uncommented(ROOT / "agent/agent.example.toml"),
        (ROOT / "agent/agent.example.toml").read_text(encoding="utf-8"),
    )
    return target(texts.make, partial(_agent, _File()), (SettingsError,))


def _agent(file: _File, given: bytes) -> str:
    settings = load_settings(file.holding(given))
    return f"ok, {settings.uplink.kind}"


def collector(target: Callable[..., Any]) -> Any:
    """The collector's settings."""
    example = ROOT / "collector/collector.example.toml"
    texts = Texts(_uncommented(example), example.read_text(encoding="utf-8"))
    return target(texts.make, partial(_collector, _File()), (SettingsError,))


def _collector(file: _File, given: bytes) -> str:
    settings = load(file.holding(given))
    for table, key in ((settings.grpc, "grpc.listen"), (settings.http, "http.listen")):
        if table is not None:
            assert 0 <= listen(table.listen, key).port < 65536
    return "ok"


def plans(target: Callable[..., Any]) -> Any:
    """Sweep plans, with what is reckoned from them before anything starts."""
    example = ROOT / "agent/plan.example.toml"
    least = '[[contenders]]\nmode = "attached"\nurl = "http://127.0.0.1:8080"\n'
    presets = [f'preset = "{name}"\nlevels = [1, 2]\n{least}' for name in ("quick", "agents")]
    texts = Texts(
        _uncommented(example),
        example.read_text(encoding="utf-8"),
        f'workloads = ["fanout-2048+256-128"]\nbudget = "2h"\nseed = 7\n{least}',
        *presets,
    )
    return target(texts.make, partial(_plan, _File()), (SettingsError,))


def _plan(file: _File, given: bytes) -> str:
    plan = load_agent(file.holding(given), SweepPlan, with_preset)
    assert plan.budget_s is None or plan.budget_s > 0
    assert plan.reserve_bytes >= 0
    for shape in plan.shapes():
        assert plan.most_requests_at(4, shape) >= plan.requests_at(4, shape) >= 1
    plan_json(plan)
    return f"ok, {plan.policy}"
