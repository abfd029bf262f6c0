"""What the user types: messages, the queue, slash commands and shell commands. Also what slash commands do to the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.worker import Worker

from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.core.protocol.messages import Image

from .commands.context import NOTHING
from .controller import addressed
from .state.keymap import Keys
from .terminal.clipboard import copy
from .widgets import NARROW
from .widgets.blocks import CardBlock
from .widgets.completion_popup import Completion
from .widgets.message_queue import Draft
from .widgets.shell_block import ShellBlock
from .widgets.transcript import Transcript

if TYPE_CHECKING:
    from friday_cli.extensions.commands import CustomCommand, CustomCommands
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .app import FridayApp
    from .widgets.diff_review import ReviewActions
    from .widgets.profile_dialog import ProfileActions


class InputController:
    """Delivers what the user types. It is the `CommandContext` of the screen."""

    def __init__(self, app: FridayApp, first: str) -> None:
        self._app = app
        self.controller = app.controller
        self.say_note = app.say_note
        self.first = first
        """The message of the command line, until it is sent."""
        self.profiles: list[tuple[str, str]] = []
        """(name, description) of the profiles of the folder, when they are loaded."""
        self._customs: CustomCommands | None = None
        self.keys = Keys()
        """The user's own keys."""
        self.shell = ShellRunner(app)
        self._sending = asyncio.Lock()  # one message after the other: each may start the agent
        self._reported: frozenset[str] = frozenset()
        """Problems of custom commands that were shown."""

    @property
    def customs(self) -> CustomCommands:
        """The user's own commands; none before they are loaded."""
        from friday_cli.extensions.commands import CustomCommands

        return CustomCommands() if self._customs is None else self._customs

    def submit(self, draft: Draft, path: str = "") -> None:
        """Deliver a message without waiting for it."""
        self._app.run_worker(self._deliver(draft, path))

    async def _deliver(self, draft: Draft, path: str) -> None:
        """Send a message to the agent at `path` ("" is the main one) or to the one that it begins with, queue it, or run the
        command that it names."""
        from .commands import slash_commands

        app, chat, text = self._app, self._app.chat, draft.text
        if not path:
            path, text = addressed(self.controller.state, text)
        await chat.furnished.wait()
        if not path and app.size.width < NARROW:
            chat.body.close_overlay()  # the reply comes in the transcript behind it
        if not text.startswith("/") and _read_only(self):
            self.offer(draft.text)
        elif path:
            if draft.images:
                self.say_note("Pictures go to the main agent only; the words were sent.", "warning")
            await self._report(self._app.agents.tell(path, text))
        elif text.startswith("/") and await slash_commands.run(self, draft):
            pass
        elif slash_commands.is_command(text):
            self.say_note(f"No such command: {text.split()[0]}. / lists the commands.", "warning")
            chat.composer.put(text)
        elif self.controller.session is None or self.controller.working:
            self._queue(draft)
        else:
            await self.send(text, draft.images)

    def _queue(self, draft: Draft, *, first: bool = False) -> None:
        self._app.run_stop.on_queued()
        self._app.chat.composer.queue.put(draft, first=first)
        self._app.refresher.schedule_refresh()

    async def send(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Send a message to the main agent now."""
        self._app.chat.body.transcript.position.following = True
        async with self._sending:
            await self._report(self.controller.say(text, images=images))

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        """Send the prompt of a custom command, now or when the agent is done."""
        async with self._sending:
            if _read_only(self):
                self.offer(draft.text)
            elif self.controller.session is None or self.controller.working:
                self._queue(draft)
            else:
                self._app.chat.body.transcript.position.following = True
                await self._report(self.controller.say_custom(custom, rest, task=draft.text, images=draft.images))

    def send_waiting(self) -> None:
        """Deliver what waits in the queue, or the message of the command line: the agent has nothing to do. After a run that
        was stopped the queue goes back into the prompt instead."""
        self._app.run_stop.on_idle()
        waiting = self._app.chat.composer.queue.take()
        if waiting is None and self.first:
            waiting, self.first = Draft(self.first), ""
        if waiting is not None:
            self.submit(waiting)

    def send_queue(self) -> None:
        """Send what waits in the queue now; an agent at work reads it at its next turn."""
        if waiting := self._app.chat.composer.queue.take():
            self._app.run_worker(self._send_while_working(waiting))

    async def _send_while_working(self, draft: Draft) -> None:
        from friday_cli.extensions.commands import find_command

        custom = find_command(draft.text, self.customs)
        restricted = custom is not None and custom[0].tools is not None
        if self.controller.working and (restricted or draft.images):
            what = "A command that restricts tools" if restricted else "A picture"
            self._queue(draft, first=True)
            self.say_note(f"{what} waits until the agent is done; Esc stops it.")
        elif custom is None:
            await self.send(draft.text, draft.images)
        else:
            await self._report(self.controller.say_custom(*custom, task=draft.text, images=draft.images))

    async def _report(self, work: Coroutine[Any, Any, list[str] | None]) -> None:
        """Show the remarks that the work returns, or why it failed."""
        try:
            for remark in await work or ():
                self.say_note(remark, "warning")
        except FridayError as error:
            self.say_note(str(error), "error")

    def completions(self, kind: str, query: str) -> list[Completion]:
        """Commands for the kind "/", profiles for "@"."""
        if kind == "/":
            from .commands import slash_commands

            session = self.controller.session
            prompts = session.servers.prompts() if session is not None and session.servers is not None else ()
            return slash_commands.choices(query, self.customs, prompts)
        found = [row for row in self.profiles if query.lower() in row[0].lower()]
        return [Completion(f"@{name} ", f"@{name}", f"sub-agent: {description}") for name, description in found]

    def show_card(self, markdown: str) -> None:
        body = self._app.chat.body
        body.transcript.add(CardBlock(body.context, markdown))

    async def reopen(self, **changes: Any) -> bool:
        app, wrong = self._app, None
        try:
            wrong = await self.controller.switch(**changes)
        except NotConfigured as error:
            wrong = error
            await app.chat.show_welcome(True)
        except FridayError as error:
            app.failure = error
            app.exit(error.exit_code)
            return False
        else:
            await app.chat.show_welcome(False)
            if wrong is not None:
                self.say_note(str(wrong), "error")
        app.chat.reset()
        app.refresher.refresh()
        return wrong is None

    async def pick_session(self) -> None:
        from .widgets.session_picker import Picker

        def picked(session: str | None) -> None:
            if session:
                self._app.run_worker(self.reopen(resume=session, sub_agents=None))

        await self._app.push_screen(Picker(self._app.cwd), picked)

    async def load_customs(self) -> None:
        from .commands import slash_commands

        self._customs = await slash_commands.load_customs(self.controller.options)
        problems = [str(problem) for problem in self._customs.problems]
        for text in [text for text in problems if text not in self._reported][:3]:
            self.say_note(text, "warning")
        self._reported = frozenset(problems)

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        from .widgets.choice_dialog import Chooser

        return await self._app.push_screen_wait(Chooser(title, choices, at=at, about=about))

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        from .widgets.diff_review import Review

        await self._app.push_screen_wait(Review(rows, self._app.chat.body.context.renderer, actions))

    async def show_profiles(self, actions: ProfileActions) -> None:
        from .widgets.profile_dialog import ProfileDialog

        await self._app.push_screen_wait(ProfileDialog(actions))

    def offer(self, text: str) -> None:
        composer = self._app.chat.composer
        if not composer.text:
            composer.put(text)
        composer.area.focus()

    async def copy_text(self, text: str) -> None:
        await copy(self._app, text)
        self.say_note(f"Copied {len(text):,} characters.")

    async def leave(self) -> None:
        await self._app.leaving.by_command()

    def look_for(self, text: str) -> None:
        focused, chat = self._app.focused, self._app.chat
        chat.find_bar.open(focused if isinstance(focused, Transcript) else chat.body.transcript, text)

    def focus_tree(self) -> None:
        self._app.chat.body.focus_tree()

    def use_theme(self, name: str) -> None:
        self.say_note(f"Theme: {self._app.themes.choose(name)}")


def _read_only(chat: InputController) -> bool:
    """Whether another process drives the session; then the user is told."""
    observer = chat.controller.observer
    if observer is not None:
        chat.say_note(str(observer.refusal), "warning")
    return observer is not None


class ShellRunner:
    """Runs the user's shell commands, one at a time, and shows their output in the transcript."""

    def __init__(self, app: FridayApp) -> None:
        self._app = app
        self._running: Worker[None] | None = None

    def start(self, command: str, *, keep: bool) -> None:
        """Run a command; `keep` lets the agent read its output. Where that is not possible, the command goes back into the
        prompt."""
        app, controller = self._app, self._app.controller
        if self.running:
            refusal = "A command of yours still runs; Esc stops it."
        elif controller.session is None:
            refusal = str(controller.observer.refusal) if controller.observer else "No session is open yet."
        else:
            self._running = app.run_worker(self._run(command, keep))
            return
        app.say_note(refusal, "warning")
        app.chat.composer.put(("!" if keep else "!!") + command)

    @property
    def running(self) -> bool:
        return self._running is not None and self._running.is_running

    def stop(self) -> None:
        """Stop the command, if one runs."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: str, keep: bool) -> None:
        body, schedule_refresh = self._app.chat.body, self._app.refresher.schedule_refresh
        block = ShellBlock(body.context, command, kept=keep)
        body.transcript.add(block)

        def show(text: str) -> None:
            block.put(text)
            schedule_refresh()

        try:
            code, output = await self._app.controller.run(command, show, keep=keep)
        except FridayError as error:
            block.end("failed", str(error))
        except asyncio.CancelledError:
            block.end("stopped by you", block.text().partition("\n")[2])
            raise
        else:
            block.end("stopped" if code is None else f"exit {code}", output)
        finally:
            schedule_refresh()
