"""A file system of a few MiB for a test, where we may mount one."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, mib=4):
    """A tmpfs on ``folder``; what needs one is skipped where it cannot be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() or mounted("-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder):
        pytest.skip("a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def remounted(folder, how):
    """Make it ``ro`` or ``rw``."""
    if mounted("-o", f"remount,{how}", folder):
        raise AssertionError(f"{folder} cannot be remounted {how}")


def mounted(*arguments) -> int:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode
