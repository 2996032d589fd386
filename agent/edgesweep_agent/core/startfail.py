"""Why a server did not start: from how it ended and what it wrote, to what to do about it.

What is not recognised still comes with its root cause, as far as a log shows one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .startfacts import StartFailure
from .startsigns import SIGNS

if TYPE_CHECKING:
    from .startfacts import Asked, Exit

AT_ONCE_S = 5.0
_SIGILL, _SIGKILL = 4, 9
_SPEAK_FOR_THEMSELVES = frozenset({_SIGILL, _SIGKILL})
"""Nobody writes a last word about these: what stands in the log is something else."""


def classify(
    end: Exit | None, log_tail: str, asked: Asked, waited_s: float, *, served: bool = False
) -> StartFailure:
    """Why a server did not start, or ended.

    Args:
        end: How it ended; ``None`` for one that runs and does not answer.
        log_tail: The end of its log; the more of it the better (vLLM's cause lies far up).
        asked: What was asked of it.
        waited_s: From its start until it ended, or until nobody waited any longer.
        served: It had answered before it ended.
    """
    if end is not None and end.signal in _SPEAK_FOR_THEMSELVES:
        return _by_signal(end, log_tail, asked)
    for pattern, judge in SIGNS:
        match = pattern.search(log_tail)
        if match is not None:
            return judge(match, log_tail, asked)
    if end is None:
        return _hang(log_tail, waited_s)
    if end.signal is not None:
        return _by_signal(end, log_tail, asked)
    if end.code == 0 and not served:
        return StartFailure(
            "exited_at_once" if waited_s < AT_ONCE_S else "unknown",
            f"the engine ended by itself with exit code 0 after {waited_s:.1f} s without serving",
            "give the program that serves, in the foreground (no wrapper that starts a daemon)",
            {"waited_s": waited_s},
        )
    return _unknown(end, log_tail, waited_s)


def root_cause(log: str) -> str:
    """The line that says most: the first cause above vLLM's summary, else the last that failed."""
    lines = [_plain(line) for line in log.splitlines()]
    summary = next((n for n, line in enumerate(lines) if "See root cause above" in line), None)
    errors = [
        (n, line) for n, line in enumerate(lines) if _ERROR.match(line) and "root cause" not in line
    ]
    if summary is not None:
        above = [line for n, line in errors if n < summary]
        if above:
            return above[-1]
    if errors:
        return errors[-1][1]
    said = [line for line in lines if line.strip(" ^~|")]
    failed = [
        line for line in said if re.search(r"\b(?:error|failed|fatal)\b", line, re.IGNORECASE)
    ]
    return (failed or said or ["(it wrote nothing)"])[-1]


_FAILED = re.compile(r"\b(?:error|failed|fatal)\b", re.IGNORECASE)
_ERROR = re.compile(r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b:? ?")
_PREFIX = re.compile(
    r"^(?:\([\w ]+(?:pid=\d+)?\)\s*)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ "
    r"\[[^]]*\]\s*)?(?:\d+\.\d\d\.\d{3}\.\d{3} [A-Z] )?"
)
"""``(EngineCore pid=7) ERROR 11-30 12:00:00 [core.py:9]``, and llama.cpp's ``0.00.012.250 E``."""


def _plain(line: str) -> str:
    return " ".join(_PREFIX.sub("", line, count=1).split())


def _hang(log: str, waited_s: float) -> StartFailure:
    last = next((line for line in map(_plain, reversed(log.splitlines())) if line), "")
    said = f"its last line: {last[:200]}" if last else "it wrote nothing"
    return StartFailure(
        "hang",
        f"the engine neither answered nor ended within {waited_s:.0f} s; {said}",
        "raise start_timeout if it was still loading or compiling, else try the command by hand",
        {"waited_s": waited_s},
    )


def _by_signal(end: Exit, log: str, asked: Asked) -> StartFailure:
    cause = root_cause(log)
    if end.signal == _SIGILL:
        return StartFailure(
            "illegal_instruction",
            f"the engine died of SIGILL (illegal instruction); its last line: {cause[:160]}",
            f"this build of {asked.server} is for a CPU this machine does not have: take one for "
            "this CPU (/proc/cpuinfo, flags); for AMX on a virtual machine --no-repack helps",
        )
    if end.signal == _SIGKILL:
        return _killed(end)
    return StartFailure(
        "crashed",
        f"the engine died of {end.signal_name}; its last line: {cause[:200]}",
        f"a fault in {asked.server} or its driver: try another build, and report it with its log",
    )


def _killed(end: Exit) -> StartFailure:
    figures = {} if end.oom_kills is None else {"oom_kills": float(end.oom_kills)}
    if end.oom_kills:
        return StartFailure(
            "ram",
            f"the kernel killed the engine for memory ({end.oom_kills} kill(s) since its start)",
            "lower slots, context_per_request or the model's size; see dmesg, and memory.events "
            "of its cgroup",
            figures,
        )
    return StartFailure(
        "killed",
        "the engine was killed (SIGKILL) and could say nothing",
        "mostly the out-of-memory killer: see dmesg or journalctl -k, memory.events of its "
        "cgroup, and systemd-oomd or earlyoom",
        figures,
    )


def _unknown(end: Exit, log: str, waited_s: float) -> StartFailure:
    return StartFailure(
        "unknown",
        f"the engine ended with {end.text} after {waited_s:.1f} s: {root_cause(log)[:300]}",
        "see its log",
        {"waited_s": waited_s},
    )
