"""Runs an eval from its command to its results, as a batch of trials under one cap."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import combinations

from msgspec.structs import replace

from friday_cli.config import Settings
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.map import plan, recovery
from friday_cli.map.caps import Cap, dollars
from friday_cli.map.engine import ItemTask
from friday_cli.map.job import MapJob
from friday_cli.map.run import MapFrontend
from friday_cli.map.scheduler import Scheduler
from friday_cli.map.sources import BatchItem
from friday_cli.map.store import BatchRow, MapStore
from friday_cli.system.paths import eval_dir

from .arm import Arm, PreparedArm, prepare_arm
from .commands import ConfinedCommands
from .options import EvalOptions
from .results import TrialRow, trial_rows
from .statistics import FEWEST, smallest_difference
from .suite import Suite
from .trial import TRIES, Trial, TrialEngine, remove_old

PROMPT = 8_000
"""Tokens of the first request of a trial, as an estimate for its smallest cap."""


class EvalRun:
    """One process's part of an eval. `rescore`: nothing but the checks is run, on what was kept."""

    at_service = 0

    def __init__(
        self,
        job: MapJob,
        suite: Suite,
        arms: Sequence[Arm],
        store: MapStore,
        frontend: MapFrontend,
        *,
        rescore: bool = False,
    ) -> None:
        self._job, self._suite, self._arms, self._store, self._frontend = job, suite, arms, store, frontend
        self._options = EvalOptions.of(job)
        self._rescore = rescore
        self._env = os.environ
        self._engine: TrialEngine | None = None
        self._scheduler: Scheduler | None = None
        self._reason = ""

    def interrupt(self, reason: str) -> None:
        """Start no further trials. Those that run may end."""
        self._reason = reason
        if self._scheduler is not None:
            self._scheduler.stop(reason)

    async def stop(self) -> None:
        """Stop what runs as well."""
        if self._engine is not None:
            await self._engine.stop()

    async def run(self) -> tuple[BatchRow, list[TrialRow]]:
        """Run the eval as far as it goes. Raises FridayError."""
        job, store = self._job, self._store
        with store.own(job.id):
            folder = eval_dir(self._env)
            folder.mkdir(parents=True, exist_ok=True)
            arms = [await prepare_arm(arm, folder, self._env) for arm in self._arms]
            if job.cost is None and (priced := [each.arm.name for each in arms if not each.free]):
                raise UsageError(
                    f"--max-cost is missing: the cap of the whole eval in US dollars. The model of {priced[0]} is not free."
                )
            if twins := [(a.arm.name, b.arm.name) for a, b in combinations(arms, 2) if a.identity == b.identity]:
                raise UsageError(
                    f"The arms {' and '.join(twins[0])} have the same settings, so there is nothing to compare."
                )
            caps = {each.arm.name: self._caps(each) for each in arms}
            works = {row.label: row.work for row in await trial_rows(store, job.id)} if self._rescore else {}
            trials = self._trials(arms, works)
            await store.begin(job)
            await recovery.recover(store, self._env, own=job.id)
            await store.put_places(job.id, 0, [(trial.key, _item(trial)) for trial in trials])
            await store.cut_places(job.id, len(trials))
            if not (left := await store.left(job.id)):
                again = (
                    "the checks are those that ran already" if self._rescore else "each trial has its result already"
                )
                self._frontend.note(f"nothing is run: {again}.")
            else:
                await store.reopen(job.id)
                await self._run_trials(trials, caps, arms[0].settings, left)
            await store.end(job.id, whole=not await store.left(job.id), reason=self._reason)
            days = arms[0].settings.retention.days
            await store.prune(days)
            await asyncio.to_thread(remove_old, folder, days)
            return await store.batch(job.id), await trial_rows(store, job.id)

    def _trials(self, arms: Sequence[PreparedArm], works: Mapping[str, str]) -> list[Trial]:
        """All trials: in blocks of a task and a number, in which the arms come in random order, so that a bad hour hits all of
        them. `works`: what was done already, by label."""
        chance = random.Random(self._options.seed)
        found: list[Trial] = []
        for number in range(1, self._options.trials + 1):
            for task in self._suite.tasks:
                block = [Trial.of(task, self._suite, arm, number, works) for arm in arms]
                chance.shuffle(block)
                found += block
        return found

    def _caps(self, arm: PreparedArm) -> tuple[Cap, Cap]:
        """What a trial of an arm may spend, and the least that one can start with. Raises UsageError."""
        job = self._job
        count = len(self._suite.tasks) * len(self._arms) * self._options.trials
        given = replace(job, item_cost=arm.arm.max_cost)
        return plan.item_caps(given, arm.provider, count, PROMPT, Cap())

    async def _run_trials(
        self, trials: Sequence[Trial], caps: Mapping[str, tuple[Cap, Cap]], settings: Settings, left: int
    ) -> None:
        job, store = self._job, self._store
        by_key = {trial.key: trial for trial in trials}
        folder = eval_dir(self._env)
        commands = await ConfinedCommands.open(self._suite, folder, settings, self._env)
        if commands.kind == "none":
            self._frontend.note(
                "no sandbox: you are asked about the agents' commands, and the suite's are not confined"
            )
        engine = self._engine = TrialEngine(self._suite, by_key, store, commands, self._env, rescore=self._rescore)
        try:
            batch = await store.batch(job.id)
            if not self._rescore:
                await self._approve(batch, left)
            if self._reason:
                return
            scheduler = self._scheduler = Scheduler(
                job,
                store,
                engine,
                job.cap.left(batch.spent, batch.tokens).budget(f"eval {job.id}"),
                changed=lambda progress: self._frontend.progress(progress, left),
            )
            for _ in range(1 if self._rescore else TRIES):
                scheduler.progress.waiting = 0  # these are tried again
                await scheduler.run(self._works(by_key, caps))
                if scheduler.reason or not await store.left(job.id):
                    break
            self._reason = self._reason or scheduler.reason
        finally:
            try:
                await engine.close()
            finally:
                await commands.close()

    async def _works(self, trials: Mapping[str, Trial], caps: Mapping[str, tuple[Cap, Cap]]) -> AsyncIterator[ItemTask]:
        """The trials that are to be run, in order."""
        for row in await trial_rows(self._store, self._job.id):
            if self._engine is not None and row.key in self._engine.spent:
                continue  # it would use up the same share again
            if row.state in ("new", "waiting") and (trial := trials.get(row.key)) is not None:
                most, least = caps[trial.arm.arm.name]
                if (own := trial.task.max_cost) is not None and most.cost is not None:
                    most, least = Cap(own, most.tokens), Cap(min(own, least.cost or own), least.tokens)
                yield ItemTask(row.key, trial.arm.arm.name, trial.task.task, most, least)

    async def _approve(self, batch: BatchRow, left: int) -> None:
        """Say what it will cost and show, and ask for the one yes. Raises UsageError where no one can be asked."""
        job = self._job
        text = f"{await self._plan(left)}. {self._power()}".rstrip()
        if job.cost is None or not job.cap.above(batch.agreed):
            self._frontend.note(text)
            return
        question = text.rstrip(".")
        self._frontend.can_confirm(question)
        if await self._frontend.confirm(question):
            await self._store.update(job.id, approved=job.cost)
        else:
            self._reason = "you declined"

    async def _plan(self, left: int) -> str:
        job, tasks = self._job, len(self._suite.tasks)
        count = tasks * len(self._arms) * self._options.trials
        text = (
            f"{pluralize(tasks, 'task')} x {pluralize(len(self._arms), 'arm')} x {pluralize(self._options.trials, 'trial')}"
            f" = {pluralize(count, 'session')}"
        )
        text += f", {left:,} of them to be run" if left < count else ""
        found = plan.forecast(await self._past(), left, job.parallel)
        if found.cost is not None and job.cost is not None:
            low, high = map(dollars, found.cost)
            text += f", usually {low} to {high}"
        return text + (f", cap {dollars(job.cost)}" if job.cost is not None else "")

    def _power(self) -> str:
        tasks, trials = len(self._suite.tasks), self._options.trials
        if len(self._arms) < 2:
            return ""
        if len({task.group or task.name for task in self._suite.tasks}) < FEWEST:
            return f"Fewer than {FEWEST} tasks of different origin cannot show a difference."
        more = max(40, 2 * tasks)
        seen, then = (100 * smallest_difference(number, trials) for number in (tasks, more))
        return f"Differences below about {seen:.0f} points can be missed; {more} tasks would show {then:.0f}."

    async def _past(self) -> list[PastRun]:
        """What trials of this suite used in this folder, the newest first."""
        found: list[PastRun] = []
        for batch in await self._store.batches():
            if batch.job.source == "eval" and batch.job.items == self._job.items:
                done = [row.record.work for row in await trial_rows(self._store, batch.id) if row.record is not None]
                found += [PastRun("", 0, work.tokens, work.cost, work.seconds) for work in done]
        return found


def _item(trial: Trial) -> BatchItem:
    fields = {
        "task": trial.task.name,
        "arm": trial.arm.arm.name,
        "trial": trial.number,
        "group": trial.task.group or trial.task.name,
        "work": trial.work,
    }
    return BatchItem(trial.label, fields)
