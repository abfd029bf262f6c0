"""Runs trials: a session in a copy of a task's files, then the check in a fresh copy with the session's changes."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from friday_cli.core.protocol.errors import FridayError, ToolError, limit_words
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.run_result import LIMIT_REASONS, RunResult
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.tool_catalog import READ_FILE
from friday_cli.map.caps import Cap
from friday_cli.map.charges import started
from friday_cli.map.engine import NO_FAULT, ItemResult, ItemTask
from friday_cli.map.job import digest
from friday_cli.map.store import DAY_S, MapStore
from friday_cli.session.commands import Stop
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.store import Store, new_id
from friday_cli.system.atomic_file import replace as replace_file
from friday_cli.system.paths import eval_dir, store_path
from friday_cli.view import SessionView
from friday_cli.workspace.worktrees.git import Git

from .arm import NO_WEB, PreparedArm
from .commands import CHECK_S, NOT_STARTED, ConfinedCommands, hidden_from_trials, trial_sandbox
from .start import TaskStart
from .suite import Suite, Task, start_digest, texts_digest

log = logging.getLogger(__name__)

OUTPUT = 1_000
"""Characters of a failed check's output that are kept."""
TRIES = 3
"""How often a trial is tried that ends for no fault of the agent."""
STEERING = (
    "conftest.py",
    "pytest.ini",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "package.json",
    "Makefile",
    "sitecustomize.py",
)
"""Names of files that can change what a check does."""
_OWN_END = ("reported", "refusal", "context", "supervision", "loop", "hook")
"""Why an agent failed by itself: what it left is checked all the same."""

Outcome = Literal["passed", "failed", "capped"]


class Trial(msgspec.Struct, frozen=True):
    """One try of a task by an arm. `work` is a hash of what decides the agent's work, `key` of that and of the check."""

    task: Task
    arm: PreparedArm
    number: int
    work: str
    key: str
    label: str
    """For people: `slug, three, trial 2`."""

    @classmethod
    def of(cls, task: Task, suite: Suite, arm: PreparedArm, number: int, works: Mapping[str, str]) -> Trial:
        """The trial; `works`: what was done already, by label."""
        label = f"{task.name}, {arm.arm.name}, trial {number}"
        asked = (task.name, task.task, start_digest(task, suite), arm.identity, task.timeout, task.max_cost, number)
        work = works.get(label) or digest(asked)
        key = digest((work, task.check, task.hidden, texts_digest(task, suite)))
        return cls(task, arm, number, work, key, label)

    @property
    def place(self) -> str:
        """The name of its folder. The demo fails by its first half, which no change of a profile changes: docs/eval.md shows figures."""
        return digest(self.label)[:16] + self.work[:16]


class TrialWork(msgspec.Struct, frozen=True):
    """The work of a trial's agent: its session, what it used (US dollars, tokens, active seconds), how many calls were denied,
    warnings of receipts, and the files that it changed. `capped`: the limit that ended it, "" if none did."""

    session: str
    cost: float
    tokens: int
    seconds: float
    denied: int = 0
    warnings: int = 0
    changed: tuple[str, ...] = ()
    capped: str = ""


class TrialRecord(msgspec.Struct, frozen=True):
    """How a trial ended, and why it did not pass."""

    outcome: Outcome
    work: TrialWork
    why: str = ""

    @property
    def steering(self) -> tuple[str, ...]:
        """Changed files that can change what a check does."""
        return tuple(name for name in self.work.changed if name.rpartition("/")[2] in STEERING)


class HarnessError(FridayError):
    """A trial could not be done, for no fault of the agent. `paid` is what it used. `stop`: neither can the others be done now."""

    def __init__(self, message: str, *, paid: Cap | None = None, stop: bool = False) -> None:
        super().__init__(message)
        self.paid, self.stop = paid, stop


def remove_old(folder: Path, days: float) -> None:
    """Remove what killed processes left a day ago, and what was kept of trials that were not used for `days` (0: keep it). Blocks."""
    for name, age in (("runs", 1.0), ("work", days)):
        for path in (folder / name).glob("*") if age > 0 else ():
            with suppress(OSError):  # another process removes it too
                if path.stat().st_mtime < time.time() - age * DAY_S:
                    shutil.rmtree(path)


