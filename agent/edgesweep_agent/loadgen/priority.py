"""A processor at once when an answer comes, beside an engine that keeps all of them busy.

Every core is taken while a CPU engine computes, so that a wake-up waits for the end of somebody's
time slice: 5 ms and more, as much as a token takes. The lowest real-time priority makes it a tenth
of a millisecond; niceness does not. It needs a right (``LimitRTPRIO=1`` in a systemd unit).
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress

_LOWEST = 1
_UNBROKEN_US = 500_000
"""Computing so long without a wait, a process has no business before all others."""


def take_priority() -> bool:
    """Asks for the lowest real-time priority; whether it was given."""
    with suppress(OSError):
        signal.signal(signal.SIGXCPU, _give_up)
        _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
        soft = _UNBROKEN_US if hard == resource.RLIM_INFINITY else min(_UNBROKEN_US, hard)
        resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_LOWEST))
        return True
    return False


def _give_up(_signal: int, _frame: object) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
