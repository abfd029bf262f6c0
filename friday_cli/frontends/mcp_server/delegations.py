"""The sessions of a server: each call that delegates is a session of the folder, which is open while the call runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
from mcp_types import CallToolResult

from friday_cli.agents.caller import Caller
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope
from friday_cli.core.protocol.format import cost, is_caller, tokens
from friday_cli.core.protocol.limits import BudgetOwner
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import DELEGATE_TASKS
from friday_cli.llm import transport
from friday_cli.session.commands import AnswerQuestion, Stop
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path, text_of
from friday_cli.view import SessionView, ToolRun
from friday_cli.view.follower import SessionFollower
from friday_cli.view.tree import activity_text

from .job import Action, Client, JobState
from .questions import answer_of, questions
from .serve_settings import ServeSettings

MAX_OPEN = 32
"""Calls that run at the same time."""
END_S = 5.0
"""Seconds for the end of a run whose call has its result."""
RUNNING = ("pending", "waiting", "running")
MakeResult = Callable[[SessionView, ToolRun], CallToolResult]


class OpenCall:
    """One call of a client that runs, in a session that is open for it. `view` is the session so far."""

    def __init__(self, session: Session, call: ToolCall) -> None:
        self.session, self.call = session, call
        self.view = SessionView()
        self._follower = SessionFollower(session, lambda envelope, replayed: self.view.apply(envelope), lull_s=0.5)
        self.running: asyncio.Task[None] | None = None

    async def run(self, text: str) -> None:
        """Run the call to its end, and close the session."""
        try:
            await self.session.prompt(text)
        finally:
            await self.session.close(last=False)
            await self._follower.finished()

    async def changed(self, timeout_s: float) -> None:
        """Return after the next event, or at the end of the call."""
        assert self.running
        waiter = asyncio.create_task(self._follower.changed())
        await asyncio.wait([waiter, self.running], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()

    @property
    def works(self) -> bool:
        """Whether the call, or an agent that it started, is still at work."""
        run = self.result
        return run is None or run.status in RUNNING or any(active.agent != "a" for active in self.session.running())

    @property
    def result(self) -> ToolRun | None:
        """The call as the log has it; None before it is logged."""
        root = self.view.root
        return root.calls.get(self.call.id) if root else None


class SessionJob:
    """A call of a client, running or ended, as a `Job`. It is read from a view of its session; `open` is the call while it
    runs in this process. `path` is the agent whose end is that of the job, or "a" for all of the call."""

    def __init__(
        self,
        path: str,
        view: SessionView,
        run: ToolRun | None,
        make: MakeResult,
        *,
        ttl_ms: int | None,
        open_call: OpenCall | None = None,
    ) -> None:
        self.id = f"{view.session}:{path}"
        self.as_task = run is not None and run.tool in (DELEGATE_TASK, DELEGATE_TASKS)
        self.path, self.view, self._run, self._make = path, view, run, make
        self._open, self._ttl_ms = open_call, ttl_ms

    def state(self) -> JobState:
        view, agent = self.view, self.view.agents.get(self.path)
        run = self._open.result if self._open else self._run
        begun = agent.started if agent else view.at
        state = partial(JobState, created=begun, updated=view.at, ttl_ms=self._ttl_ms)
        over = self._open is None or self._open.running is None or self._open.running.done()
        if agent is None or run is None or (run.status in RUNNING and not (over and agent.ended)):
            if over and (agent is None or agent.ended):
                error = agent.end.error if agent and agent.end else ""
                return state("failed", "failed", error=error or "The call was not run.")
            return state("working", self._activity(), questions=questions(view))
        if agent.end is not None and agent.end.status == "interrupted":
            why = agent.end.error or "The server's process ended while it ran. get_delegation_result has what is left."
            return state("failed", "interrupted", error=why)
        cancelled = agent.end is not None and agent.end.status == "cancelled" and self.path != "a"
        made = self._make(view, run)
        return state("cancelled" if cancelled else "completed", self._activity(), result=made)

    def _activity(self) -> str:
        """What it does, in one line: `grep src · 12.3k tokens · $0.03 of $0.50`."""
        view = self.view
        working = [a for a in view.working if a.path != "a"] or [a for a in view.agents.values() if a.path != "a"]
        if not working:
            return "starting"
        names = [f"{a.path} {activity_text(view, a) or a.status}" for a in working]
        usage = view.usage_of("a")
        limit = view.agents[self.path].newest_start.cost_usd if self.path in view.agents else None
        price = cost(usage) + (f" of ${limit:.2f}" if limit is not None else "")
        return sanitize_line(f"{'; '.join(names[:3])} · {tokens(usage)} tokens · {price}", 200)

    async def changed(self, timeout_s: float) -> None:
        if self._open is None:
            await asyncio.sleep(timeout_s)
        else:
            await self._open.changed(timeout_s)

    async def answer(self, question: str, action: Action, content: dict[str, Any]) -> None:
        ask = self.view.asks.get(question)
        if self._open is None or ask is None:
            return
        if await self._open.session.do(AnswerQuestion(question, answer_of(ask, action, content))):
            while question in self.view.asks and self._open.running and not self._open.running.done():
                await self._open.changed(1.0)

    async def cancel(self) -> None:
        if self._open is not None:
            top = [run.agent for run in self._open.session.running() if run.agent.count(".") == 1]
            paths = top if self.path == "a" else [self.path]
            for path in paths:
                _keep(asyncio.create_task(self._open.session.do(Stop(path, "cancel"))))

    async def abandon(self) -> None:
        if self._open is not None:
            await self._open.session.do(Stop())


class Delegations:
    """Starts calls in sessions of their own, and finds the jobs of this server and of earlier ones."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._open: dict[str, OpenCall] = {}
        self._opening = 0
        days = settings.settings.retention.days
        self._ttl_ms = int(days * 86_400_000) or None

    async def start(
        self,
        client: Client,
        tool: str,
        arguments: dict[str, Any],
        make: MakeResult,
        *,
        resume: str | None = None,
        max_cost: float | None = None,
    ) -> SessionJob:
        """Run a tool of the main agent in a new session, or in the session `resume`. Returns when the call is in the log.
        Raises FridayError."""
        settings = self._settings
        earlier = self._open.get(resume) if resume else None
        if earlier and earlier.running and not earlier.works:
            await asyncio.wait([earlier.running], timeout=END_S)
        if resume in self._open:
            raise UsageError(f"Session {resume} is still running.", hint="Wait until it has ended, or cancel it.")
        if len(self._open) + self._opening >= MAX_OPEN:
            raise UsageError(f"{MAX_OPEN} calls are running.", hint="Wait until one has ended, or cancel one.")
        budget = (
            settings.budget if max_cost is None else Budget(BudgetOwner.CALL, cost=max_cost, parent=settings.budget)
        )
        call = ToolCall(f"call_{uuid4().hex[:12]}", tool, arguments)
        caller = Caller(client.name, budget)
        caller.calls.append(call)
        options = msgspec.structs.replace(settings.options, attended=client.elicits, resume=resume, caller=caller)
        env = {**settings.env, "TRACEPARENT": client.traceparent} if client.traceparent else settings.env
        self._opening += 1
        try:
            session = await Session.open(options, env=env)
        finally:
            self._opening -= 1
        started = OpenCall(session, call)
        self._open[session.id] = started
        started.running = asyncio.create_task(started.run(_title(client, tool, arguments)), name=f"call {session.id}")
        started.running.add_done_callback(lambda task: self._ended(session.id, task))
        while not started.running.done() and not (
            (run := started.result) and (run.agents or run.status not in RUNNING)
        ):
            if started.view.asks and started.result:
                break  # a question before the first agent: it is asked in the name of the main agent
            await started.changed(60.0)
        return self._job_of(started, make)

    def _ended(self, session: str, task: asyncio.Task[None]) -> None:
        self._open.pop(session, None)
        if not task.cancelled():
            task.exception()

    def _job_of(self, started: OpenCall, make: MakeResult, path: str = "") -> SessionJob:
        run = started.result
        single = run is not None and run.tool == DELEGATE_TASK and len(run.agents) == 1
        path = path or (run.agents[0] if single and run else "a")
        return SessionJob(path, started.view, run, make, ttl_ms=self._ttl_ms, open_call=started)

    async def find(self, job_id: str, make: MakeResult) -> SessionJob | None:
        """The job of an id `SESSION:PATH`, also of an earlier process; None if this folder has none. SESSION may be
        shortened."""
        name, _, path = job_id.partition(":")
        path = path or "a"
        if len(name) < 8 or not name.isascii():
            return None
        running = self.running(name)
        if running is not None:
            known = path in running.view.agents
            return self._job_of(running, make, path) if known else None
        view = await self.stored(name)
        root = view.root if view else None
        if view is None or root is None or path not in view.agents:
            return None
        runs = [run for run in root.calls.values() if path in run.agents or (path == "a" and run.agents)]
        return SessionJob(path, view, runs[-1] if runs else None, make, ttl_ms=self._ttl_ms)

    async def stored(self, name: str) -> SessionView | None:
        """A session of this folder that a server wrote, from the store. A run that its process did not survive has ended.
        None if there is none."""
        async with Store(store_path(self._settings.env)) as store:
            try:
                session = await store.find(name)
            except UsageError:
                return None
            await store.reconcile()
            envelopes = await store.events(session)
        view = SessionView.of(envelopes)
        return view if view.cwd == text_of(self._settings.cwd) and _of_server(envelopes) else None

    async def recent(self, limit: int) -> list[SessionView]:
        """The newest sessions of this folder that a server wrote, the newest first."""
        async with Store(store_path(self._settings.env)) as store:
            await store.reconcile()
            rows = await store.list_sessions(self._settings.cwd, limit=10 * limit)
            found = [await store.events(row.id) for row in rows if is_caller(row.model)][:limit]
        return [SessionView.of(envelopes) for envelopes in found]

    def running(self, session: str) -> OpenCall | None:
        """The call that runs in a session, by its id or the beginning of it that is no other's; None if there is none."""
        found = [call for name, call in self._open.items() if name.startswith(session)]
        return self._open.get(session) or (found[0] if len(found) == 1 else None)

    async def close(self) -> None:
        """Stop all calls, and close their sessions. The run of a call that has its result may end by itself."""
        calls = list(self._open.values())
        if ending := [call.running for call in calls if call.running and not call.works]:
            await asyncio.wait(ending, timeout=END_S)
        await asyncio.gather(*(call.session.close(last=False) for call in calls), return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*(call.running for call in calls if call.running), return_exceptions=True)
        await transport.aclose_all()


_kept: set[asyncio.Task[int]] = set()


def _keep(task: asyncio.Task[int]) -> None:
    """Keep a reference to a task until it ends."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _of_server(envelopes: list[Envelope]) -> bool:
    starts = (e.event for e in envelopes if e.agent == "a" and isinstance(e.event, AgentStarted))
    first = next(starts, None)
    return first is not None and is_caller(first.model)


def _title(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """The message that begins the run of the main agent; the list of sessions shows it."""
    tasks = arguments.get("tasks")
    about = f"{len(tasks)} tasks" if isinstance(tasks, list) else ""
    about = about or str(arguments.get("task") or arguments.get("id") or "")
    profile = str(arguments.get("profile") or arguments.get("resume") or "")
    head = f"{profile}: {about}" if profile else about
    return f"{head.strip() or tool}\n\n({tool}, called by {sanitize_line(client.name, 60)})"
