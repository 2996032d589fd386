"""A report as one HTML file that needs nothing but itself: plants are cut off from the network."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from edgesweep_collector.core.evidence import percent
from edgesweep_collector.core.problem import DEFAULT_MARGIN
from edgesweep_collector.report.cells import left_out, table_of
from edgesweep_collector.report.chart import charts_of
from edgesweep_collector.report.facts import MetricDefinition, ReportFacts
from edgesweep_collector.report.svg import render_svg
from edgesweep_common.texts import printable

THROUGHPUT: Final = MetricDefinition.of("output_tokens_per_s", "Output throughput", "tokens/s")
TTFT: Final = MetricDefinition.of("ttft_s", "Time to first token, median", "s")


def render_html(facts: ReportFacts) -> str:
    """``facts`` as a complete HTML document, without script and without any outside resource."""
    charts = charts_of(facts, (THROUGHPUT, TTFT))
    return _template().render(
        facts=facts,
        # The renderer escapes every text it places, so its markup is safe as it stands.
        charts={chart.metric.name: Markup(render_svg(chart)) for chart in charts},  # noqa: S704
        table=table_of(facts),
        left_out=left_out(facts),
        margin=percent(DEFAULT_MARGIN),
    )


def _printable(value: object) -> object:
    """Text of a device without control characters, which HTML has no escape for."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    source = files("edgesweep_collector.report").joinpath("report.html.j2")
    return environment.from_string(source.read_text(encoding="utf-8"))
