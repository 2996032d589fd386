"""Run by exec, as a script: becomes the command in its arguments, tied to the agent.

The kernel ends it when the agent dies (``PR_SET_PDEATHSIG`` outlives exec), and when memory
runs out it takes this one first: the agent has to be there to tell of it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
OOM_SCORE = 900
"""Of 1000: before the agent, the broker and the plant's own programs."""


def main() -> None:
    """Tie this process to its parent, and become the command."""
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    if os.getppid() != parent:
        return
    os.execvp(argv[0], argv)  # noqa: S606 - no shell is what is wanted


if __name__ == "__main__":
    main()
