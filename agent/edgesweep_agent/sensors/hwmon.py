"""Finds hwmon chips by their name: their numbers change from boot to boot and by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .files import Files

_FOLDER = "sys/class/hwmon"


class Chips:
    """The folders of the chips with one of these names; looked up anew when one came or went."""

    def __init__(self, files: Files, *names: str) -> None:
        self._files = files
        self._names = names
        self._listed: list[str] = []
        self._found: dict[str, str] = {}

    def find(self) -> dict[str, str]:
        """Folder -> name, in the order of their numbers; empty where there is none."""
        listed = self._files.names(_FOLDER, r"hwmon\d+")
        moved = any(self._files.text(f"{path}/name") != name for path, name in self._found.items())
        if moved or listed != self._listed or not self._found:
            self._listed = listed
            self._found = {
                path: name
                for path in listed
                if (name := self._files.text(f"{path}/name")) in self._names
            }
        return self._found
