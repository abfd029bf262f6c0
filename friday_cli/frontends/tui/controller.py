"""Between the session and the screen: opens and closes sessions, folds their events, and knows who looks different.

Interface: `Engine(options, on_change=..., env=...)`; `await open(**changes)`, `await close()`; `state`, `dirty` (paths;
the reader empties it), `session` (None until it is open) or `window` (another process drives it), `working`; `say`,
`say_to`, `stop`, `answer`, `detach`, `set_mode`, `compact`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.messages import Image
from friday_cli.view import SessionView

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer
    from friday_cli.core.permissions.rules import Mode, Rules
    from friday_cli.session.observer import SessionObserver
    from friday_cli.session.open import Options
    from friday_cli.session.session import Session

Make = Callable[[], "Options"]
"""Makes the options of the first session, when everything they need is loaded."""
BREATH = 200
"""Events that are folded between two breaths of the event loop."""
LULL_S = 0.04
"""Seconds between two looks at what is being written: a little less than between two at the screen."""
AGAIN_S = 1.0
"""Seconds between two looks at who drives a session that is only shown."""


class SessionController:
    """See the module. `options` of a session are kept, for the next one."""

    def __init__(self, options: Make, *, on_change: Callable[[], None], env: Mapping[str, str] | None = None) -> None:
        self.state = SessionView()
        self.dirty: set[str] = set()
        self.session: Session | None = None
        self.window: SessionObserver | None = None
        """Shows a session that another process drives, in place of `session`; that one takes over when it has ended."""
        self.told: list[str] = []
        """What a person should be told; the reader empties it."""
        self.caught_up = asyncio.Event()
        """Set when everything from before the opening is folded."""
        self._options = options
        self._made: Options | None = None
        self._on_change = on_change
        self._env = env
        self._pump: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heir: asyncio.Task[None] | None = None
        """Waits until a session that is only shown can be taken over."""
        self._compacting: asyncio.Task[tuple[int, int]] | None = None
        self._beside: list[str] = []
        self.failure: BaseException | None = None
        """What broke the fold; the screen does not follow the session any more."""
        self.last = ""
        """The id of the newest session in which anything was said."""

    @property
    def options(self) -> Options:
        """What the open session was opened with, or the next will be."""
        if self._made is None:
            self._made = self._options()
        return self._made

    async def open(self, **changes: Any) -> None:
        """Open a session, in place of the one that is open; `changes` are fields of the options. One that another process
        drives is shown until that has ended.

        Raises FridayError with a line for a person; then the old one is closed, too, and none is open.
        """
        session_class = await asyncio.to_thread(_imported)
        await self.close()
        self._made = msgspec.structs.replace(self.options, **changes)
        try:
            self.session = await session_class.open(self._made, env=self._env)
        except UsageError:
            self.window = await self._observe(self._made)
            if self.window is None:
                raise
            self._heir = asyncio.create_task(self._take_over(self.window), name="wait for the session")
        self.state, self.dirty = SessionView(), set()
        self.caught_up = asyncio.Event()
        self._begin_folding()
        assert self._pump is not None
        caught_up = asyncio.ensure_future(self.caught_up.wait())
        await asyncio.wait([self._pump, caught_up], return_when=asyncio.FIRST_COMPLETED)
        caught_up.cancel()

    async def switch(self, **changes: Any) -> FridayError | None:
        """As `open`. Where that fails, what was open is opened again, and why it failed is given back; raises where nothing
        was open."""
        shown, old = self.shown, self._made
        was = shown.id if shown and self.state.root else None
        try:
            await self.open(**changes)
        except FridayError as error:
            if shown is None:
                raise
            await self.open(**{**{name: getattr(old, name) for name in changes}, "resume": was})
            return error
        return None

    async def _observe(self, options: Options) -> SessionObserver | None:
        """A window on the session that was to be opened; None where no other process drives it."""
        from friday_cli.session.observer import SessionObserver

        if not options.resume:
            return None
        window = await SessionObserver.open(options, env=self._env)
        if window.owner_pid is None:
            await window.close()
            return None
        return window

    async def _take_over(self, window: SessionObserver) -> None:
        """Take the session over as soon as nobody drives it; where somebody else was faster, wait for that one's end."""
        seen = window.owner_pid
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(window.released.wait(), AGAIN_S)
            if window.owner_pid != seen:
                seen = window.owner_pid
                self._on_change()
            if not window.released.is_set():
                continue
            try:
                session = await window.take_over()
            except UsageError:
                await asyncio.sleep(AGAIN_S)
            except FridayError as error:
                self.told.append(f"This window cannot go on with the session: {error}")
                self._on_change()
                return
            else:
                break
        await self._end_pump()  # what it did not read yet comes from the session
        self.session, self.window = session, None
        self.told.append("The other window has ended. This one goes on with the session.")
        self._begin_folding()
        self._on_change()

    async def _end_pump(self) -> None:
        """Fold no more."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None

    def _begin_folding(self) -> None:
        source = self.shown
        assert source is not None
        self._pump = asyncio.create_task(self._fold(source, self.state), name="fold events")
        self._pump.add_done_callback(self._ended)

    @property
    def shown(self) -> Session | SessionObserver | None:
        """What is on the screen, whether it is driven from here or not."""
        return self.session or self.window

    def _ended(self, pump: asyncio.Task[None]) -> None:
        """The stream of events is over; a defect in the fold must not pass for silence."""
        if not pump.cancelled() and (error := pump.exception()) is not None:
            self.failure = error
            self._on_change()

    async def close(self) -> None:
        """Stop what runs and let go of the session."""
        if self._heir is not None:
            self._heir.cancel()
            await asyncio.gather(self._heir, return_exceptions=True)
            self._heir = None
        if self._compacting is not None:
            self._compacting.cancel()
        session, self.session = self.session, None
        window, self.window = self.window, None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if window is not None:
            await self._end_pump()  # it reads from the window
            await window.close()
        if session is not None:
            if self.state.root is not None:
                self.last = session.id
            await session.close()
        if self._pump is not None:
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None

    async def _fold(self, session: Session | SessionObserver, state: SessionView) -> None:
        count = 0
        if session.since <= state.seq:
            self.caught_up.set()
        async for envelope in session.events(state.seq, lull_s=LULL_S):
            self.dirty.update(state.apply(envelope) or ("a",))
            count += 1
            if count % BREATH == 0:
                await asyncio.sleep(0)
            if not self.caught_up.is_set():
                if (envelope.seq or 0) >= session.since:
                    self.caught_up.set()
                continue
            self._on_change()

    # ---- what a person does -----------------------------------------------------------

    @property
    def compacting(self) -> bool:
        """Whether a summary of the history is being written."""
        return self._compacting is not None

    @property
    def working(self) -> bool:
        """Whether the main agent is at work, or its history is being compacted."""
        return self.session is not None and (self._compacting is not None or not self.session.idle)

    async def say(
        self, text: str, *, task: str = "", images: tuple[Image, ...] = (), bounds: Rules | None = None
    ) -> list[str]:
        """Give the main agent a message: it begins with it, or reads it at its next turn. Gives remarks for the person.

        `task` is what the person typed, where `text` is more; `bounds` hold for what begins with it. Pictures need a
        beginning: to an agent at work only the words go.
        """
        session = self.require_session()
        body, named, remarks = await session.attach(text)
        images = (*images, *named)
        body = "\n\n".join([body, *self._beside])
        self._beside = []
        if session.idle:
            session.start(body, task=task or text, images=images, bounds=bounds)
        else:
            await session.send("a", body)
            remarks += ["The agent is at work: the pictures were not sent with it."] if images else []
        return remarks

    async def say_to(self, path: str, text: str) -> None:
        """Give any agent a message; one that has ended goes on with it. Raises UsageError when it cannot."""
        session = self.require_session()
        agent = self.state.agents.get(path)
        if agent is not None and not agent.ended:
            await session.send(path, text)
        else:
            await self._start_task(session.resume_agent(path, text))

    async def _start_task(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin something long; a failure in its first moment is raised here."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        await asyncio.wait([task], timeout=0.2)
        if task.done() and not task.cancelled():
            task.result()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it was said, or is in the log

    def remember(self, text: str) -> None:
        """Let the main agent read `text` with the next message."""
        self._beside.append(text)

    async def run(self, command: str, on_output: Callable[[str], None]) -> tuple[int | None, str]:
        """Run a command of the person in the session's folder, with no sandbox; gives its exit code and output."""
        return await self.require_session().run_command(command, on_output)

    async def stop(self, path: str, level: Literal["cancel", "abort"]) -> int:
        """End an agent and all below it; gives how many runs ended. What compacts the history ends with the main agent."""
        if self._compacting is not None and path == "a":
            self._compacting.cancel()
        return await self.require_session().stop(path, level=level)

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> bool:
        """Answer what an agent asks; False when that is not open any more."""
        return await self.require_session().answer(ask_id, answer)

    async def detach(self, path: str) -> bool:
        """Let a child go on in the background; False when it cannot."""
        return await self.require_session().detach(path)

    async def settle(self, path: str, what: str) -> str:
        """Decide on the worktree of an agent: "apply", "keep" its branch, or "discard". Says what was done. Raises UsageError."""
        session = self.require_session()
        if what == "apply":
            files = await session.apply_worktree(path)
            return f"{pluralize(len(files), 'file')} of {path} taken over."
        await session.discard_worktree(path, keep_branch=what == "keep")
        return f"The work of {path} is kept on its branch." if what == "keep" else f"The work of {path} is discarded."

    async def set_mode(self, mode: Mode) -> None:
        """Change what passes without asking."""
        await self.require_session().permissions.set_mode(mode)

    def below(self, path: str) -> int:
        """How many agents at work are below one."""
        return sum(agent.path.startswith(path + ".") for agent in self.state.working)

    async def compact(self, instructions: str) -> tuple[int, int]:
        """Put a summary in place of the history; gives the tokens before and after. Raises UsageError, also when it was
        stopped."""
        session = self.require_session()
        self._compacting = task = asyncio.ensure_future(session.compact(instructions))
        self._on_change()
        try:
            await asyncio.wait([task])
        finally:
            self._compacting = None
            task.cancel()
            self._on_change()
        if task.cancelled():
            raise UsageError("Stopped: nothing was compacted.")
        return task.result()

    @property
    def mode(self) -> str:
        """What passes without asking now; the log has that of the last run, which may have been another process's."""
        return self.session.permissions.mode if self.session is not None else self.state.mode

    def require_session(self) -> Session:
        """The session, to do something with it. Raises UsageError where none is open, or another process drives it."""
        if self.session is not None:
            return self.session
        raise self.window.refusal if self.window is not None else UsageError("No session is open.")


def _imported() -> type[Session]:
    from friday_cli.session.session import Session

    return Session
