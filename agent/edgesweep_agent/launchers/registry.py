"""The launchers, by the name a plan calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .container import ContainerLauncher
from .process import ProcessLauncher

if TYPE_CHECKING:
    from .base import Launcher

LAUNCHERS: dict[str, Launcher] = {
    launcher.name: launcher for launcher in (ProcessLauncher(), ContainerLauncher())
}
"""Each way to start a server, by its name in a plan."""
