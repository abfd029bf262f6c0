"""The timeline of a session as SVG: a row for each agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from friday_cli.core.protocol.format import price, seconds
from friday_cli.core.text.sanitize import masked_line

from ..state import SessionView
from ..timeline import SIGNS, Activity, Segment, Timeline, TimeScale

WIDTH, LEFT, RIGHT, ROW = 1000, 190, 90, 22
"""Units of the picture: its width, the columns of names and of costs, and the height of a row."""
MOST = 20_000
"""Rectangles of a picture; with more the shortest activities are left out."""


def timeline_svg(state: SessionView, timeline: Timeline, escape: Callable[[str], str]) -> str:
    """The picture with its legend. `escape` makes text safe for the page."""
    if not timeline.agents:
        return "<p>No agent ran.</p>\n"
    scale = TimeScale(timeline)
    unit = (WIDTH - LEFT - RIGHT) / max(scale.length, 0.001)
    height = ROW * (len(timeline.agents) + 1)
    shortest = _shortest(timeline)
    used: set[Activity] = set()
    out = [
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="timeline-title" '
        f'xmlns="http://www.w3.org/2000/svg"><title id="timeline-title">When each of {len(timeline.agents)} agents worked, '
        f"over {escape(seconds(scale.length))}</title>\n"
    ]
    for number, agent in enumerate(timeline.agents):
        view, y = state.agents[agent.path], number * ROW
        name = masked_line(f"{agent.path} {view.profile}", 26)
        out.append(f'<text x="0" y="{y + 15}">{escape(name)}</text>')
        for start, end in agent.runs:
            out.append(_box("run", LEFT + scale.position(start) * unit, y + 9, _span(scale, start, end) * unit, 4, ""))
        for segment in agent.segments:
            if segment.end - segment.start < shortest:
                continue
            used.add(segment.activity)
            x, width = LEFT + scale.position(segment.start) * unit, _span(scale, segment.start, segment.end) * unit
            waits = segment.activity not in ("model", "tool")
            out.append(
                _box(segment.activity, x, y + (7 if waits else 4), width, 8 if waits else 14, escape(_label(segment)))
            )
        cost = price(view.model, view.usage).removeprefix("cost ")
        out.append(f'<text class="n" x="{WIDTH}" y="{y + 15}">{escape(cost)}</text>\n')
    for step in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / 4
        out.append(f'<text class="axis" x="{x:.0f}" y="{height - 6}">{escape(seconds(scale.length * step / 4))}</text>')
    out += [
        f'<line class="pause" x1="{LEFT + at * unit:.1f}" x2="{LEFT + at * unit:.1f}" y1="0" y2="{height}"/>'
        for at in scale.pauses
    ]
    legend = "".join(
        f'<span><svg class="key" viewBox="0 0 14 14" aria-hidden="true"><rect class="{each}" width="14" height="14"/></svg> '
        f"{SIGNS[each][1]}</span> "
        for each in get_args(Activity)
        if each in used
    )
    pauses = " A dotted line is a pause without any agent at work, which is shortened." if scale.pauses else ""
    return "".join(out) + f'</svg></div>\n<p class="legend">{legend}{pauses}</p>\n'


def _shortest(timeline: Timeline) -> float:
    """Seconds that an activity must take to be drawn."""
    lengths = sorted((s.end - s.start for agent in timeline.agents for s in agent.segments), reverse=True)
    return lengths[MOST] if len(lengths) > MOST else 0.0


def _span(scale: TimeScale, start: float, end: float) -> float:
    return scale.position(end) - scale.position(start)


def _label(segment: Segment) -> str:
    return f"{segment.label or SIGNS[segment.activity][1]}, {seconds(segment.end - segment.start)}"


def _box(kind: str, x: float, y: float, width: float, height: float, title: str) -> str:
    inner = f"><title>{title}</title></rect>" if title else "/>"
    return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(width, 0.7):.1f}" height="{height}"{inner}'
