"""Between the session and the screen: opens and closes sessions, and folds their events into the state that is shown.

`session` is None until one is open. When another process has the session open, `observer` shows it read-only, and this process
takes it over when the other one ends.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.core.protocol.errors import BudgetSpent, FridayError, NotConfigured, UsageError
from friday_cli.core.protocol.messages import Image
from friday_cli.system import session_socket
from friday_cli.view import SessionView
from friday_cli.view.state import EventFold

from .compaction import Compaction
from .loop import PromptLoop

if TYPE_CHECKING:
    from pathlib import Path

    from friday_cli.extensions.commands import CustomCommand
    from friday_cli.extensions.tool_lists import Restriction
    from friday_cli.session.attachments import PromptText
    from friday_cli.session.observer import SessionObserver
    from friday_cli.session.open_context import Options
    from friday_cli.session.port import SessionPort, SessionReader
    from friday_cli.session.remote import RemoteSession
    from friday_cli.session.wire import Reopening

    from .widgets.message_queue import Draft

Make = Callable[[], "Options"]
"""Makes the options of the first session; called when the first session is opened."""
LULL_S = 0.04
"""Seconds between two reads of live events: a little less than between two updates of the screen."""
SHELL_KEPT = 20_000
"""Characters of the end of the output of a command of the user that the agent reads."""
MORE_TOKENS = 10_000
"""Tokens that are proposed for a sub-agent whose conversation was not counted."""
OWNER_CHECK_S = 1.0
"""Seconds between two checks which process drives a read-only session."""


def addressed(state: SessionView, text: str) -> tuple[str, str]:
    """The sub-agent that a message begins with, as in `@a.2 and the tests?`, and the rest of it; ("", text) for none."""
    path, _, rest = text.partition(" ")
    known = path.startswith("@a.") and path[1:] in state.agents
    return (path[1:], rest.strip()) if known and rest.strip() else ("", text)


def proposed_tokens(spent: BudgetSpent) -> int:
    """The tokens to propose for a sub-agent that has spent its own."""
    return 2 * spent.needed or MORE_TOKENS


class SessionController:
    """One session at a time. `on_change` is called when the state has changed."""

    def __init__(
        self, options: Make, *, on_change: Callable[[], None], joins: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        """`joins`: the session of another process that is shown first. The options, which it does not need, are made later."""
        self.fold = EventFold(lambda: self.on_change())
        """Of the session that was opened last; each session gets a new one."""
        self.session: SessionPort | None = None
        self.observer: SessionObserver | None = None
        """Shows a session that another process drives, in place of `session`."""
        self.remote: RemoteSession | None = None
        """`session`, if another process owns it and serves it here."""
        self.told: list[str] = []
        """Messages to the user; the reader empties the list."""
        self.detached = False
        """Whether the session goes on without the terminal when the chat has ended."""
        self._options, self.joins = options, joins
        self._made: Options | None = None
        self.on_change = on_change
        self._env = env
        self._takeover: asyncio.Task[None] | None = None
        """Waits until a read-only session can be taken over."""
        self._opening = asyncio.Lock()  # of two sessions that are opened at once, one would stay open unseen
        self.compaction = Compaction(lambda: self.on_change())
        self.loop = PromptLoop(self, lambda: self.on_change())
        self._pending_context: list[str] = []
        self.last = ""
        """The id of the last session with a message."""

    @property
    def options(self) -> Options:
        """The options of the open session, or of the next one."""
        if self._made is None:
            self._made = self._options()
        return self._made

    def keep(self, **changes: Any) -> None:
        """Change options that hold already, for the case that the session is opened again."""
        self._made = msgspec.structs.replace(self.options, **changes)

    async def open(self, **changes: Any) -> None:
        """Close the open session and open another; `changes` are fields of the options. A session that another process
        drives is shown read-only.

        Raises FridayError; then no session is open.
        """
        async with self._opening:
            await self.close()
            joins, self.joins = self.joins, ""
            if not await self._join(joins):
                self._made = msgspec.structs.replace(self.options, **changes)
                if not await self._join(self._made.resume):
                    self.session, self.observer = await _opened_here(self._made, self._env)
                if self.observer is not None:
                    self._takeover = asyncio.create_task(self._take_over(self.observer), name="wait for the session")
            self.fold = EventFold(lambda: self.on_change())
            if self.shown is not None:
                await self.fold.start(self.shown, lull_s=LULL_S)

    async def switch(self, **changes: Any) -> FridayError | None:
        """As `open`, but when it fails, also because of a defect, open the old session again and return the error. Raises it when
        no session was open."""
        if self.session is not None and changes.get("resume") == self.session.id:
            if self.remote is not None:
                return await self._reopen_there(self.remote, **changes)
            self.keep(mode=self.session.facts.mode)  # it may have changed since the start
        shown, old = self.shown, self._made
        was = shown.id if shown and self.state.root else None
        try:
            await self.open(**changes)
        except Exception as error:
            if shown is None:
                raise
            await self.open(**{**{name: getattr(old, name) for name in changes}, "resume": was})
            return _in_words(error)
        return None

    async def _reopen_there(self, remote: RemoteSession, **changes: Any) -> FridayError | None:
        """Let the process that owns the session open it again with these options."""
        try:
            await remote.reopen(_reopening(self.options.add_dirs, changes))
        except FridayError as error:
            return error
        self.keep(**changes)
        self.fold.dirty.update(self.state.agents)  # all of it is drawn again
        return None

    async def _join(self, session: str | None) -> bool:
        """Use a session that another process owns and serves; False where none does."""
        if not session or not session_socket.is_there(session, self._env):
            return False
        from friday_cli.session.remote import RemoteSession

        self.session = self.remote = remote = await RemoteSession.connect(session, env=self._env)
        if remote is not None:
            self._takeover = asyncio.create_task(self._when_ended(remote), name="wait for the owner's end")
        return remote is not None

    async def _when_ended(self, remote: RemoteSession) -> None:
        """When the owner of the session ends, observe the session, and take it over."""
        await remote.ended.wait()
        self.session = self.remote = None
        observer = self.observer = await _observe(self.options, self._env, free=True)
        assert observer is not None
        await self.fold.stop(cancel=True)
        await self.fold.start(observer, lull_s=LULL_S)
        self.on_change()
        await remote.close()
        await self._take_over(observer)

    async def _take_over(self, observer: SessionObserver) -> None:
        """Open the session when the process that drives it ends, also when a third one was faster; join it when it is served."""
        seen = observer.owner_pid
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(observer.released.wait(), OWNER_CHECK_S)
            if observer.owner_pid != seen:
                seen = observer.owner_pid
                self.on_change()
            try:
                if await self._join(observer.id):
                    await observer.close()
                elif observer.released.is_set():
                    self.session = await observer.take_over()
                else:
                    continue
            except UsageError:
                await asyncio.sleep(OWNER_CHECK_S)
            except Exception as error:
                self.told.append(f"The session cannot be resumed here: {_in_words(error)}")
                self.on_change()
                return
            else:
                break
        await self.fold.stop(cancel=True)  # the session gives the events that it did not read
        self.observer = None
        how = "left its terminal; you are attached to it" if self.remote else "ended; the session is resumed here"
        self.told.append(f"The other process has {how}.")
        await self.fold.start(self.require_session(), lull_s=LULL_S)
        self.on_change()

    @property
    def state(self) -> SessionView:
        """The folded events of the session that is shown, or of the last one."""
        return self.fold.state

    @property
    def shown(self) -> SessionReader | None:
        """What is on the screen: the session, or the read-only view."""
        return self.session or self.observer

    async def close(self) -> None:
        """Stop everything and close the session."""
        if self._takeover is not None:
            self._takeover.cancel()
            await asyncio.gather(self._takeover, return_exceptions=True)
            self._takeover = None
        self.compaction.cancel()
        self.loop.stop()
        session, self.session, self.remote = self.session, None, None
        observer, self.observer = self.observer, None
        if session is not None and self.state.root is not None:
            self.last = session.id
        try:
            if observer is not None:
                await self.fold.stop(cancel=True)  # it reads events of the observer
                await observer.close()
            if session is not None:
                await session.close()
        finally:
            await self.fold.stop(cancel=False)

    @property
    def working(self) -> bool:
        """Whether the main agent is at work, or its history is being compacted."""
        return self.session is not None and (self.compaction.running or not self.session.facts.idle)

    @property
    def agents_at_work(self) -> int:
        """How many agents of this process would end with the chat."""
        return len(self.state.working) if self.session is not None and not (self.remote or self.detached) else 0

    async def say(
        self,
        text: str | PromptText,
        *,
        task: str = "",
        images: tuple[Image, ...] = (),
        restriction: Restriction | None = None,
        preface: str = "",
    ) -> list[str]:
        """Send a message to the main agent, which starts with it or reads it at its next turn. Returns warnings for the user.
        `task` is what the user typed, when `text` is longer; `restriction` limits the run that it starts; `preface` is text
        before the message in which no files are looked for. Pictures are sent only with a message that starts a run.
        """
        from friday_cli.session.attachments import PromptText
        from friday_cli.session.commands import Say

        session = self.require_session()
        sent = PromptText(text) if isinstance(text, str) else text
        context = tuple(self._pending_context)
        remarks = await session.do(Say(sent, task, preface, context, images, restriction))
        del self._pending_context[: len(context)]
        return remarks

    async def say_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> list[str]:
        """As `say`, with the prompt of a custom command and its arguments; `draft` is what the user wrote."""
        from friday_cli.session.attachments import PromptText, prompt_of_command
        from friday_cli.session.commands import LoadSkill

        if custom.skill is not None:
            preface, text, note = await self.require_session().do(LoadSkill(custom.skill, rest))
            said = PromptText(text, draft.typed)
        else:
            preface, note, said = "", custom.skipped_note(), prompt_of_command(custom, rest, draft.typed)
        limits = custom.restrictions()
        remarks = await self.say(said, task=draft.text, images=draft.images, restriction=limits, preface=preface)
        return [note, *remarks] if note else remarks

    async def run(self, command: str, on_output: Callable[[str], None], *, keep: bool = True) -> tuple[int | None, str]:
        """Run a command of the user in the session's folder, without a sandbox. Returns its exit code and its output; the
        main agent reads them with the next message when `keep` is set."""
        from friday_cli.session.commands import RunShell

        ran = await self.require_session().do(RunShell(command), on_output)
        if keep:
            kept = ran.output[-SHELL_KEPT:]
            self._pending_context.append(f"[I ran this command: {command}\nexit code: {ran.exit_code}\n{kept}]")
        return ran.exit_code, ran.output

    async def interrupt(self) -> None:
        """Abort the main agent with its sub-agents, or the compaction of its history."""
        from friday_cli.session.commands import Stop

        self.compaction.cancel()
        self.loop.stop()
        await self.require_session().do(Stop())

    @property
    def mode(self) -> str:
        """The permission mode; the state has that of the last run, which may be of another process."""
        return self.session.facts.mode if self.session is not None else self.state.mode

    def require_session(self) -> SessionPort:
        """The open session. Raises UsageError when none is open, or another process drives it."""
        if self.session is not None:
            return self.session
        raise self.observer.refusal if self.observer is not None else UsageError("No session is open.")


def _in_words(error: Exception) -> FridayError:
    """An error for a person; a defect is logged."""
    if isinstance(error, FridayError):
        return error
    from friday_cli.diagnostics.log_file import report_defect

    return FridayError(report_defect(error))


def _reopening(known: Sequence[Path], changes: Mapping[str, Any]) -> Reopening:
    """What the owner of a session is asked to change; `known` are the folders that it has."""
    from friday_cli.session.wire import Reopening

    sent = {name: value for name, value in changes.items() if name in ("model", "effort", "mode")}
    added = tuple(str(folder) for folder in changes.get("add_dirs", ()) if folder not in known)
    return Reopening(add_dirs=added, **sent)


async def _opened_here(
    options: Options, env: Mapping[str, str] | None
) -> tuple[SessionPort, None] | tuple[None, SessionObserver]:
    """The session, opened by this process, or what shows it while another one drives it. Raises FridayError."""
    await asyncio.to_thread(importlib.import_module, "friday_cli.session.session")  # takes long
    from friday_cli.session.session import Session

    try:
        return await Session.open(options, env=env), None
    except (UsageError, NotConfigured):  # the model's key may be known to the other process only
        if (observer := await _observe(options, env)) is None:
            raise
        return None, observer


async def _observe(options: Options, env: Mapping[str, str] | None, *, free: bool = False) -> SessionObserver | None:
    """A read-only view of the session; None when no other process drives it, unless it may be `free`."""
    from friday_cli.session.observer import SessionObserver

    if not options.resume:
        return None
    observer = await SessionObserver.open(options, env=env)
    if observer.owner_pid is None and not free:
        await observer.close()
        return None
    return observer
