"""The report of a batch, and its results as data."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.agents.output_schema import unfenced
from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.text.sanitize import sanitize_line

from .caps import dollars
from .charges import ItemRow
from .job import MapJob
from .sources import stored_fields
from .store import BatchRow, Counts, MapStore, Place

if TYPE_CHECKING:
    from .scheduler import Progress

SHOWN = {"failed": 20, "skipped": 20, "waiting": 5, "done": 5}
"""Items of each state that a short report names, so that its first line is still on the screen."""
LINE = 300
"""Characters of an item's line."""
SAMPLE_LINE = 160
"""Characters of an item of the sample."""
ORDER = ("failed", "skipped", "waiting", "done")


def state_of(place: Place) -> str:
    """The state of an item as people read it."""
    if place.row is None:
        return "skipped"
    return "waiting" if place.row.state in ("new", "running") else place.row.state


def receipt_line(place: Place) -> str:
    """The receipt of an item as one line."""
    row = place.row
    if row is None:
        return sanitize_line(f"{place.where}: {place.problem}", LINE)
    parts = [row.error.rstrip(".")] if row.error and row.state != "done" else []
    parts += ["started, no end yet"] if row.state == "running" else []
    if row.attempts:
        tries = f", {row.attempts} tries" if row.attempts > 1 else ""
        used = f"{row.tokens:,} tokens" if _unpriced(row) else dollars(row.cost, estimated=row.estimated)
        cost = f"{used}{tries}"
        parts.append(f"{cost}, {row.agent[:8]}{row.agent[36:]}" if row.agent else cost)
    parts += [row.receipt] if row.receipt else []
    parts += [f"branch {row.branch}"] if row.branch else []
    return sanitize_line(f"{place.where}: {'; '.join(parts) or 'not started'}", LINE)


def _unpriced(row: ItemRow) -> bool:
    """Whether what an item cost is not known: its model has no price, or its program does not say."""
    return not row.cost and (row.tokens > 0 or row.state == "done")


def summary(batch: BatchRow, counts: Counts) -> str:
    """The first line of a report."""
    waiting = counts.waiting + counts.running
    parts = [f"{counts.done:,} done"]
    parts += [
        f"{n:,} {name}"
        for n, name in ((counts.failed, "failed"), (counts.skipped, "skipped"), (waiting, "waiting"))
        if n
    ]
    return f"batch {batch.id}: {pluralize(counts.total, 'item')}: {', '.join(parts)}; {spent(batch)} spent"


def spent(batch: BatchRow) -> str:
    """What a batch has spent of its cap: `$0.40 of $5.00`, `1,000 of 90,000 tokens`."""
    cap = batch.job.cap
    money = dollars(batch.spent, estimated=batch.estimated)
    parts = [f"{money} of {dollars(cap.cost)}"] if cap.cost is not None else [money] if batch.spent else []
    parts += [] if cap.tokens is None else [f"{batch.tokens:,} of {cap.tokens:,} tokens"]
    return ", ".join(parts)


async def lines(store: MapStore, batch: BatchRow, counts: Counts, *, whole: bool = False) -> AsyncIterator[str]:
    """The report: a summary, then a line for each item by state; not for all items if it is not `whole`."""
    yield summary(batch, counts)
    if batch.reason:
        yield f"stopped: {sanitize_line(batch.reason, LINE)}"
    for state in ORDER:
        number = shown = 0
        async for place in places(store, batch.id):
            if state_of(place) != state:
                continue
            number += 1
            if whole or shown < SHOWN[state]:
                shown += 1
                yield f"{state}  {receipt_line(place)}"
        if number > shown:
            yield f"{state}  {number - shown:,} more: friday map status {batch.id}"
    if counts.failed:
        yield f"to try the failed items again: friday map retry {batch.id}"
    if counts.waiting + counts.running and batch.job.source != "list":
        higher = ", with a higher cap" if batch.reason.startswith("the cap ") else ""
        yield f"to continue: the same command{higher}"


async def sample_lines(store: MapStore, batch: str, session: str, count: int) -> AsyncIterator[str]:
    """A line for each of the `count` items that a session has tried first: what came of it."""
    async for place in places(store, batch):
        if not count:
            return
        if place.row is not None and place.row.session == session:
            count -= 1
            said = place.row.result if place.row.state == "done" else place.row.error
            yield f"{place.row.state}  {sanitize_line(f'{place.where}: {said}', SAMPLE_LINE)}"


async def places(store: MapStore, batch: str) -> AsyncIterator[Place]:
    """All items of a batch in their order."""
    after = -1
    while found := await store.places(batch, after):
        after = found[-1].number
        for place in found:
            yield place


def as_data(place: Place, job: MapJob) -> dict[str, Any]:
    """An item's result as data; with a schema it is a JSON document; one that no JSON library writes stays text."""
    row = place.row or ItemRow("", "failed", error=place.problem)
    state = state_of(place)
    result: Any = row.result if state == "done" else None
    unknown = job.cost is None and _unpriced(row)
    if job.schema is not None and result is not None:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # NaN, for one, is not JSON
            result = msgspec.json.decode(unfenced(result).strip())
    return {
        "item": place.where,
        "fields": stored_fields(job, place.where, place.fields),
        "state": state,
        "result": result,
        "error": "" if state == "done" else row.error,
        "cost_usd": None if unknown else row.cost,
        "tokens": row.tokens,
        "attempts": row.attempts,
        "agent": row.agent,
        "branch": row.branch,
        "receipt": row.receipt,
        "key": row.key,
    }


def progress_cells(progress: Progress, left: int) -> list[tuple[str, str]]:
    """The columns of a batch's progress, without those that are not known yet. `left`: items that were to be run when this process began."""
    rate = progress.ended / max(time.monotonic() - progress.begun, 0.001)
    cells = [("done", f"{progress.done:,} of {left:,}")]
    counts = (("failed", progress.failed), ("waiting", progress.waiting), ("running", progress.running))
    cells += [(name, f"{count:,}") for name, count in counts if count]
    if rate:
        cells.append(("rate", f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"))
    if progress.cost:
        cells.append(("cost", dollars(progress.cost)))
    elif progress.tokens:
        cells.append(("tokens", f"{progress.tokens:,}"))
    if rate and (rest := left - progress.ended) > 0:
        cells.append(("time left", seconds(rest / rate)))
    if progress.trouble:
        cells.append(("service", progress.trouble))
    return cells


def progress_text(progress: Progress, left: int) -> str:
    """The same as one line."""
    return ", ".join(f"{name} {value}" for name, value in progress_cells(progress, left))
