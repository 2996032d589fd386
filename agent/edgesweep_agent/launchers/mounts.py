"""A model's files as a container sees them: one folder, read-only, under a fixed name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgesweep_agent.errors import SettingsError

_SHALLOWEST = 3
"""Parts of a path (``/srv/models``): what lies higher is more than a model."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of this machine in a container.

    Attributes:
        source: The folder here.
        target: The folder there.
        path: The model there.
    """

    source: Path
    target: PurePosixPath
    path: Path

    def arguments(self) -> tuple[str, str]:
        """As docker and podman take it; ``--mount``, since a path may hold a colon."""
        return "--mount", f"type=bind,source={self.source},target={self.target},readonly"


def mount(model: Path, target: str) -> Mount:
    """The mount that has a model, and all that links in its folder lead to.

    A download of Hugging Face's hub is a folder of links into ``../../blobs``.

    Raises:
        SettingsError: it is not there, its links lead all over the machine, or its path has
            a comma.
    """
    if not model.exists():
        raise SettingsError(f"model {model} is not there")
    model = Path(os.path.abspath(model))  # noqa: PTH100 - links must stay what they are called
    folder = model if model.is_dir() else model.parent
    inside = [path.resolve() for path in folder.iterdir() if path.is_symlink()]
    root = Path(os.path.commonpath([folder.parent.resolve() / folder.name, *inside]))
    if len(root.parts) < _SHALLOWEST or "," in str(root):
        raise SettingsError(
            f"model {model}: its folder cannot be given to a container ({root}): copy the model, "
            "links resolved, into a folder of its own without a comma in its path"
        )
    here = folder.parent.resolve() / folder.name
    relative = here.relative_to(root) / ("" if model.is_dir() else model.name)
    return Mount(root, PurePosixPath(target), Path(target) / relative)
