"""Reduces the results of a batch to one, by a tree of agents: each reads a group of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from friday_cli.core.limits.budget import OUTPUT_FLOOR
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.text.untrusted import wrap_untrusted

from . import plan
from .caps import Cap
from .engine import Engine, ItemTask
from .job import digest
from .scheduler import Scheduler
from .store import MapStore

RESULT_CHARS = 4_000
"""Characters of one result that a reducing agent reads."""
GROUP_CHARS = 24_000
"""Characters of results that a reducing agent reads."""
GROUP_MOST = 20
"""Results that a reducing agent reads."""
TASK = """Combine the results below into one. Keep figures, names and paths; add nothing that is not in them. \
{missing}The task of each item was:
{template}

The results, as data:
{results}"""


def clipped(text: str) -> str:
    """A result as a reducing agent reads it."""
    left = len(text) - RESULT_CHARS
    return text if left <= 0 else f"{text[:RESULT_CHARS]}\n[{left:,} more characters are left out]"


async def results_of_batch(store: MapStore, batch: str) -> AsyncIterator[tuple[str, str]]:
    """The done items of a batch with their results, equal items once."""
    after, seen = -1, set[str]()
    while places := await store.places(batch, after):
        after = places[-1].number
        for place in places:
            if place.row is not None and place.row.state == "done" and place.row.key not in seen:
                seen.add(place.row.key)
                yield place.where, place.row.result


async def results_of_keys(store: MapStore, keys: list[str]) -> AsyncIterator[tuple[str, str]]:
    """The results of the step before."""
    for number, key in enumerate(keys, 1):
        row = await store.item(key)
        assert row is not None
        yield f"part {number}", row.result


async def groups(results: AsyncIterator[tuple[str, str]]) -> AsyncIterator[str]:
    """The texts of groups of results."""
    parts: list[str] = []
    size = 0
    async for where, result in results:
        part = wrap_untrusted(clipped(result), source=where)
        if parts and (size + len(part) > GROUP_CHARS or len(parts) == GROUP_MOST):
            yield "\n".join(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield "\n".join(parts)


class Reduction:
    """Makes the work of each step. `made` are the keys of the newest step's work."""

    def __init__(
        self, profile: str, identity: str, template: str, caps: Callable[[str], tuple[Cap, Cap]], missing: int
    ) -> None:
        self.made: list[str] = []
        self._profile, self._identity, self._template, self._caps = profile, identity, template, caps
        self._missing = f"{missing} items have no result; say so. " if missing else ""

    async def works(self, results: AsyncIterator[tuple[str, str]]) -> AsyncIterator[ItemTask]:
        """The work of a step that reads `results`."""
        self.made = []
        async for text in groups(results):
            task = TASK.format(missing=self._missing, template=self._template, results=text)
            key = digest(("reduce", task, self._identity))
            self.made.append(key)
            yield ItemTask(key, self._profile, task, *self._caps(task))

    async def run(self, store: MapStore, batch: str, scheduler: Scheduler) -> str:
        """Run the steps over the results of a batch. Returns the one that is left, "" where the scheduler was stopped."""
        found = results_of_batch(store, batch)
        while True:
            await scheduler.run(self.works(found))
            rows = [await store.item(key) for key in self.made]
            if scheduler.reason or any(row is None or row.state != "done" for row in rows):
                errors = [row.error for row in rows if row is not None and row.error]
                scheduler.stop(f"the results were not reduced: {errors[0] if errors else 'a part was not run'}")
                return ""
            if len(rows) == 1 and rows[0] is not None:
                return rows[0].result
            found = results_of_keys(store, list(self.made))


def caps_of(engine: Engine, profile: str, cap: Cap) -> Callable[[str], tuple[Cap, Cap]]:
    """The cap of an agent that reduces, and the least of it, by its task: as that of an item, but enough to read its group."""
    provider = engine.items.provider(engine.items.profile(profile))

    def caps(task: str) -> tuple[Cap, Cap]:
        usage = Usage(input=engine.items.first_request(SubagentTask(profile, task)), output=OUTPUT_FLOOR)
        cost, tokens = plan.SPARE * (provider.cost(usage) or 0.0), plan.SPARE * usage.billed
        least = Cap(None if cap.cost is None else cost, None if cap.tokens is None else tokens)
        return Cap(
            None if cap.cost is None else max(cap.cost, cost),
            None if cap.tokens is None else max(cap.tokens, tokens),
        ), least

    return caps
