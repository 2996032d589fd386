"""The style of a chart, scoped to its class so that several can share a page."""

from __future__ import annotations

from typing import Final

# Blue against vermilion: the pair that all common colour vision tells apart; shape repeats it.
_LIGHT: Final = (
    "--es-ink:#1b2530;--es-muted:#566474;--es-grid:#dde4ea;--es-a:#1c5fb8;--es-b:#bf4a06;"
    "--es-band:#8797a8;--es-paper:#ffffff"
)
_DARK: Final = (
    "--es-ink:#e8edf2;--es-muted:#a3b0bd;--es-grid:#2c3742;--es-a:#74b0ff;--es-b:#ff9c5a;"
    "--es-band:#9db0c4;--es-paper:#12181f"
)

CHART_STYLE: Final = f"""
.edgesweep-chart{{{_LIGHT};width:100%;height:auto;font:12px system-ui,sans-serif}}
@media screen and (prefers-color-scheme:dark){{.edgesweep-chart{{{_DARK}}}}}
.edgesweep-chart text{{fill:var(--es-ink)}}
.edgesweep-chart .es-head{{font-size:15px;font-weight:600}}
.edgesweep-chart .es-tick{{fill:var(--es-muted)}}
.edgesweep-chart .es-note{{font-weight:600}}
.edgesweep-chart .es-end{{text-anchor:end}}
.edgesweep-chart .es-middle{{text-anchor:middle}}
.edgesweep-chart .es-grid{{stroke:var(--es-grid)}}
.edgesweep-chart .es-axis{{stroke:var(--es-muted)}}
.edgesweep-chart .es-band{{fill:var(--es-band);fill-opacity:.22}}
.edgesweep-chart .es-cross{{stroke:var(--es-ink);stroke-dasharray:5 4}}
.edgesweep-chart .es-ci{{stroke:var(--es-ink);stroke-width:2}}
.edgesweep-chart .es-a{{color:var(--es-a)}}
.edgesweep-chart .es-b{{color:var(--es-b)}}
.edgesweep-chart .es-key{{color:var(--es-muted)}}
.edgesweep-chart .es-name{{fill:currentColor;font-size:13px;font-weight:600}}
.edgesweep-chart .es-line{{stroke:currentColor;stroke-width:2.2;stroke-linecap:round}}
.edgesweep-chart .es-dotted{{stroke-dasharray:1 6}}
.edgesweep-chart .es-full{{fill:currentColor}}
.edgesweep-chart .es-hollow{{fill:var(--es-paper);stroke:currentColor;stroke-width:2}}
.edgesweep-chart .es-sign{{fill:none;stroke:currentColor;stroke-width:2}}
"""
