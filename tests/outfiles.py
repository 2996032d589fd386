"""What holds for either program's ``outfile``, which their tests run on their own one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def through_links(outfile: ModuleType, folder: Path) -> None:
    """The file at the end is replaced, the links stay, and strangers' files too."""
    real = folder / "disk/real.json"
    real.parent.mkdir()
    real.write_text("before")
    real.chmod(0o640)
    (folder / "middle").symlink_to("disk/real.json")
    (folder / "link").symlink_to(folder / "middle")
    strangers = {folder / "link.tmp", real.with_name("real.json.tmp"), real.with_suffix(".part")}
    for stranger in strangers:
        stranger.write_text("not ours")
    target = outfile.place("--json", folder / "link")
    with outfile.replacing(target) as file:
        file.write(b"after")
    assert real.read_text() == "after"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (folder / "link").readlink() == folder / "middle"
    assert {path.read_text() for path in strangers} == {"not ours"}
    assert len(list(real.parent.iterdir())) == 3


def dangling(outfile: ModuleType, folder: Path) -> None:
    """A link to nothing yet makes the file where the link leads."""
    (folder / "link").symlink_to("there.json")
    with outfile.replacing(outfile.place("--json", folder / "link")) as file:
        file.write(b"new")
    assert (folder / "link").is_symlink()
    assert (folder / "there.json").read_text() == "new"


def broken_off(outfile: ModuleType, folder: Path) -> None:
    """Nothing of half a file is left, and what was there is as it was."""
    (folder / "run.json").write_text("before")
    target = outfile.place("--json", folder / "run.json")
    with suppress(KeyboardInterrupt), outfile.replacing(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [path.name for path in folder.iterdir()] == ["run.json"]
    assert target.read_text() == "before"


def refused(outfile: ModuleType, folder: Path) -> None:
    """No folder, pipe, device or circle, by name or by link; each as it was afterwards."""
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("fifo")
    (folder / "round").symlink_to("round")
    (folder / "stdout").symlink_to("/dev/stdout")
    says = {
        "": "is a folder",
        "fifo": "is a pipe",
        "link": "is a pipe",
        "round": "symbolic links",
        "stdout": "leads into /dev",
        "fifo/x": "Not a directory",
        "absent/x": "there is no folder",
    }
    if os.geteuid() == 0:
        os.mknod(folder / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        says["null"] = "is a device"
    before = {path.name: path.lstat().st_ino for path in folder.iterdir()}
    for name, why in says.items():
        with pytest.raises(Exception, match=f"--json .*{why}") as caught:
            outfile.place("--json", folder / name)
        assert caught.value.exit_code == 2
    assert {path.name: path.lstat().st_ino for path in folder.iterdir()} == before


def to_standard_output(outfile: ModuleType, read: object) -> None:
    """``-`` is no file of that name."""
    with outfile.sink(outfile.STANDARD_OUTPUT) as file:
        file.write(b"bytes")
    assert read().out == b"bytes"


ALL = (through_links, dangling, broken_off, refused)
