"""A compared pair as the facts that a report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgesweep.records import LevelStatus
from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.pairing import Pair, problem, value
from edgesweep_collector.core.words import caveats_of, words

from .facts import ContenderFacts, Finding, LevelRow, MetricDefinition, ReportFacts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from edgesweep.records import LevelResult
    from edgesweep_collector.core.problem import Side

    from .facts import Status

METRICS: Final = (
    MetricDefinition.of("output_tokens_per_s", "Output throughput", "tokens/s"),
    MetricDefinition.of("ttft_s", "Time to first token, median", "s"),
    MetricDefinition.of("tpot_s", "Time per output token, median", "s"),
    MetricDefinition.of("e2e_s", "Time to the last token, median", "s"),
)
"""What two contenders are compared by, unless somebody asks for something else."""

_STATUS: Final[Mapping[LevelStatus, Status]] = {
    LevelStatus.VALID: "valid",
    LevelStatus.FLAGGED: "flagged",
    LevelStatus.SKIPPED: "skipped",
    LevelStatus.FAILED: "failed",
}


def findings(pair: Pair, metrics: tuple[MetricDefinition, ...] = METRICS) -> tuple[Finding, ...]:
    """The answer on each metric, with its sentence.

    Raises:
        PairingError: a metric that cannot be compared by.
    """
    found = []
    for metric in metrics:
        question = problem(pair, metric.name)
        answer = estimate(question)
        sentence = words(question, answer, metric=metric.title, caveats=False)
        found.append(Finding(metric, answer, sentence))
    return tuple(found)


def gather(pair: Pair, *, generated_at: datetime, reproduce: tuple[str, ...]) -> ReportFacts:
    """The facts of a report on ``pair``."""
    first = pair.levels[0]
    answers = findings(pair)
    told = (caveat for finding in answers for caveat in caveats_of(finding.answer))
    return ReportFacts(
        title=f"{pair.name('A')} or {pair.name('B')}",
        generated_at=generated_at,
        device_id=", ".join(sorted({level.device.device_id for level in pair.levels})),
        labels=first.device.labels,
        hardware_class=first.device.hardware_class,
        contenders=(_contender(pair, "A"), _contender(pair, "B")),
        workload=(
            f"{first.workload.name}: {first.workload.prompt_tokens} prompt and "
            f"{first.workload.output_tokens} output tokens, closed loop"
        ),
        levels=tuple(_row(pair, level) for level in pair.levels),
        answers=answers,
        caveats=tuple(dict.fromkeys(told)),
        reproduce=reproduce,
    )


def _contender(pair: Pair, side: Side) -> ContenderFacts:
    contender = pair.a if side == "A" else pair.b
    settings = dict(contender.settings)
    for name, known in (
        ("slots", contender.slots),
        ("context per request", contender.context_per_request),
    ):
        if known is not None:
            settings[name] = str(known)
    return ContenderFacts(
        side=side,
        name=pair.name(side),
        engine=contender.engine,
        version=contender.engine_version,
        model=contender.model,
        weight_format=contender.weight_format,
        managed=contender.managed,
        settings=settings,
    )


def _row(pair: Pair, level: LevelResult) -> LevelRow:
    reason = level.reason or ", ".join(flag.name for flag in level.flags)
    return LevelRow(
        side=pair.side(level),
        concurrency=level.concurrency,
        status=_STATUS[level.status],
        reason=reason or None,
        n_ok=level.n_ok,
        n_failed=level.n_failed,
        ttft_s=value(level, "ttft_s"),
        tpot_s=value(level, "tpot_s"),
        e2e_s=value(level, "e2e_s"),
        output_tokens_per_s=value(level, "output_tokens_per_s"),
        output_tokens_per_s_gross=value(level, "output_tokens_per_s_gross"),
        requests_per_s=value(level, "requests_per_s"),
    )
