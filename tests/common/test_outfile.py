"""Files that are written for somebody: whole or not at all, and in the place of nothing else."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from edgesweep_common import outfile
from edgesweep_common.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file at the end is replaced, the links stay, and strangers' files too."""
    real = tmp_path / "disk/real.json"
    real.parent.mkdir()
    real.write_text("before")
    real.chmod(0o640)
    (tmp_path / "middle").symlink_to("disk/real.json")
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    strangers = {tmp_path / "link.tmp", real.with_name("real.json.tmp"), real.with_suffix(".part")}
    for stranger in strangers:
        stranger.write_text("not ours")
    target = outfile.place("--json", tmp_path / "link")
    with outfile.replacing(target) as file:
        file.write(b"after")
    assert real.read_text() == "after"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (tmp_path / "link").readlink() == tmp_path / "middle"
    assert {path.read_text() for path in strangers} == {"not ours"}
    assert len(list(real.parent.iterdir())) == 3


def test_a_link_to_nothing_yet(tmp_path: Path) -> None:
    """A link to nothing yet makes the file where the link leads."""
    (tmp_path / "link").symlink_to("there.json")
    with outfile.replacing(outfile.place("--json", tmp_path / "link")) as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there.json").read_text() == "new"


def test_half_a_file(tmp_path: Path) -> None:
    """Nothing of half a file is left, and what was there is as it was."""
    (tmp_path / "run.json").write_text("before")
    target = outfile.place("--json", tmp_path / "run.json")
    with suppress(KeyboardInterrupt), outfile.replacing(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert target.read_text() == "before"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """No folder, pipe, device or circle, by name or by link; each as it was afterwards."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "stdout").symlink_to("/dev/stdout")
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
        os.mknod(tmp_path / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        says["null"] = "is a device"
    before = {path.name: path.lstat().st_ino for path in tmp_path.iterdir()}
    for name, why in says.items():
        with pytest.raises(UsageError, match=f"--json .*{why}") as caught:
            outfile.place("--json", tmp_path / name)
        assert caught.value.exit_code == 2
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == before


def test_a_dash_is_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """``-`` is no file of that name."""
    with outfile.sink(outfile.STANDARD_OUTPUT) as file:
        file.write(b"bytes")
    assert capfdbinary.readouterr().out == b"bytes"
