"""A child process in a group of its own, and the log it writes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import psutil

from edgesweep_agent.core.processes import parse_stat
from edgesweep_agent.core.startfacts import ended
from edgesweep_agent.errors import LaunchError

from . import tether

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anyio.abc import ByteReceiveStream, Process

    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.core.startfacts import Exit

_LOG_TAIL_BYTES = 2000
_ASK_TIMEOUT_S = 120.0
"""vLLM imports for a quarter of a minute, on a small machine for longer."""
_ENGINE_VARIABLES = ("LLAMA_ARG_", "GGML_", "VLLM_")
_GONE_S = 2.0
_LOOK_AGAIN_S = 0.05


class Child:
    """The running child, its group and what it writes.

    Args:
        process: What was started: the child, or the tether that stays with it.
        pid: The child, which is also its group.
        log: What it writes.
    """

    def __init__(self, process: Process, pid: int, log: Path) -> None:
        self.pid = pid
        self._process = process
        self._log = log
        self._oom_kills = oom_kills()
        self._exit: Exit | None = None

    @property
    def exit(self) -> Exit | None:
        """How it ended, or ``None`` while it runs."""
        code = self._process.returncode
        if self._exit is None and code is not None:
            now = oom_kills()
            killed = None if now is None or self._oom_kills is None else now - self._oom_kills
            self._exit = ended(code, oom_kills=killed)
        return self._exit

    @property
    def exit_text(self) -> str | None:
        """How it ended, with the end of its log; ``None`` while it runs."""
        how = self.exit
        if how is None:
            return None
        return f"{how.text}; its last words: {self._tail() or '(none)'}"

    @property
    def log_bytes(self) -> int:
        """How much it has written."""
        return self._log.stat().st_size if self._log.exists() else 0

    def log_text(self, since: int = 0) -> str:
        """What it wrote from an offset on."""
        with suppress(FileNotFoundError), self._log.open("rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")
        return ""

    def pids(self) -> frozenset[Identity]:
        """Its group, and what has left the group; the tether is none of the engine's."""
        group = {pid for pid in psutil.pids() if _group(pid) == self.pid}
        below = {process.pid for process in family(self._process.pid)}
        return identify(group | below - {self._process.pid})

    async def stop(self, *, stop_s: float) -> None:
        """End all that belongs to it: asked first, then made to."""
        processes = self.pids()
        if self._process.pid != self.pid:
            # It waits for the group from now on, and not for the child alone.
            with suppress(ProcessLookupError):
                self._process.terminate()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sign)
            if await self.wait(stop_s) and await _until(lambda: not group_lives(self.pid)):
                break
        for one in processes:
            kill(one)
        await _until(lambda: not identify({one.pid for one in processes}) & processes)

    async def wait(self, within_s: float) -> bool:
        """Whether it ended within so long."""
        with anyio.move_on_after(within_s):
            await self._process.wait()
        return self._process.returncode is not None

    def _tail(self) -> str:
        text = self.log_text(max(0, self.log_bytes - _LOG_TAIL_BYTES))
        words = [line.strip() for line in text.splitlines() if line.strip(" ^~")]
        return " | ".join(words[-2:])


async def spawn(
    argv: Sequence[str], environment: Mapping[str, str], log: Path, *, whole: bool = False
) -> Child:
    """Start a command in a group of its own, tied to this process.

    Args:
        argv: The command.
        environment: Beside our own variables.
        log: Where it writes.
        whole: All that it starts is its own, and ends with it or with us; else, as for the client
            of a daemon, only it is asked to end when we are gone (:mod:`.tether`).

    Raises:
        LaunchError: the program is not there, or cannot be run.
    """
    program = shutil.which(argv[0])
    if program is None:
        problem = "Permission denied" if Path(argv[0]).is_file() else "No such file or directory"
        raise LaunchError(f"{argv[0]}: {problem}: install it, or correct program in the plan")
    tie = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()))
    with log.open("ab") as sink, anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            (*tie, *((tether.WHOLE,) if whole else ()), program, *argv[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            env=_environment(environment),
            start_new_session=True,
        )
        number = await _all_of(process.stdout)
    # A tether that could not start the child has said nothing, and is told of as the child.
    return Child(process, int(number or process.pid), log)


async def ask(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command writes, both streams; empty if it cannot be run or does not end."""
    with suppress(OSError), anyio.move_on_after(_ASK_TIMEOUT_S):
        done = await anyio.run_process(
            list(argv),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            env=_environment(environment),
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")
    return ""


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants that there are."""
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def identify(pids: set[int]) -> frozenset[Identity]:
    """Processes with their start times; those that are gone, or only unburied, left out."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            stat = parse_stat(Path(f"/proc/{pid}/stat").read_text())
            if stat is not None and stat.alive:
                found.add(stat.identity)
    return frozenset(found)


def kill(one: Identity) -> None:
    """Kill a process, if it still is the one that was meant."""
    if one in identify({one.pid}):
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)


def group_lives(group: int) -> bool:
    """Whether anything of a process group runs; who buries its dead is not our affair."""
    return any(_group(pid) == group and identify({pid}) for pid in psutil.pids())


def oom_kills() -> int | None:
    """Processes that the kernel has killed for memory since it started (Linux 4.13)."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


async def _all_of(stream: ByteReceiveStream | None) -> bytes:
    return b"" if stream is None else b"".join([part async for part in stream])


def _environment(chosen: Mapping[str, str]) -> dict[str, str]:
    """The agent's own, without what would set an engine up behind the plan's back."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(_ENGINE_VARIABLES)
    }
    return {**own, **chosen}


async def _until(true: Callable[[], bool]) -> bool:
    """Whether it came true before long: what was killed takes a moment to be gone."""
    with anyio.move_on_after(_GONE_S):
        while not true():
            await anyio.sleep(_LOOK_AGAIN_S)
        return True
    return False


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except (ProcessLookupError, PermissionError):
        return None
