"""Builds the file tree of a board from its fixture, with a reader that fails as its kernel did."""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from edgesweep_agent.sensors.files import Files, fetch
from fake_nvml import FakeNvml

FIXTURES = Path(__file__).parent / "fixtures/hardware"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))


@cache
def entries(name: str) -> dict[str, str]:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def build(root: Path, told: dict[str, str], *, as_root: bool = False) -> Files:
    """Write the files; what an ordinary user may not read is refused, unless ``as_root``."""
    broken: dict[str, int] = {}
    for key, value in told.items():
        kind, _, path = key.partition(":") if key.startswith("@") else ("", "", key)
        if kind in {"@cmd", "@nvml"} or key == "@nvml":
            continue
        place = root / path
        if kind == "@mode":
            if not as_root and not int(value, 8) & 0o004:
                broken[path] = errno.EACCES
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "@symlink":
            place.symlink_to(value)
        elif kind == "@errno":
            place.touch()
            broken[path] = getattr(errno, value)
        else:
            place.write_text(value)
    return Files(root, fetch=failing(root, broken), clock=lambda: 0.0)


def failing(root: Path, broken: dict[str, int]):
    base = os.path.realpath(root)

    def read(path: Path, limit: int) -> bytes:
        real = os.path.relpath(os.path.realpath(path), base)
        for place, code in broken.items():
            if real == place or real.startswith(f"{place}/"):
                raise OSError(code, os.strerror(code), str(path))
        return fetch(path, limit)

    return read


def box(root: Path, name: str, *, as_root: bool = False, parts: str = ".", **changed: str | None):
    """One board's files, or those that match ``parts``; some replaced or (``None``) taken out."""
    told = {path: text for path, text in entries(name).items() if re.search(parts, path)} | changed
    return build(
        root, {key: text for key, text in told.items() if text is not None}, as_root=as_root
    )


@contextmanager
def changed(root: Path, told: dict[str, str | None]):
    """Replace or take out files of a tree for a while: cheaper than a tree for each change."""
    before = {path: (root / path).read_text() for path in told if (root / path).exists()}
    try:
        for path, text in told.items():
            put(root / path, text)
        yield
    finally:
        for path in told:
            put(root / path, before.get(path))


def put(place: Path, text: str | None) -> None:
    if text is None:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def nvml_of(name: str) -> FakeNvml | None:
    told = entries(name).get("@nvml")
    return FakeNvml(told if isinstance(told, dict) else json.loads(told)) if told else None
