"""An open session for a program: prompts for the main agent, delegations to sub-agents, and the events of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Self, Unpack
from weakref import WeakKeyDictionary

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.run_result import LIMIT_REASONS, RunResult
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.subagents.run import finish_despite_cancel
from friday_cli.session.commands import AnswerQuestion, ApplyWorktree, DiscardWorktree, Stop
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from friday_cli.view import SessionView
from friday_cli.view.follower import SessionFollower

from .options import CALLER_NAME, DelegateOptions, OpenOptions, require_known, session_options
from .results import AgentResult, agent_result

_open_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
"""The number of open sessions by event loop: the last one that is closed closes the connections too."""

START_S = 2.0
"""Seconds that a delegation that is cancelled has to start its sub-agent."""


async def run(
    prompt: str,
    *,
    schema: dict[str, object] | None = None,
    images: Sequence[Image] = (),
    **options: Unpack[OpenOptions],
) -> AgentResult:
    """Answer one prompt in a session of its own. `schema`: a JSON Schema that the answer must fit; it is in `data` of the result
    then. Cancelling it stops all agents. Raises FridayError if the session cannot be opened."""
    async with open(**options) as session:
        return await session.prompt(prompt, schema=schema, images=images)


@asynccontextmanager
async def open(**options: Unpack[OpenOptions]) -> AsyncIterator[OpenSession]:
    """A session for the time of the block. At its end all agents are stopped. Raises FridayError if it cannot be opened."""
    session = await _opened(options)
    try:
        yield session
    finally:
        await finish_despite_cancel(session.close())


async def _opened(options: OpenOptions) -> OpenSession:
    env, resume = options.get("env"), options.get("resume")
    if resume is not None:
        async with Store(store_path(env)) as store:
            resume = await store.find(resume)
    opened = await Session.open(session_options(options, resume=resume), env=env)
    loop = asyncio.get_running_loop()
    _open_sessions[loop] = _open_sessions.get(loop, 0) + 1
    return OpenSession(opened)


class OpenSession:
    """An open session; `open` makes it. `id` is that of `friday sessions show`. `view` is the fold of all its events so far."""

    def __init__(self, session: Session) -> None:
        self.id = session.id
        self.view = SessionView()
        assert session.program is not None
        self._session, self._program = session, session.program
        self._prompting: PromptRun | None = None
        self._turn = asyncio.Lock()
        self._prompts: list[PromptRun] = []
        self._follower = SessionFollower(session, self._fold)

    def _fold(self, envelope: Envelope, replayed: bool) -> None:
        self.view.apply(envelope)
        if self._prompting is not None:
            self._prompting.put(envelope)

    async def _up_to_date(self) -> None:
        """Wait until the view has all events that are in the log now."""
        last = self._program.last_event
        await self._follower.until(lambda: self.view.seq >= last)

    # ---- the main agent ------------------------------------------------------------

    def prompt(self, text: str, *, schema: dict[str, object] | None = None, images: Sequence[Image] = ()) -> PromptRun:
        """Start a run of the main agent. Await it for the result, or iterate over its events and await it then. It ends when the
        main agent and all sub-agents in the background have ended. `schema`: a JSON Schema that the answer must fit. Files
        that the text names with `@` are not attached. Raises UsageError while another prompt runs."""
        self._require_open()
        if self._prompting is not None:
            raise UsageError("A prompt is running in this session.", hint="Await it first, or stop it.")
        made = self._prompting = PromptRun(self, self._prompt(text, schema, tuple(images)), after=self.view.seq)
        self._prompts.append(made)
        return made

    async def _prompt(self, text: str, schema: dict[str, object] | None, images: tuple[Image, ...]) -> AgentResult:
        prompting = self._prompting
        assert prompting is not None
        try:
            async with self._turn:
                self._program.let_model_answer(True)
                prompting.begun.set()
                try:
                    end = await self._session.prompt(text, schema=schema, images=images)
                finally:
                    self._program.let_model_answer(False)
            await self._up_to_date()
            return agent_result(self.view, "a", end=end, as_data=schema is not None)
        finally:
            prompting.begun.set()
            self._prompting = None

    async def send(self, text: str, *, agent: str = "a") -> None:
        """Send a message to a running agent, which reads it at its next turn. Raises UsageError if it is not running."""
        await self._session.send(agent, text)

    # ---- sub-agents ----------------------------------------------------------------

    async def delegate(self, profile: str, task: str, **options: Unpack[DelegateOptions]) -> AgentResult:
        """Run a sub-agent of the main agent, without a request to the main agent's model, and return its result. Several may run
        at the same time. Cancelling it stops the sub-agent, or all agents if it cannot start. Raises UsageError if the sub-agent
        is not started, or while a prompt runs."""
        require_known(options, DelegateOptions)
        given: dict[str, Any] = {"profile": profile, "task": task, **options, "background": True}
        max_cost, given["max_iterations"] = given.pop("max_cost", None), given.pop("max_turns", None)
        arguments = {name: value for name, value in given.items() if value not in (None, "")}
        title, as_data = f"{options.get('resume') or profile}: {task}", options.get("schema") is not None
        starting = asyncio.ensure_future(self._start(arguments, title, max_cost))
        path = ""
        try:
            path = await asyncio.shield(starting)
            await self._follower.until(lambda: self.view.agents[path].ended)
        except asyncio.CancelledError:
            await finish_despite_cancel(self._stop_started(starting))
            raise
        return agent_result(self.view, path, as_data=as_data)

    async def _start(self, arguments: dict[str, Any], title: str, max_cost: float | None) -> str:
        """The path of the sub-agent that a call of the program starts. Raises UsageError."""
        self._require_open()
        if self._prompting is not None:
            raise UsageError("The main agent works on a prompt.", hint="Delegate before or after it.")
        async with self._turn:
            text = f"{title}\n\n({DELEGATE_TASK}, called by {CALLER_NAME})"
            call = await self._program.call(DELEGATE_TASK, arguments, text, max_cost=max_cost)
        await self._up_to_date()
        made = self.view.agents["a"].calls.get(call)
        if made is None or not made.agents:
            raise UsageError(made.text if made and made.text else f"The sub-agent was not started: {self._why_not()}.")
        return made.agents[0]

    def _why_not(self) -> str:
        """Why the newest run of the main agent ended before its call was made."""
        end = self.view.agents["a"].end or RunResult("interrupted", "process")
        if end.stop_reason in LIMIT_REASONS:
            return f"the {end.stop_reason} budget of {end.limit_of or 'a'} is used up"
        return end.error or end.summary("a")

    def _require_open(self) -> None:
        if self._follower.ended:
            raise UsageError(f"Session {self.id[:8]} is closed.", hint="Open it again with `resume`.")

    async def _stop_started(self, starting: asyncio.Future[str]) -> None:
        """Stop the sub-agent of a delegation. One that cannot start, such as while it waits for a permission, is stopped with all
        agents of the session."""
        if not (await asyncio.wait([starting], timeout=START_S))[0]:
            await self._session.do(Stop())
        with suppress(UsageError, asyncio.CancelledError):
            await self._session.do(Stop(await starting))

    async def apply_worktree(self, agent: str) -> tuple[str, ...]:
        """Apply what an ended agent changed in its worktree, all or nothing; returns the paths. Raises UsageError."""
        return tuple(change.path for change in await self._session.do(ApplyWorktree(agent)))

    async def discard_worktree(self, agent: str) -> None:
        """Remove the worktree of an ended agent with its changes. Raises UsageError."""
        await self._session.do(DiscardWorktree(agent))

    # ---- all agents ----------------------------------------------------------------

    def events(self, after: int = 0) -> AsyncIterator[Envelope]:
        """All durable events above number `after`, then new ones and live ones until the session is closed."""
        return self._session.events(after)

    async def answer(self, ask: str, answer: ApprovalAnswer | Literal["allow", "deny"] | str) -> bool:
        """Answer a `PermissionAsked` ("allow", "deny" or an ApprovalAnswer) or a `QuestionAsked` (a text) by its id. False if it is
        not open."""
        asked = self.view.asks.get(ask)
        if isinstance(answer, str) and ask.startswith("p"):
            if answer not in ("allow", "deny"):
                raise UsageError(f"A permission is answered by 'allow' or 'deny', not {answer!r}.")
            answer = ApprovalAnswer("allow" if answer == "allow" else "deny")
        return asked is not None and await self._session.do(AnswerQuestion(ask, answer))

    async def stop(self, agent: str = "a", *, wrap_up: bool = False) -> None:
        """Stop an agent and all below it, and wait for that. `wrap_up`: it gets one last turn to return what it has."""
        level: Literal["cancel", "abort"] = "cancel" if wrap_up else "abort"
        prompting = self._prompting
        waits = agent == "a" and prompting is not None and not prompting.begun.is_set()
        await self._session.do(Stop(agent, level))
        if waits and prompting is not None:  # its run begins now
            await prompting.begun.wait()
            await self._session.do(Stop(agent, level))

    async def close(self) -> None:
        """Stop all agents and write all events; `open` does this at the end of its block."""
        if self._follower.ended:
            return
        loop = asyncio.get_running_loop()
        last = _open_sessions[loop] == 1
        _open_sessions[loop] -= 1
        try:
            await self._session.close(last=last)
        finally:
            await self._follower.finished()
            await asyncio.gather(*(made.ended() for made in self._prompts), return_exceptions=True)


class PromptRun:
    """A prompt that runs. `await` returns its result; `async for` gives its events as they happen, live ones too, for one reader.
    Cancelling either stops all agents of the session. Leaving the loop early stops nothing."""

    def __init__(self, session: OpenSession, work: Any, *, after: int) -> None:
        self._session, self._after = session, after
        self.begun = asyncio.Event()
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self._task: asyncio.Task[AgentResult] = asyncio.create_task(work, name=f"prompt of {session.id}")
        self._task.add_done_callback(lambda task: self._queue.put_nowait(None))

    def put(self, envelope: Envelope) -> None:
        """An event of the session happened."""
        if envelope.seq is None or envelope.seq > self._after:
            self._queue.put_nowait(envelope)

    async def ended(self) -> None:
        """Return at its end."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()

    def __await__(self) -> Generator[Any, None, AgentResult]:
        return self._result().__await__()

    async def _result(self) -> AgentResult:
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await finish_despite_cancel(self._stop())
            raise

    async def _stop(self) -> None:
        await self._session.stop()
        await self.ended()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Envelope:
        try:
            envelope = await self._queue.get()
        except asyncio.CancelledError:
            await finish_despite_cancel(self._stop())
            raise
        if envelope is not None:
            return envelope
        self._queue.put_nowait(None)
        if not self._task.cancelled():
            self._task.result()  # raises what prevented the run
        raise StopAsyncIteration
