"""How a sweep ends: its exit code, and what is said of levels without figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep.records import LevelStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import LevelResult
    from edgesweep_agent.sweep.files import Output
    from edgesweep_agent.sweep.run import Outcome

MEASURED = frozenset({LevelStatus.VALID, LevelStatus.FLAGGED})
_PLANNED_SKIPS = frozenset({"memory", "time_budget"})


def exit_code(outcome: Outcome) -> int:
    """0 if every level was measured, or left out for want of memory or of time; 1 otherwise."""
    if outcome.errors:
        return max(error.exit_code for error in outcome.errors)
    return int(not all(_went_well(level) for level in outcome.levels))


def _went_well(level: LevelResult) -> bool:
    skipped = level.status is LevelStatus.SKIPPED and level.reason in _PLANNED_SKIPS
    return skipped or level.status in MEASURED


def remarks(levels: Sequence[LevelResult]) -> list[str]:
    """What has to be said of a run that went to its end, a line each."""
    missed = [level for level in levels if level.reason == "time_budget"]
    refused = [level for level in levels if level.reason == "memory"]
    anything = any(level.status in MEASURED for level in levels)
    found = [_beyond_the_budget(missed, anything=anything)] if missed else []
    found += map(_refusal, sorted(refused, key=lambda level: level.concurrency))
    return list(dict.fromkeys(found))


def interrupted(levels: Sequence[LevelResult], files: Sequence[Output]) -> str:
    """What is kept of a sweep that was told to stop, and how it goes on."""
    n = sum(level.status in MEASURED for level in levels)
    if not n:
        return "interrupted before anything was measured: the same command begins anew"
    where = f" in {', '.join(one.place for one in files)}" if files else ""
    return (
        f"interrupted: {n} measured {'level' if n == 1 else 'levels'} kept{where}; the same "
        "command with --resume goes on with the next one"
    )


def _beyond_the_budget(missed: list[LevelResult], *, anything: bool) -> str:
    """Which levels, and what the last one, or where nothing was measured the first, lacks."""
    which = ", ".join(str(level) for level in dict.fromkeys(x.concurrency for x in missed))
    opening = f"not measured within the budget: level {which}"
    if not anything or "silence_s" in missed[0].attributes:
        return f"{opening}; {_for_a_first_level(missed[0])}"
    told = [x.attributes["time_budget"] for x in missed if "time_budget" in x.attributes]
    return f"{opening}; {told[-1] if told else '--budget gives more'}"


def _for_a_first_level(first: LevelResult) -> str:
    """The least that gives a figure."""
    told = first.attributes
    if "silence_s" in told:
        seconds = told["silence_s"]
        return f"no byte came for the last {seconds} s; look at the server's log, or raise --budget"
    level = f"level {first.concurrency}"
    needs = f"{level} {told.get('time_budget', 'needs more: a larger --budget')}"
    fits = told.get("time_budget_fits")
    less = f"{fits} goes into this one" if fits else ""
    return "; or ".join(filter(None, [needs, less]))


def _refusal(level: LevelResult) -> str:
    why = "" if level.verdict is None else f": {level.verdict.text}"
    return f"does not fit: {level.contender.name}, level {level.concurrency}{why}"