class TrialEngine:
    """Does the work of trials, as the scheduler of batches asks for it. `trials` by key. `rescore`: only check what was kept."""

    def __init__(
        self,
        suite: Suite,
        trials: Mapping[str, Trial],
        store: MapStore,
        commands: ConfinedCommands,
        env: Mapping[str, str],
        *,
        rescore: bool = False,
    ) -> None:
        self.session = new_id()
        self._suite, self._trials, self._store, self._commands = suite, trials, store, commands
        self._env, self._rescore = env, rescore
        self.spent: set[str] = set()
        """The keys of trials that used up their share of the cap."""
        self._git = Git(env, (Path(os.getcwd()),))
        self._starts: dict[str, asyncio.Task[TaskStart]] = {}
        self._folder = eval_dir(env) / "runs" / self.session
        self._open: set[Session] = set()
        self._stopped = False

    async def run(self, work: ItemTask) -> ItemResult:
        """Do a trial. Raises only CancelledError."""
        trial = self._trials[work.key]
        folder, paid = eval_dir(self._env) / "work" / trial.place, Cap(0.0, 0)
        agent = ""
        try:
            start = await self._start(trial.task)
            done = await _kept(folder)
            if done is None and not self._rescore:
                done, paid = await self._work(trial, start, folder, work.cap)
            if done is None:
                raise HarnessError("nothing of it was kept, so it cannot be checked again")
            agent = f"{done.session}:a"
            record = await self._judge(trial, start, done, folder)
        except Exception as error:
            stop = isinstance(error, HarnessError) and error.stop
            text = sanitize_line(_words(error), OUTPUT)
            paid = error.paid if isinstance(error, HarnessError) and error.paid is not None else paid
            cost, tokens = paid.cost or 0.0, paid.tokens or 0
            return ItemResult("waiting", error=text, agent=agent, stop=stop or self._stopped, cost=cost, tokens=tokens)
        return ItemResult(
            "done",
            msgspec.json.encode(record).decode(),
            agent=agent,
            cost=paid.cost or 0.0,
            tokens=paid.tokens or 0,
            active_s=done.seconds,
            changed=bool(done.changed),
        )

    async def stop(self) -> None:
        """Stop the sessions that run; their trials are waiting."""
        self._stopped = True
        await asyncio.gather(*(session.do(Stop()) for session in list(self._open)), return_exceptions=True)

    async def close(self) -> None:
        """Remove the files of this process."""
        for making in self._starts.values():
            making.cancel()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    # ---- the agent --------------------------------------------------------------

    async def _work(self, trial: Trial, start: TaskStart, folder: Path, cap: Cap) -> tuple[TrialWork, Cap]:
        """Let the agent work, and keep what it changed. Returns that, and what is to be paid now."""
        repository, begun = folder / "repository", folder / "session"
        if (before := await self._ended_before(begun)) is not None and await asyncio.to_thread(repository.is_dir):
            return await self._keep(start, folder, before, trial, cap), Cap(0.0, 0)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        await asyncio.to_thread(folder.mkdir, parents=True)
        await start.copy(repository)
        session = await Session.open(self._options(trial, repository, cap), env=self._env)
        self._open.add(session)
        paid = Cap(0.0, 0)
        try:
            try:
                await asyncio.to_thread(begun.write_text, session.id)
                await self._store.db.submit(lambda db: started(db, self._store.folder, trial.key, f"{session.id}:a"))
                outcome = await session.prompt(trial.task.task)
                view = SessionView.of(await session.history())
                used = view.usage_of("a")
                paid = Cap(used.cost_usd or 0.0, used.billed)
            finally:
                self._open.discard(session)
                await session.close()
            if self._stopped or outcome.status in ("cancelled", "interrupted"):
                raise HarnessError("it was stopped while it ran")
            if outcome.error_kind in NO_FAULT or outcome.stop_reason == "provider":
                stop = outcome.error_kind in ("quota", "auth", "config", "not_found")
                raise HarnessError(f"the service: {outcome.error}", stop=stop)
            return await self._keep(start, folder, view, trial, cap), paid
        except Exception as error:  # also a full disk: it is paid whatever comes of it
            stop = isinstance(error, HarnessError) and error.stop
            raise HarnessError(_words(error), paid=paid, stop=stop) from error

    async def _ended_before(self, begun: Path) -> SessionView | None:
        """The session of an earlier process that ended by itself, whose changes were not kept yet."""
        if not await asyncio.to_thread(begun.is_file):
            return None
        async with Store(store_path(self._env)) as sessions:
            events: Sequence[Envelope] = await sessions.events(await asyncio.to_thread(begun.read_text))
        view = SessionView.of(events)
        end = view.root.end if view.root is not None else None
        return view if end is not None and (end.status == "completed" or end.stop_reason in _OWN_END) else None

    async def _keep(self, start: TaskStart, folder: Path, view: SessionView, trial: Trial, cap: Cap) -> TrialWork:
        root = view.root
        assert root is not None
        end = root.end or RunResult("completed", "done")
        used, capped = view.usage_of("a"), ""
        if end.stop_reason in LIMIT_REASONS:
            capped = end.summary("a")
            if end.stop_reason == "cost" and trial.task.max_cost is None and trial.arm.arm.max_cost is None:
                self.spent.add(trial.key)
                raise HarnessError(f"its share of the cap, {cap.text()}, was used up; raise --max-cost")
        patch, changed = await start.changes(folder / "repository")
        done = TrialWork(
            view.session,
            used.cost_usd or 0.0,
            used.billed,
            root.clock.earlier + root.clock.active,
            denied=len(view.denials),
            warnings=sum(len(agent.receipt.warnings) for agent in view.agents.values()),
            changed=changed,
            capped=capped,
        )
        await asyncio.to_thread((folder / "patch").write_bytes, patch)
        await asyncio.to_thread(replace_file, folder / "work.json", msgspec.json.encode(done).decode())
        await asyncio.to_thread(shutil.rmtree, folder / "repository", ignore_errors=True)
        return done

    def _options(self, trial: Trial, repository: Path, cap: Cap) -> Options:
        arm, task = trial.arm.arm, trial.task
        given = arm.options
        sandbox = trial_sandbox(self._suite, trial.arm.settings.sandbox)
        flags = {
            **given.flags,
            "sandbox.read": [*sandbox.read],
            "sandbox.read_deny": [*sandbox.read_deny],
            "sandbox.network": sandbox.network,
            "limits.max_cost": cap.cost if cap.cost else None,
            "limits.timeout": min(arm.timeout or task.timeout, task.timeout),
        }
        deny = (*given.deny, *NO_WEB, *(f"{READ_FILE}({path}/**)" for path in hidden_from_trials(self._suite)))
        return replace(
            given,
            cwd=repository,
            mode=given.mode or "auto",
            deny=deny,
            flags=flags,
            trusted=True,
            no_mcp=True,
            attended=False,
        )

    # ---- the check --------------------------------------------------------------

    async def _judge(self, trial: Trial, start: TaskStart, done: TrialWork, folder: Path) -> TrialRecord:
        """Run the check in a fresh copy. Raises HarnessError if it could not be run."""
        if done.capped:
            return TrialRecord("capped", done, done.capped)
        copy = self._folder / "checks" / trial.key[:32]
        try:
            await start.copy(copy)
            try:
                await start.apply(await asyncio.to_thread((folder / "patch").read_bytes), copy)
            except ToolError as error:
                return TrialRecord("failed", done, f"its changes cannot be applied: {error}")
            await asyncio.to_thread(start.put_hidden, copy)
            failed = await self._commands.first_failure(trial.task.checks, copy, CHECK_S)
        finally:
            await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)
        if failed is None:
            return TrialRecord("passed", done)
        command, ended = failed
        if ended.exit_code in NOT_STARTED and await self._never_starts(command, start, copy):
            raise HarnessError(f"the check `{command}` cannot be started here: {sanitize(ended.output).strip()[-200:]}")
        output = sanitize(ended.output).replace(f"{copy}/", "").strip()[-OUTPUT:]
        return TrialRecord("failed", done, f"`{command}` {ended.how}" + (f": {output}" if output else ""))

    async def _never_starts(self, command: str, start: TaskStart, copy: Path) -> bool:
        """Whether a check that did not start does not start without the agent's changes either."""
        try:
            await start.copy(copy)
            await start.solve(copy)
            await asyncio.to_thread(start.put_hidden, copy)
            return (await self._commands.run(command, copy, CHECK_S)).exit_code in NOT_STARTED
        finally:
            await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)

    async def _start(self, task: Task) -> TaskStart:
        """The files of a task, made once. Raises HarnessError."""
        if task.name not in self._starts:
            folder = self._folder / "starts" / task.name
            making = TaskStart.make(task, self._suite, folder, self._commands, self._git)
            self._starts[task.name] = asyncio.create_task(making)
        try:
            return await asyncio.shield(self._starts[task.name])
        except FridayError as error:
            raise HarnessError(str(error)) from None


def _words(error: Exception) -> str:
    if limit := limit_words(error):
        return limit
    if isinstance(error, FridayError | OSError):
        return str(error)
    log.error("a trial", exc_info=error)
    return f"Friday itself failed: {type(error).__name__}: {error}"


async def _kept(folder: Path) -> TrialWork | None:
    """What was kept of a trial's work."""
    try:
        return msgspec.json.decode(await asyncio.to_thread((folder / "work.json").read_bytes), type=TrialWork)
    except (OSError, msgspec.MsgspecError):
        return None
