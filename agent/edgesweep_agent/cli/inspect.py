"""``edgesweep-agent inspect``: what this box is, what it runs under, and what it can tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgesweep_agent import device, memory
from edgesweep_agent.core import temperatures
from edgesweep_agent.errors import UsageError
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.registry import PROGRAMS, all_sensors, close_all

from .options import InspectRoot  # noqa: TC001 - typer resolves the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import Device
    from edgesweep_agent.core.available import Available
    from edgesweep_agent.sensors.base import Reading

_HERE = Path("/")
_NOT_ELSEWHERE = frozenset({"disk"})
"""Asked of the running system, so it says nothing about a copy of another box's files."""
_STYLE = {State.FAILED: "red", State.ABSENT: "dim"}


def inspect(
    root: InspectRoot = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the hardware class, the live caps, the memory and every sensor of this box."""
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; --root wants a copy of a box's file tree")
    about = device.describe("local", {}, root=root)
    readings = _readings(root)
    left = memory.available(root=root, gpu_free_bytes=_gpu_free_bytes(readings))
    if as_json:
        typer.echo(json.dumps(inspect_object(about, left, readings), indent=2))
        return
    _show(Console(), about, left, readings)


def inspect_object(about: Device, left: Available, readings: Sequence[Reading]) -> dict[str, Any]:
    """The JSON of an inspection; a sensor without a value has a reason."""
    return {
        "hardware_class": about.hardware_class,
        "performance_state": about.performance_state,
        "attributes": dict(about.attributes),
        "memory": {
            "total_bytes": left.total_bytes,
            "available_bytes": left.available_bytes,
            "limited_by": left.limited_by,
        },
        "sensors": [
            {
                "name": one.name,
                "state": one.state.value,
                "value": one.value,
                "unit": one.unit,
                "reason": one.reason,
            }
            for one in readings
        ],
    }


def value_text(one: Reading) -> str:
    """A value as people read it: MHz, GiB, and what a power includes."""
    if one.value is None:
        return ""
    if one.unit == "bytes":
        gib = one.value / 2**30
        return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"
    if one.unit == "Hz":
        return f"{one.value / 1e6:.0f} MHz"
    if one.unit == "1":
        return f"{one.value:.0f}"
    unit = {"percent": "%", "C": "°C"}.get(one.unit, one.unit)
    inside = f" ({one.boundary})" if one.boundary else ""
    return f"{one.value:.2f} {unit}{inside}"


def _readings(root: Path) -> list[Reading]:
    """One reading of everything but the programs, which answer seconds after their start."""
    elsewhere = root.resolve() != _HERE
    sensors = all_sensors(root, without=PROGRAMS | (_NOT_ELSEWHERE if elsewhere else frozenset()))
    try:
        return [one for sensor in sensors for one in sensor.read()]
    finally:
        close_all(sensors)


def _gpu_free_bytes(readings: Sequence[Reading]) -> int | None:
    """Free memory of the first GPU that has its own; none limits anything on a unified board."""
    found = (one.value for one in readings if one.name == "gpu_memory_free")
    value = next(found, None)
    return None if value is None else int(value)


def _memory_text(left: Available) -> str:
    if left.available_bytes is None or left.total_bytes is None:
        return "cannot be read"
    free, total = (f"{size / 2**30:.2f} GiB" for size in (left.available_bytes, left.total_bytes))
    return f"{free} available of {total}, limited by {left.limited_by}"


def _show(console: Console, about: Device, left: Available, readings: Sequence[Reading]) -> None:
    head = {
        "hardware class": about.hardware_class,
        "performance state": about.performance_state,
        "memory": _memory_text(left),
    }
    for name, text in head.items():
        console.print(Text.assemble((f"{name:19}", "bold"), text), soft_wrap=True)
    console.print(_facts(about))
    console.print(_values(readings))
    console.print(_reasons(readings))


def _facts(about: Device) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=False, title="attributes", title_justify="left")
    for name, text in about.attributes.items():
        table.add_row(Text(name), Text(text))
    return table


def _values(readings: Sequence[Reading]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=False, title="readings", title_justify="left")
    table.add_column("sensor", no_wrap=True)
    table.add_column("value", no_wrap=True, justify="right")
    for one in readings:
        if one.state is State.OK:
            table.add_row(one.name, value_text(one))
    celsius = [one.value for one in readings if one.unit == "C"]
    hottest, mean = temperatures.highest(celsius), temperatures.mean(celsius)
    if hottest is not None and mean is not None:
        table.add_row("all temperatures", f"hottest {hottest:.1f}, mean {mean:.1f} °C")
    return table


def _reasons(readings: Sequence[Reading]) -> Table:
    """Failures first: they are what can be mended."""
    table = Table(
        box=box.SIMPLE_HEAD, show_header=False, title="without a value", title_justify="left"
    )
    for column in ("sensor", "state"):
        table.add_column(column, no_wrap=True)
    table.add_column("why", overflow="fold")
    for state in (State.FAILED, State.ABSENT):
        for one in readings:
            if one.state is state:
                table.add_row(one.name, Text(state.value, _STYLE[state]), Text(one.reason))
    return table
