"""The report of an eval as one HTML file: a table, the differences and cost against passed trials as pictures, each trial."""

from __future__ import annotations

from collections.abc import Iterator

from friday_cli import __version__
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.map.caps import dollars
from friday_cli.view.reports.html import escape, html_page, table

from .report import NUMBERS, TITLES, arm_cells, head, money, remarks, short_reason
from .results import EvalResults, PairResult

WIDTH, LEFT, ROW = 1000, 320, 26
"""Units of the pictures: width, the column of names, the height of a row."""


def as_html(found: EvalResults) -> str:
    """The page."""
    return html_page(f"Friday: eval {found.id}", _body(found))


def _body(found: EvalResults) -> Iterator[str]:
    yield f"<header><h1>{escape(head(found))}</h1>\n"
    yield f'<p class="dim">Written by Friday {escape(__version__)}. Likely keys and passwords are masked.</p></header>\n<main>\n'
    yield f"<section><h2>Arms</h2>\n{table(TITLES, [arm_cells(arm) for arm in found.arms], numbers=NUMBERS)}"
    yield f"{table(('ARM', 'SETTINGS'), [(arm.name, arm.flags or 'as your settings say') for arm in found.arms])}</section>\n"
    if found.pairs:
        yield f"<section><h2>Differences</h2>\n{_differences(found.pairs)}</section>\n"
    yield "<section><h2>In words</h2>\n<ul>\n"
    yield from (f"<li>{escape(line)}</li>\n" for line in remarks(found))
    yield f"</ul></section>\n<section><h2>Cost and passed trials</h2>\n{_scatter(found)}</section>\n"
    rows = []
    for row in found.rows:
        work = row.record.work if row.record else None
        cost, session = (money(work.cost, work.tokens), work.session) if work else ("", row.agent)
        rows.append((row.task, row.arm, str(row.trial), row.outcome, cost, short_reason(row), session[:8]))
    titles = ("Task", "Arm", "Trial", "Outcome", "Cost", "Why", "Session")
    yield f"<section><h2>Trials</h2>\n{table(titles, rows, numbers=('Trial', 'Cost'))}"
    for row in found.rows:
        if why := row.why.strip():
            yield f"<details><summary>{escape(f'{row.label}: {row.outcome}')}</summary>"
            yield f'<pre tabindex="0">{escape(why)}</pre></details>\n'
    yield "</section>\n</main>\n"


def _differences(pairs: tuple[PairResult, ...]) -> str:
    """Each pair as a point with its range, from -100 to +100 points."""
    height, unit = ROW * (len(pairs) + 1), (WIDTH - LEFT) / 2
    middle = LEFT + unit
    out = [_svg(height, "Differences between arms in points, with 95 % ranges")]
    for at in (-1, -0.5, 0, 0.5, 1):
        x = middle + at * unit * 0.95
        out.append(f'<line class="pause" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{height - ROW}"/>')
        out.append(f'<text class="axis" text-anchor="middle" x="{x:.0f}" y="{height - 8}">{100 * at:+.0f}</text>')
    for number, pair in enumerate(pairs):
        y, found = number * ROW + 13, pair.comparison.difference
        low, value, high = (
            middle + max(-1, min(1, each)) * unit * 0.95 for each in (found.low, found.value, found.high)
        )
        name = sanitize_line(f"{pair.second} against {pair.first}", 44)
        out.append(f'<text x="0" y="{y + 5}">{escape(name)}</text>')
        out.append(f'<rect class="model" x="{low:.1f}" y="{y - 2}" width="{max(1.0, high - low):.1f}" height="4"/>')
        out.append(
            f'<circle class="tool" cx="{value:.1f}" cy="{y}" r="6"><title>{escape(pair.text)}</title></circle>\n'
        )
    return "".join([*out, "</svg></div>\n"])


def _scatter(found: EvalResults) -> str:
    """Each arm as a point: what a trial costs (tokens, where all models are free), and the share that passes."""
    height, bottom, left = 300, 260, 60
    paid = any(arm.cost for arm in found.arms)
    each = {arm.name: (arm.cost if paid else arm.tokens) / max(1, arm.trials) for arm in found.arms}
    most = max(each.values(), default=0.0) or 1.0
    out = [_svg(height, "Cost of a trial and share of passed trials")]
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - 20)
        out.append(f'<line class="pause" x1="{left}" x2="{WIDTH}" y1="{y:.0f}" y2="{y:.0f}"/>')
        out.append(f'<text class="axis" x="0" y="{y + 5:.0f}">{100 * share:.0f} %</text>')
    for arm in found.arms:
        x, y = left + 20 + each[arm.name] / most * (WIDTH - left - 200), bottom - arm.rate.value * (bottom - 20)
        out.append(f'<circle class="tool" cx="{x:.1f}" cy="{y:.1f}" r="7"/>')
        used = dollars(each[arm.name]) if paid else f"{each[arm.name]:,.0f} tokens"
        text = sanitize_line(f"{arm.name}, {used}", 60)
        out.append(f'<text x="{x + 12:.1f}" y="{y + 17:.1f}">{escape(text)}</text>\n')
    out.append(f'<text class="axis" x="{left}" y="{height - 12}">{"US dollars" if paid else "tokens"} a trial</text>')
    return "".join([*out, "</svg></div>\n"])


def _svg(height: int, title: str) -> str:
    return (
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>\n"
    )
