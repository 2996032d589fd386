"""The launchers, by the name a plan calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .process import ProcessLauncher

if TYPE_CHECKING:
    from .base import Launcher

LAUNCHERS: dict[str, Launcher] = {"process": ProcessLauncher()}
