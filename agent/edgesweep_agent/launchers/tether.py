"""Run by exec, as a script: starts the command in its arguments, tied to the agent.

``tether.py AGENT --whole command...`` stays, as the parent of the command and outside its group.
What loses its parent below becomes its child (``PR_SET_CHILD_SUBREAPER``), so nothing that the
command starts gets out of sight: not an engine behind a wrapper without ``exec``, not a worker in
a session of its own. Once the agent or the command has ended it kills the rest, and then ends as
the command did. A watcher beside the command would be simpler, and not find what has lost its
parent; ``PR_SET_PDEATHSIG`` alone is not handed on to children. Beyond reach is what a service
manager or a daemon starts on the command's behalf.

``tether.py AGENT command...`` becomes the command: the client of such a daemon, whose helpers may
serve others too. The kernel asks it to end (SIGTERM) when the agent dies; docker's and podman's
pass that on to the container (``--sig-proxy``).

The command's number goes to standard output, which is closed once the command runs; what it
writes goes to standard error. When memory runs out the kernel takes it first: the agent has to be
there to tell of it. The process that stays takes 9 to 11 MiB (RSS; Python 3.10 to 3.13), 3 to 4
of them its own; ``pathlib`` would add another.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

OOM_SCORE = 900
"""Of 1000: before the agent, the broker and the plant's own programs."""
WHOLE = "--whole"
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None).prctl


def main() -> None:
    """Stay with the command, or become it."""
    agent, argv = int(sys.argv[1]), sys.argv[2:]
    if argv[0] == WHOLE:
        _stay(argv[1:], agent)
    else:
        _become(argv, agent, signal.SIGTERM)


def _become(argv: list[str], parent: int, at_its_end: int) -> None:
    """The command from now on; only if it has no parent any more does this return."""
    told = os.dup(1)
    os.dup2(2, 1)
    _prctl(_PR_SET_PDEATHSIG, at_its_end)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(OOM_SCORE))
    if os.getppid() != parent:
        return
    os.write(told, b"%d" % os.getpid())
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


def _stay(argv: list[str], agent: int) -> None:
    """The command's parent, until nothing is left of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    own = os.getpid()
    command = os.fork()
    if not command:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _become(argv, own, signal.SIGKILL)
        return
    os.dup2(2, 1)
    status = _wait(command, agent)
    _kill_the_rest()
    _end_like(status)


def _wait(command: int, agent: int) -> int:
    """How the command ended; 0 if the agent was gone first.

    SIGTERM comes with the agent's end, and when the command is asked to stop: then its whole
    group gets the time that the agent gives it. One that ends unasked is told of at once.
    """
    status = None
    asked = False
    while os.getppid() == agent:
        status = _bury(command, status)
        if status is not None and not (asked and _group_lives(command)):
            return status
        asked |= signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM
    return 0


def _bury(command: int, status: int | None) -> int | None:
    """The command's status, if it has ended; all others that have are none of the agent's."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == command else status
    return status


def _kill_the_rest() -> None:
    """Children alone: until they are buried their numbers are nobody else's.

    Theirs become ours as they die.
    """
    while children := _children():
        for pid in children:
            with suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> list[int]:
    own = os.getpid()
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    return [pid for pid in pids if _parent(pid) == own]


def _parent(pid: int) -> int | None:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])
    return None


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end_like(status: int) -> None:
    """With the same exit code, or by the same signal; a core of ours would tell nobody anything."""
    if not os.WIFSIGNALED(status):
        sys.exit(os.WEXITSTATUS(status))
    sign = os.WTERMSIG(status)
    _prctl(_PR_SET_DUMPABLE, 0)
    if sign != signal.SIGKILL:
        signal.signal(sign, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {sign})
    os.kill(os.getpid(), sign)


if __name__ == "__main__":
    main()
