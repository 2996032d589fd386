"""A chart as one self-contained SVG: no script, no font, no reference to anything outside.

Both axes are logarithmic, so that the straight lines drawn are the estimator's own lines and the
curves meet exactly at the crossover.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from edgesweep_collector.core.evidence import rounded
from edgesweep_collector.report.scale import FLOOR, LEFT, RIGHT, TOP, Scale, scale_of, ticks
from edgesweep_collector.report.style import CHART_STYLE
from edgesweep_common.texts import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgesweep_collector.core.problem import Side
    from edgesweep_collector.report.chart import Chart, Point

_WIDTH: Final = 720
_LANE = 20
_MARK = 4.5


def render_svg(chart: Chart) -> str:
    """``chart`` as an ``<svg>`` element, readable in light and dark surroundings and on paper."""
    scale = scale_of(chart)
    lanes = [side for side in chart.points if any(p.value is None for p in chart.points[side])]
    foot = FLOOR + _LANE * len(lanes)
    height = foot + 76
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "edgesweep-chart",
            "viewBox": f"0 0 {_WIDTH} {height}",
            "role": "img",
        },
    )
    _add(root, "title", chart.metric.title)
    _add(root, "desc", printable(chart.summary))
    _add(root, "style", CHART_STYLE)
    _draw_axes(root, chart, scale, foot)
    _draw_answer(root, chart, scale)
    for side in chart.points:
        _draw_curve(root, side, chart.points[side], scale)
    _draw_names(root, chart, scale)
    for row, side in enumerate(lanes):
        _draw_lane(root, side, chart.points[side], scale, FLOOR + _LANE * (row + 0.5))
    _draw_key(root, chart, height - 12)
    return ET.tostring(root, encoding="unicode")


def _draw_axes(root: ET.Element, chart: Chart, scale: Scale, foot: float) -> None:
    for value in ticks(10**scale.y0, 10**scale.y1):
        y = scale.y(value)
        _line(root, "es-grid", LEFT, y, RIGHT, y)
        _text(root, "es-tick es-end", LEFT - 8, y + 4, f"{value:g}")
    for level in sorted({p.concurrency for side in chart.points.values() for p in side}):
        _line(root, "es-axis", scale.x(level), foot, scale.x(level), foot + 5)
        _text(root, "es-tick es-middle", scale.x(level), foot + 18, str(level))
    _line(root, "es-axis", LEFT, foot, RIGHT, foot)
    better = "higher" if chart.metric.higher_is_better else "lower"
    _text(root, "es-head", LEFT, 16, chart.metric.title)
    _text(root, "es-tick es-end", RIGHT, 16, f"{chart.metric.unit}, {better} is better")
    _text(root, "es-tick es-middle", (LEFT + RIGHT) / 2, foot + 36, "requests in flight")


def _draw_answer(root: ET.Element, chart: Chart, scale: Scale) -> None:
    """The tie band, the crossover and its interval, as far as the answer has them."""
    if chart.answer is None:
        return
    figures = chart.answer.figures
    low, high = figures.tie_band or (None, None)
    if low is not None and high is not None:
        x, width = scale.x(low), scale.x(high) - scale.x(low)
        box = {"x": _px(x), "y": _px(TOP), "width": _px(width), "height": _px(FLOOR - TOP)}
        _add(root, "rect", None, {"class": "es-band", **box})
    if figures.crossover is not None:
        x = scale.x(figures.crossover)
        _line(root, "es-cross", x, TOP, x, FLOOR)
        _text(root, "es-note es-middle", x, TOP - 6, f"crossover {rounded(figures.crossover)}")
    if figures.ci95 is not None:
        x0, x1 = scale.x(figures.ci95.low), scale.x(figures.ci95.high)
        _line(root, "es-ci", x0, FLOOR - 10, x1, FLOOR - 10)
        for end, x in (("low", x0), ("high", x1)):
            if end not in figures.ci95.open:
                _line(root, "es-ci", x, FLOOR - 15, x, FLOOR - 5)


def _draw_curve(root: ET.Element, side: Side, points: Sequence[Point], scale: Scale) -> None:
    """Straight lines between neighbouring levels; one that failed breaks the line."""
    group = _add(root, "g", None, {"class": f"es-{side.lower()}"})
    for p, q in pairwise(points):
        if p.value and q.value:
            solid = p.status == q.status == "valid"
            shape = "es-line" if solid else "es-line es-dotted"
            ends = scale.x(p.concurrency), scale.y(p.value), scale.x(q.concurrency)
            _line(group, shape, *ends, scale.y(q.value))
    for p in points:
        if p.value:
            _mark(group, side, scale.x(p.concurrency), scale.y(p.value), p)


def _mark(group: ET.Element, side: Side, x: float, y: float, point: Point) -> None:
    kind = "es-full" if point.status == "valid" else "es-hollow"
    if side == "A":
        shape = _add(
            group, "circle", None, {"class": kind, "cx": _px(x), "cy": _px(y), "r": _px(_MARK)}
        )
    else:
        corner = {"x": _px(x - _MARK), "y": _px(y - _MARK)}
        size = {"width": _px(2 * _MARK), "height": _px(2 * _MARK)}
        shape = _add(group, "rect", None, {"class": kind, **corner, **size})
    _add(shape, "title", printable(_told(point)))


def _draw_names(root: ET.Element, chart: Chart, scale: Scale) -> None:
    """Each curve's name at its end, kept apart where the curves end close together."""
    ends: list[tuple[float, float, Side]] = []
    for side, points in chart.points.items():
        drawn = [(p.concurrency, p.value) for p in points if p.value]
        if drawn:
            ends.append((scale.y(drawn[-1][1]), scale.x(drawn[-1][0]), side))
    ends.sort()
    lowest = -math.inf
    for y, x, side in ends:
        lowest = max(y + 4, lowest + 16)
        _text(root, f"es-name es-{side.lower()}", x + 12, lowest, _short(chart.names[side]))


