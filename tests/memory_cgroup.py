"""A memory cgroup of a test's own, v1 or v2, where the machine lets us make one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

from edgesweep_agent import memory
from edgesweep_agent.core import available as core

_JOIN = """import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])"""


class MemoryCgroup:
    """Made with a limit on entry, removed on exit."""

    def __init__(self, limit_bytes: int) -> None:
        version, parent = _parent()
        self._files = core.CGROUP_FILES[version]
        self._version = version
        self.path = parent / f"edgesweep-test-{uuid.uuid4().hex[:8]}"
        self._limit = limit_bytes

    @staticmethod
    def unusable() -> str:
        """Why none can be made here; empty where it can."""
        try:
            with MemoryCgroup(2**30):
                return ""
        except (OSError, LookupError) as error:
            return f"no memory cgroup can be made here: {error}"

    def __enter__(self):
        self.path.mkdir()
        try:
            (self.path / self._files.limits[0]).write_text(str(self._limit))
        except OSError:
            self.path.rmdir()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for _try in range(100):
            try:
                self.path.rmdir()
            except OSError:
                time.sleep(0.02)
            else:
                return

    def start(self, command: list[str], environment: dict[str, str] | None = None, **options):
        """Start a process in the cgroup; its program begins when it is in there."""
        join = [sys.executable, "-S", "-c", _JOIN, str(self.path / "cgroup.procs")]
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        environment = {**os.environ, **(environment or {})}
        process = subprocess.Popen(join + command, env=environment, **options)
        while process.poll() is None and not self._holds(process.pid):
            time.sleep(0.005)
        return process

    def _holds(self, pid: int) -> bool:
        return str(pid) in (self.path / "cgroup.procs").read_text().split()

    def available(self) -> core.Available:
        """What a process that starts in it has."""
        usage, stat = (self.path / name for name in (self._files.usage, self._files.stat))
        limits = [(self.path / name).read_text() for name in self._files.limits[:1]]
        figures = core.cgroup_memory(
            f"cgroup {self.path}",
            self._version,
            limits,
            usage.read_text(),
            core.parse_stat(stat.read_text()),
        )
        host = memory.available()
        terms = [(figures.name, figures.available_bytes()), *host.terms]
        return core.smallest(host.total_bytes, terms, "unknown")

    def kills(self) -> int:
        """How often the kernel has killed in it."""
        return core.parse_stat((self.path / self._files.events).read_text()).get("oom_kill", 0)


def _parent() -> tuple[int, Path]:
    """Where a cgroup that counts memory can be made: beside our own, or below the root."""
    for version, folder in memory.cgroup_folders(Path("/"), None):
        path = Path(folder)
        names = core.CGROUP_FILES[version]
        if version == 1 and (path / names.usage).exists():
            return version, path
        if version == 2 and "memory" in memory.read_text(path / "cgroup.subtree_control").split():
            return version, path
    raise LookupError("no memory controller is mounted")
