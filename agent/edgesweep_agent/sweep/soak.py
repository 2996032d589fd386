"""A load before the first level, until the box is as warm as it gets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from edgesweep_agent.core.soak import soak_state
from edgesweep_agent.loadgen.client import LoadGeneratorError, run_level

from .arrange import arrange
from .recorder import Progress

if TYPE_CHECKING:
    from .task import Task


async def soak(task: Task) -> str:
    """Keep the engine busy until nothing gets warmer; returns what it came to, for the record.

    The load is the task's own level, burst after burst. A burst that fails ends the soak: the
    levels will say what is wrong.
    """
    began = time.monotonic()
    course: list[tuple[float, float | None]] = []
    name = task.ready.contender.name
    while not task.stop.is_set():
        course.append((time.monotonic() - began, task.box.temperature_c()))
        state = soak_state(course)
        if state.done:
            return state.text
        task.ledger.progress(Progress(name, f"soaking: {state.text}"))
        phase = f"soak-{len(course)}"
        burst = await arrange(
            task, requests=task.concurrency, most=task.concurrency, warmup=0, phase=phase
        )
        try:
            outcome = await run_level(burst.job, stop=task.stop)
        except LoadGeneratorError as error:
            return f"given up: {error}"
        if not any(exchange.status == 200 for exchange in outcome.exchanges):
            return "given up: the engine answered no request"
    return "interrupted"