def _draw_lane(
    root: ET.Element, side: Side, points: Sequence[Point], scale: Scale, y: float
) -> None:
    """The levels without a value, below the plot: a cross where one failed, else a diamond."""
    group = _add(root, "g", None, {"class": f"es-{side.lower()}"})
    _text(group, "es-tick es-end", LEFT - 8, y + 4, side)
    for p in points:
        if p.value is None:
            _sign(group, p.status == "failed", scale.x(p.concurrency), y, _told(p))


def _sign(group: ET.Element, failed: bool, x: float, y: float, told: str | None) -> None:
    r = _MARK
    cross = f"M{x - r:.1f},{y - r:.1f}l{2 * r},{2 * r}m0,{-2 * r}l{-2 * r},{2 * r}"
    diamond = f"M{x:.1f},{y - r:.1f}l{r},{r}l{-r},{r}l{-r},{-r}z"
    path = _add(group, "path", None, {"class": "es-sign", "d": cross if failed else diamond})
    if told:
        _add(path, "title", printable(told))


def _draw_key(root: ET.Element, chart: Chart, y: float) -> None:
    """Only what this chart uses."""
    x = float(LEFT)
    for sign, label in _key(chart):
        group = _add(root, "g", None, {"class": "es-key"})
        if sign == "band":
            box = {"x": _px(x - 5), "y": _px(y - 9), "width": "11", "height": "11"}
            _add(group, "rect", None, {"class": "es-band", **box})
        elif sign == "ci":
            _line(group, "es-ci", x - 5, y - 4, x + 6, y - 4)
        elif sign == "hollow":
            circle = {"cx": _px(x), "cy": _px(y - 4), "r": _px(_MARK)}
            _add(group, "circle", None, {"class": "es-hollow", **circle})
        else:
            _sign(group, sign == "failed", x, y - 4, None)
        _text(group, "es-tick", x + 12, y, label)
        x += 34 + 6.4 * len(label)


def _key(chart: Chart) -> Iterator[tuple[str, str]]:
    points = [p for side in chart.points.values() for p in side]
    if chart.answer and chart.answer.figures.tie_band:
        yield "band", "lead within the margin"
    if chart.answer and chart.answer.figures.ci95:
        yield "ci", "95 % interval"
    if any(p.value and p.status != "valid" for p in points):
        yield "hollow", "not counted"
    if any(p.value is None and p.status == "failed" for p in points):
        yield "failed", "failed"
    if any(p.value is None and p.status != "failed" for p in points):
        yield "absent", "skipped or without a figure"


def _told(point: Point) -> str:
    what = f"{point.value:.4g}" if point.value else point.status
    why = f" ({point.reason or point.status})" if point.status != "valid" else ""
    return f"{what} at {point.concurrency}{why}"


def _short(name: str) -> str:
    clean = printable(name)
    return clean if len(clean) <= 18 else clean[:17] + "…"


def _px(value: float) -> str:
    return f"{value:.1f}"


def _line(parent: ET.Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = {"x1": _px(x1), "y1": _px(y1), "x2": _px(x2), "y2": _px(y2)}
    _add(parent, "line", None, {"class": kind, **ends})


def _text(parent: ET.Element, kind: str, x: float, y: float, text: str) -> None:
    _add(parent, "text", printable(text), {"class": kind, "x": _px(x), "y": _px(y)})


def _add(
    parent: ET.Element, tag: str, text: str | None, attributes: dict[str, str] | None = None
) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes or {})
    element.text = text
    return element
