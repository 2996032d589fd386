"""The one way a wrong configuration is complained of, on both sides: the key first, then why."""

from __future__ import annotations

import re


def readable(message: str) -> str:
    """A msgspec message by its key: ``uplink.port: Expected `int`, got `str```."""
    text, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    for pattern, what in (("contains unknown", "unknown key"), ("missing required", "missing")):
        named = re.fullmatch(rf"Object {pattern} field `(.*)`", text)
        if named:
            return f"{'.'.join(part for part in (key, named[1]) if part)}: {what}"
    return f"{key}: {text}" if key else text
