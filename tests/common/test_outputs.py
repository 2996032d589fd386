"""What a file may take the place of."""

from __future__ import annotations

import stat

import pytest

from edgesweep_common.outputs import objection


@pytest.mark.parametrize("mode", [None, stat.S_IFREG | 0o644])
@pytest.mark.parametrize("step", ["/home/a/run.json", "/dev/shm/run.json", "/device/run.json"])
def test_a_file_and_nothing_at_all_may_be_replaced(step, mode):
    assert objection([step], mode) is None


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (stat.S_IFDIR, "is a folder"),
        (stat.S_IFIFO, "is a pipe"),
        (stat.S_IFCHR, "is a device"),
        (stat.S_IFBLK, "is a device"),
        (stat.S_IFSOCK, "is a socket"),
    ],
)
def test_everything_else_may_not_be_and_is_named(kind, says):
    assert objection(["/home/a/x"], kind | 0o600).startswith(says)


@pytest.mark.parametrize(
    "steps",
    [
        ["/dev/stdout", "/proc/7/fd/1", "/home/a/out.txt"],
        ["/proc/7/fd/1", "/home/a/out.txt"],
        ["/home/a/link", "/dev/stdout", "/proc/7/fd/1", "/home/a/out.txt"],
        ["/dev/new-name"],
        ["/sys/class/leds/x/brightness"],
    ],
)
def test_a_way_through_the_system_s_folders_is_refused_though_it_ends_at_a_file(steps):
    assert "- for standard output" in objection(steps, stat.S_IFREG)
