"""An external meter's log as a file: read, put on the device's clock, laid over a run's levels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgesweep_agent.core import meter_csv
from edgesweep_agent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgesweep_agent.core.meter_csv import Trace


def read_log(path: Path, *, start_ns: int | None = None) -> Trace:
    """Read the CSV of a meter.

    Args:
        path: The file; UTF-8, UTF-16 with its mark, or Latin-1.
        start_ns: When its times begin, where they count from a start; ns since 1970.

    Raises:
        UsageError: it cannot be read, or is no log of a meter.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        return meter_csv.parse(_text(data), start_ns=start_ns)
    except meter_csv.MeterError as error:
        raise UsageError(f"{path}: {error}") from error


def read_run(path: Path) -> dict[str, Any]:
    """Read the JSON of a run, as ``sweep --json`` writes it.

    Raises:
        UsageError: it cannot be read, or is no run.
    """
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    levels = run.get("levels") if isinstance(run, dict) else None
    if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
        raise UsageError(f"{path}: no run: `edgesweep-agent sweep --json FILE` writes one")
    return dict(run)


def _text(data: bytes) -> str:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
