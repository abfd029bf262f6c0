"""A batch as one HTML file: its counts, and a row for each item, the ones that need a look first."""

from __future__ import annotations

from collections.abc import Iterator

from friday_cli import __version__
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view.reports.html import LARGE, escape, html_page, table

from .caps import dollars
from .report import LINE, ORDER, places, state_of, summary
from .store import BatchRow, Counts, MapStore, Place

TITLES = ("Item", "State", "Cost", "Tokens", "Tries", "Result or error", "Agent")
RESULT = 400
"""Characters of an item's result that are shown."""


async def as_html(store: MapStore, batch: BatchRow, counts: Counts) -> str:
    """The page. Of a batch that is larger than a page can be, the last items are counted only."""
    rows: dict[str, list[tuple[str, ...]]] = {state: [] for state in ORDER}
    size = left_out = 0
    for state in ORDER:
        async for place in places(store, batch.id):
            if state_of(place) != state:
                continue
            if size > LARGE * 3 // 4:
                left_out += 1
                continue
            row = _row(place)
            size += sum(map(len, row)) + 60
            rows[state].append(row)
    return html_page(f"Friday: batch {batch.id}", _body(batch, summary(batch, counts), rows, left_out))


def _body(batch: BatchRow, head: str, rows: dict[str, list[tuple[str, ...]]], left_out: int) -> Iterator[str]:
    yield f"<header><h1>{escape(head)}</h1>\n"
    job = batch.job
    yield f"<p>{escape(f'{job.profile}: {sanitize_line(job.template, 500)}')}</p>\n"
    yield f"<p>{escape(f'stopped: {sanitize_line(batch.reason, LINE)}')}</p>\n" if batch.reason else ""
    yield f'<p class="dim">Written by Friday {escape(__version__)}. Likely keys and passwords are masked.</p></header>\n<main>\n'
    if batch.reduced:
        yield f'<section><h2>Combined result</h2><pre tabindex="0">{escape(batch.reduced)}</pre></section>\n'
    for state, found in rows.items():
        if found:
            yield f"<section><h2>{escape(state.capitalize())}: {len(found):,}</h2>\n{table(TITLES, found, numbers=TITLES[2:5])}</section>\n"
    if left_out:
        yield f"<p>{left_out:,} more items: `friday map status {escape(batch.id)}`.</p>\n"
    yield "</main>\n"


def _row(place: Place) -> tuple[str, ...]:
    row = place.row
    if row is None:
        return (sanitize_line(place.where, LINE), "skipped", "", "", "", sanitize_line(place.problem, RESULT), "")
    text = row.result if row.state == "done" else row.error
    return (
        sanitize_line(place.where, LINE),
        state_of(place),
        dollars(row.cost, estimated=row.estimated) if row.cost or not row.tokens else "n/a",
        f"{row.tokens:,}",
        str(row.attempts or ""),
        sanitize_line(text or "", RESULT),
        f"{row.agent[:8]}{row.agent[36:]}" if row.agent else "",
    )
