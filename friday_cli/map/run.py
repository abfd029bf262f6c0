"""Runs a batch from its command to its report."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from friday_cli.agents import output_schema
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.session.session import Options

from . import plan, recovery, reduce, results
from .caps import Cap
from .engine import EmbeddedEngine, Engine, ItemTask
from .job import MapJob, item_key, profile_digest
from .report import sample_lines
from .scheduler import Progress, Scheduler
from .sources import BatchItem, Items, file_item, stored_fields
from .store import BatchRow, Counts, MapStore, Place
from .template import WHOLE, Template

if TYPE_CHECKING:
    from .deferred import DeferredRequests

PAGE = 200
"""Items that are stored or read at once."""
NEVER = re.compile(r"\s*(?:/bin/|/usr/bin/)?false\s*|\s*exit\s+0*[1-9]\d*\s*")


class MapFrontend(Protocol):
    """The dialogue of a batch with a person."""

    def note(self, text: str) -> None:
        """Show a line."""

    async def confirm(self, question: str) -> bool:
        """Ask for the one yes. Raises UsageError where no one can be asked."""

    def can_confirm(self, about: str) -> None:
        """Raises UsageError with `about` where no one can be asked."""

    def progress(self, progress: Progress, left: int) -> None:
        """Show how far it is. `left`: items that were to be run when this process began."""


class Prepared(msgspec.Struct, frozen=True):
    """A batch that was read and checked before its store and session are opened."""

    job: MapJob
    template: Template
    items: Items
    bad: list[BatchItem]


def prepare(
    job: MapJob, env: Mapping[str, str], reading: Callable[[str, int], None] = lambda what, count: None
) -> Prepared:
    """Read and check what a job names; `reading` as of `Items`. Nothing is spent. Raises FridayError."""
    if job.engine == "ray" and find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray, which is not installed.", hint="Run `pip install 'friday-cli[ray]'`.")
    if job.engine == "ray" and job.deferred:
        raise UsageError("--deferred needs no other machines: leave --engine ray out.")
    limits = ("--max-cost", job.cost), ("--per-item-cost", job.item_cost)
    for name, cap in (*limits, ("--max-tokens", job.tokens), ("--per-item-tokens", job.item_tokens)):
        if cap is not None and not 0 < cap < math.inf:
            raise UsageError(f"{name} must be a number above 0.")
    template = Template(job.template or "{" + WHOLE + "}")
    if job.schema is not None:
        output_schema.checker(job.schema)
    if job.check:
        _require_check(job, env)
    items = Items(job, template, reading)
    results.require_output(job, None)
    bad = items.check()
    results.require_output(job, items.usable)
    return Prepared(job, template, items, bad)


def _require_check(job: MapJob, env: Mapping[str, str]) -> None:
    """Raises UsageError for a check command that can never pass."""
    if NEVER.fullmatch(job.check):
        raise UsageError(f"--check: {job.check.strip()!r} never passes.")
    ran = subprocess.run(
        ["bash", "-n", "-c", job.check], cwd=job.folder, env=dict(env), capture_output=True, check=False
    )
    if ran.returncode:
        raise UsageError(
            f"--check: {job.check!r} is not a command: {ran.stderr.decode(errors='replace').strip()[:200]}"
        )
    try:
        word = shlex.split(job.check)[0]
    except (ValueError, IndexError):
        return
    if re.fullmatch(r"[\w./+-]+", word):
        argv = ["bash", "-c", 'command -v -- "$1"', "bash", word]
        if subprocess.run(argv, cwd=job.folder, env=dict(env), capture_output=True, check=False).returncode:
            raise UsageError(f"--check: there is no command {word!r}, so it never passes.")


async def open_engine(job: MapJob, options: Options, title: str, env: Mapping[str, str]) -> Engine:
    """The engine that runs the items of a batch. Raises FridayError."""
    if job.engine == "embedded":
        return await EmbeddedEngine.open(options, title, env)
    from .ray_engine import RayEngine  # imports Ray

    return await RayEngine.open(job, options, title, env)


def _deferred(
    job: MapJob, store: MapStore, engine: Engine, running: Callable[[], int], frontend: MapFrontend
) -> DeferredRequests:
    from .deferred import DeferredRequests  # most batches send their requests at once

    return DeferredRequests(job, store, engine.items, running, frontend.note)


class MapRun:
    """One process's part of a batch. `store` is of the job's folder."""

    def __init__(
        self, prepared: Prepared, store: MapStore, frontend: MapFrontend, env: Mapping[str, str] | None = None
    ) -> None:
        self.job, self._template, self._items = prepared.job, prepared.template, prepared.items
        self._store, self._frontend = store, frontend
        self._env = os.environ if env is None else env
        self._engine: Engine | None = None
        self._scheduler: Scheduler | None = None
        self._reason = ""
        self._deferred: DeferredRequests | None = None
        self.reduced = ""

    def interrupt(self, reason: str) -> None:
        """Start no further items. Those that run may end."""
        self._reason = reason
        if self._scheduler is not None:
            self._scheduler.stop(reason)

    @property
    def at_service(self) -> int:
        """Requests that wait at the service in its batches."""
        return 0 if self._deferred is None else self._deferred.at_service

    async def cancel_at_service(self) -> None:
        """Cancel the batches at the service. Raises ProviderError."""
        if self._deferred is not None:
            await self._deferred.cancel()

    async def stop(self) -> None:
        """Stop what runs as well."""
        if self._engine is not None:
            await self._engine.stop()

    async def run(self, options: Options) -> tuple[BatchRow, Counts]:
        """Run the batch as far as it goes. Raises FridayError."""
        job = self.job
        with self._store.own(job.id):
            items = "items of a conversation" if job.source == "list" else f"--{job.source} {job.items}"
            title = f"map {job.profile}: {items} (batch {job.id})"
            engine = await open_engine(job, options, title, self._env)
            try:
                await self._run_batch(engine)
            finally:
                await engine.close()
            return await self._end()

    async def run_with(self, engine: Engine) -> tuple[BatchRow, Counts]:
        """`run` with agents of a session that exists."""
        with self._store.own(self.job.id):
            await self._run_batch(engine)
            return await self._end()

    async def _end(self) -> tuple[BatchRow, Counts]:
        job, store = self.job, self._store
        counts = await store.counts(job.id)
        left = counts.waiting + counts.running
        ended = self._scheduler is not None and not left and (not job.reduce or bool(self.reduced))
        await store.end(job.id, whole=ended, reason="" if ended else self._reason)
        assert self._engine is not None
        await store.prune(self._engine.items.retention_days)
        return await store.batch(job.id), counts

    async def _run_batch(self, engine: Engine) -> None:
        job, store = self.job, self._store
        self._engine = engine
        profile = engine.items.profile(job.profile)
        provider = engine.items.provider(profile)
        model = f"{provider.name}/{provider.model}"
        if job.reduce:
            reducer = engine.items.profile(job.reduce)
            reducing = engine.items.provider(reducer)
        if job.isolation and not engine.items.can_isolate:
            text = f"--isolation worktree: {job.folder} is not in a git repository."
            raise UsageError(text, hint="Run `git init` and commit first, or leave --isolation out.")
        plan.require_price(job, provider)
        if job.deferred:
            engine.items.with_batches(provider)
        if note := engine.items.price_note(provider):
            self._frontend.note(note)
        batch = await store.begin(job)
        await recovery.recover(store, self._env, own=job.id)
        identity = profile_digest(profile)
        largest = await self._add_places(identity, model)
        if self._reason:
            return
        if left := await store.left(job.id):
            await store.reopen(job.id)
        batch = await store.batch(job.id)
        first = SubagentTask(job.profile, largest or "x", schema=job.schema)
        request = engine.items.first_request(first)
        caps = plan.item_caps(job, provider, left, request, Cap(*engine.items.highest(profile)))
        budget = await engine.budget(f"batch {job.id}", job.cap.left(batch.spent, batch.tokens))
        show = partial(self._frontend.progress, left=left)
        scheduler = Scheduler(job, store, engine, budget, changed=show, trouble=engine.items.trouble)
        self._scheduler = scheduler
        scheduler.stop(self._reason)
        if left:
            works = self._works(caps, identity, model)
            if job.cap.above(batch.agreed):
                await self._approve(scheduler, engine, works, left, (job.profile, model))
            if job.deferred and not scheduler.reason:
                await self._run_deferred(scheduler, engine, works)
            await scheduler.run(works)
        self._reason = self._reason or scheduler.reason
        if job.reduce and not scheduler.reason:
            await self._reduce(scheduler, profile_digest(reducer) + f"{reducing.name}/{reducing.model}", caps[0])
            self._reason = self._reason or scheduler.reason

    async def _run_deferred(self, scheduler: Scheduler, engine: Engine, works: AsyncIterator[ItemTask]) -> None:
        """Run work whose requests wait for batches of the service."""
        deferred = self._deferred = _deferred(
            self.job, self._store, engine, lambda: scheduler.progress.running, self._frontend
        )
        provider = engine.items.defer(engine.items.profile(self.job.profile), deferred.reply)
        await deferred.open(provider)
        scheduler.use(Budget("deferred"))  # what requests cost is reserved when they are sent
        leaving = asyncio.create_task(self._leave_when_sent(deferred)) if not self.job.wait else None
        try:
            await scheduler.run(replace(work, rounds=self.job.deferred) async for work in works)
        finally:
            if leaving is not None:
                leaving.cancel()
            await deferred.close()
            engine.items.defer_no_more()
        batch = await self._store.batch(self.job.id)
        scheduler.use(self.job.cap.left(batch.spent, batch.tokens).budget(f"batch {batch.id}"))

    async def _leave_when_sent(self, deferred: DeferredRequests) -> None:
        await deferred.sent.wait()
        self.interrupt(
            f"{pluralize(deferred.at_service, 'request')} wait at the service; the same command collects them"
        )
        await self.stop()

    async def _add_places(self, identity: str, model: str) -> str:
        """Store which items the batch has, all unless it is interrupted; the results of those that it had stay named meanwhile. Returns
        the longest task."""
        job, store = self.job, self._store
        page: list[tuple[str, BatchItem]] = []
        number, longest = 0, ""
        for item in self._items:
            key = ""
            if not item.problem:
                task = self._template.render(item.fields)
                longest = max(longest, task, key=len)
                key = item_key(job, task, item.content, profile=identity, model=model)
            page.append((key, item))
            if len(page) == PAGE:
                await store.put_places(job.id, number, page)
                number, page = number + PAGE, []
                if self._reason:
                    return longest
        await store.put_places(job.id, number, page)
        await store.cut_places(job.id, number + len(page))
        return longest

    async def _works(self, caps: tuple[Cap, Cap], identity: str, model: str) -> AsyncIterator[ItemTask]:
        """The work of the items that are to be run, in order."""
        after = -1
        while places := await self._store.places(self.job.id, after, PAGE):
            after = places[-1].number
            for place in places:
                if place.row is not None and place.row.state in ("new", "waiting"):
                    work = self._work(place, caps, identity, model)
                    if work is not None:
                        yield work

    def _work(self, place: Place, caps: tuple[Cap, Cap], identity: str, model: str) -> ItemTask | None:
        """The work of an item; None if its file has changed since it was read."""
        job = self.job
        fields: Mapping[str, Any] = stored_fields(job, place.where, place.fields)
        if job.source == "glob":
            from pathlib import Path

            fields = file_item(Path(job.folder), place.where, self._template.fields).fields
        if self._template.missing(fields):
            return None
        task = self._template.render(fields)
        assert place.row is not None
        if item_key(job, task, place.content, profile=identity, model=model) != place.row.key:
            return None
        whole = job.source != "glob" or "content" in self._template.fields
        return ItemTask(
            place.row.key,
            job.profile,
            task,
            *caps,
            fields=fields,
            schema=job.schema,
            check=job.check,
            isolation=job.isolation,
            self_contained=whole,
        )

    async def _approve(
        self,
        scheduler: Scheduler,
        engine: Engine,
        works: AsyncIterator[ItemTask],
        left: int,
        named: tuple[str, str],
    ) -> None:
        """Run a sample, show the forecast, and ask for the one yes. Raises UsageError where no one can be asked."""
        job, frontend = self.job, self._frontend
        at_once = min(job.parallel, 8) if job.deferred else job.parallel
        before = plan.forecast(await engine.items.past_runs(*named), left, at_once)
        cap = job.cap.text()
        frontend.can_confirm(f"{before.text()}, cap {cap}")
        if 0 < job.sample < left:
            await scheduler.run(works, most=job.sample)
            if scheduler.reason:
                return
            rest, ran = await self._store.left(job.id), scheduler.progress
            around = ran.took_s / ran.active_s if ran.active_s else 1.0
            past = await engine.items.past_runs(*named)
            before = plan.forecast(past[: ran.done + ran.failed] or past, rest, at_once, around)  # the sample's
            if job.check and not scheduler.progress.done:
                scheduler.stop(f"none of the first {job.sample} items was done")
                return
            async for line in sample_lines(self._store, job.id, engine.items.id, ran.ended):
                frontend.note(line)
        failed = f"; {scheduler.progress.failed} of the sample failed" if scheduler.progress.failed else ""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        batch = before.by_batch() if job.deferred else ""
        agreed = await frontend.confirm(f"{before.text()}{batch}, cap {cap}{failed}")
        scheduler.progress.begun += loop.time() - asked  # the rate is that of the work
        if agreed:
            await self._store.update(job.id, approved=job.cost or 0.0, approved_tokens=job.tokens or 0)
        else:
            scheduler.stop("you declined")

    async def _reduce(self, scheduler: Scheduler, identity: str, cap: Cap) -> None:
        job, store = self.job, self._store
        counts = await store.counts(job.id)
        if not counts.done or self._engine is None:
            return
        caps = reduce.caps_of(self._engine, job.reduce, cap)
        template = job.template or "{" + WHOLE + "}"
        step = reduce.Reduction(job.reduce, identity, template, caps, counts.total - counts.done)
        scheduler.hide_progress()
        self._frontend.note(f"combining {counts.done:,} results")
        self.reduced = await step.run(store, job.id, scheduler)
        if self.reduced:
            await store.update(job.id, reduced=self.reduced)
