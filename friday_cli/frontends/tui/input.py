"""What the user types: messages, the queue, slash commands and shell commands. Also what slash commands do to the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.session.attachments import PromptText

from .agent_actions import AgentActions
from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .controller import addressed
from .run_stop import RunStop
from .shell_runner import ShellRunner
from .terminal.clipboard import copy, has_desktop
from .theme import ThemeController
from .widgets import NARROW
from .widgets.blocks import CardBlock
from .widgets.chat_request import AgentRequest, AskAnswered, ChatRequest, EditorWanted, ExplanationWanted
from .widgets.completion_popup import Completion
from .widgets.composer import Composer
from .widgets.message_queue import Draft
from .widgets.transcript import Transcript
from .widgets.transcript_messages import CopyText, ForkRequested, Links
from .widgets.welcome import Welcome

if TYPE_CHECKING:
    from friday_cli.extensions.commands import CustomCommand, CustomCommands
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .widgets.diff_review import ReviewActions
    from .widgets.profile_dialog import ProfileActions


class InputController:
    """Delivers what the user types. It is the `CommandContext` of the screen."""

    def __init__(
        self,
        services: ChatServices,
        chat: ChatScreen,
        agents: AgentActions,
        themes: ThemeController,
        leave: Callable[[], Coroutine[Any, Any, None]],
        first: str,
    ) -> None:
        self._app, self._services, self._chat, self._agents, self._themes = services.app, services, chat, agents, themes
        self.controller, self.keys = services.controller, services.keys
        self.say_note, self.copy_text = services.say_note, services.copy_text
        self.choose, self.search = services.choose, services.search
        self.offer, self.leave = chat.offer, leave
        self.use_vim = partial(_use_vim, self)
        self.first = first
        """The message of the command line, until it is sent."""
        self.profiles: list[tuple[str, str]] = []
        """(name, description) of the profiles of the folder, when they are loaded."""
        self._customs: CustomCommands | None = None
        self.shell = ShellRunner(services, chat)
        self.run_stop = RunStop(services, chat, self.shell)
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
        from .commands import notes, slash_commands

        if not path:
            draft = replace(draft, text=slash_commands.as_command(draft.text))
        chat, text = self._chat, draft.text
        if path and text.split(" ")[0] == "/handback":  # of the agent that the prompt is for
            text = f"/handback {path}{text.removeprefix('/handback')}"
            draft, path = replace(draft, text=text), ""
            chat.composer.aim_at_main()
        elif not path or _is_known(text):  # a command is for the chat, whoever the prompt is for
            path, text = ("", text) if path else addressed(self.controller.state, text)
        await chat.furnished.wait()
        if not path and self._app.size.width < NARROW:
            chat.body.close_overlay()  # the reply comes in the transcript behind it
        if not text.startswith("/") and _read_only(self):
            self.offer(draft.text)
        elif path:
            if draft.images:
                self.say_note("Pictures can only be sent to the main agent; only the text was sent.", "warning")
            await self._report(self._agents.tell(path, text), draft)
        elif text.startswith("/") and await slash_commands.run(self, draft):
            pass
        elif slash_commands.is_command(text):
            self.say_note(slash_commands.unknown(text, self.customs), "warning")
            chat.composer.put(text)
        elif notes.is_note(text) and self.controller.session is not None and await self._kept(text):
            pass
        elif chat.welcome is not None:
            self.offer(draft.text)
            self.say_note("Choose a model above first (Esc goes there); then Enter sends this.")
        elif self.controller.session is None or self.controller.working:
            self._queue(draft)
        elif not chat.composer.queue.empty:  # what was typed before comes first
            self._queue(draft)
            self.send_waiting()
        else:
            await self.send(draft.text, draft)

    async def _kept(self, text: str) -> bool:
        """Whether a note was kept, or is in the prompt again; False when it is to be sent."""
        from .commands import notes

        try:
            return await notes.keep_note(self, text)
        except FridayError as error:
            self.say_note(str(error), "error")
            return True

    def _queue(self, draft: Draft, *, first: bool = False) -> None:
        self.run_stop.on_queued()
        self._chat.composer.queue.put(draft, first=first)
        self._services.schedule_refresh()

    async def send(self, text: str, draft: Draft | None = None) -> None:
        """Send a message to the main agent now; `draft` has it as the user wrote it."""
        draft = draft or Draft(text)
        self._chat.body.transcript.position.following = True
        async with self._sending:
            await self._report(self.controller.say(PromptText(text, draft.typed), images=draft.images), draft)

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        """Send the prompt of a custom command, now or when the agent is done."""
        async with self._sending:
            if _read_only(self):
                self.offer(draft.text)
            elif self.controller.session is None or self.controller.working:
                self._queue(draft)
            else:
                self._chat.body.transcript.position.following = True
                await self._report(self.controller.say_custom(custom, rest, draft), draft)

    def send_waiting(self) -> None:
        """Deliver what waits in the queue, or the message of the command line: the agent has nothing to do. After a run that
        was stopped the queue goes back into the prompt instead."""
        self.run_stop.on_idle()
        waiting = self._chat.composer.queue.take()
        if waiting is None and self.first:
            waiting, self.first = Draft(self.first), ""
        if waiting is not None:
            self.submit(waiting)

    def send_queue(self) -> None:
        """Send what waits in the queue now; an agent at work reads it at its next turn."""
        if self.controller.session is not None and (waiting := self._chat.composer.queue.take()):
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
            await self.send(draft.text, draft)
        else:
            await self._report(self.controller.say_custom(*custom, draft), draft)

    async def _report(self, work: Coroutine[Any, Any, list[str] | None], draft: Draft) -> None:
        """Show the remarks that the sending of a draft returns, or why it failed; then it is in the prompt again."""
        try:
            for remark in await work or ():
                self.say_note(remark, "warning")
        except FridayError as error:
            self.say_note(str(error), "error")
            self.offer(draft.text)

    def completions(self, kind: str, query: str) -> list[Completion]:
        """Commands for the kind "/", profiles for "@"."""
        if kind == "/":
            from .commands import slash_commands

            session = self.controller.session
            prompts = (session.facts.prompts or ()) if session is not None else ()
            return slash_commands.choices(query, self.customs, prompts)
        found = [row for row in self.profiles if query.lower() in row[0].lower()]
        return [Completion(f"@{name} ", f"@{name}", f"sub-agent: {description}") for name, description in found]

    def show_card(self, markdown: str) -> None:
        body = self._chat.body
        body.transcript.add(CardBlock(body.context, markdown))
        self._services.schedule_refresh()

    async def reopen(self, **changes: Any) -> bool:
        wrong = None
        try:
            wrong = await self.controller.switch(**changes)
        except NotConfigured as error:
            wrong = error
            await self._chat.show_welcome(True)
            if self._chat.welcome is not None and self._chat.welcome.takes(self._chat.composer.text):
                self._chat.composer.clear()  # a key that was pasted before its field was there
        except Exception as error:
            self._services.fail(error)
            return False
        else:
            await self._chat.show_welcome(False)
            if wrong is not None:
                self.say_note(str(wrong), "error")
        self._chat.reset()
        await self._chat.first_screen.show()
        self._services.refresh()
        return wrong is None

    async def pick_session(self) -> None:
        from .widgets.session_picker import Picker

        def picked(session: str | None) -> None:
            if session:
                self._app.run_worker(self.reopen(resume=session, sub_agents=None))

        await self._app.push_screen(Picker(self._services.cwd), picked)

    async def load_customs(self) -> None:
        from .commands import slash_commands

        self._customs = await slash_commands.load_customs(self.controller.options)
        problems = [str(problem) for problem in self._customs.problems]
        for text in [text for text in problems if text not in self._reported][:3]:
            self.say_note(text, "warning")
        self._reported = frozenset(problems)

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        from .widgets.diff_review import Review

        await self._app.push_screen_wait(Review(rows, self._chat.body.context.renderer, actions))

    async def show_timeline(self) -> None:
        from .commands.command_output import timeline
        from .widgets.timeline_screen import TimelineScreen

        styles = self._chat.body.context.renderer.styles
        await self._app.push_screen_wait(TimelineScreen(lambda: timeline(self.controller), styles))

    async def show_profiles(self, actions: ProfileActions) -> None:
        from .widgets.profile_dialog import ProfileDialog

        await self._app.push_screen_wait(ProfileDialog(actions))

    async def explain(self, ask_id: str) -> None:
        """Show what a permission request is about."""
        from friday_cli.session.commands import ExplainQuestion

        self._chat.approval.explain(await self.controller.require_session().do(ExplainQuestion(ask_id)))

    async def edit_command(self, ask_id: str, command: str) -> None:
        """Let the user change a command of several lines in their editor."""
        from .terminal.external_editor import edited
        from .widgets.approval_options import edited_command

        changed = await edited(self._app, command)
        if changed is not None and changed.strip() not in ("", command.strip()):
            self._agents.begin(self._agents.answer, ask_id, edited_command(changed))

    def look_for(self, text: str) -> None:
        focused, chat = self._app.focused, self._chat
        chat.find_bar.open(focused if isinstance(focused, Transcript) else chat.body.transcript, text)

    def focus_tree(self) -> None:
        self._chat.body.focus_tree()

    async def use_theme(self, name: str) -> None:
        if name := name or await self._themes.pick(self.search) or "":
            self.say_note(f"Theme: {self._themes.choose(name)}")


async def _use_vim(chat: InputController, wanted: bool | None) -> None:
    from .widgets.vim_prompt import switch_vim

    chat.say_note(await switch_vim(chat._chat.composer, wanted))


def _is_known(text: str) -> bool:
    """Whether a message is one of Friday's commands."""
    from .commands.command_table import find

    return text.startswith("/") and find(text[1:].split(" ")[0].lower()) is not None


def _read_only(chat: InputController) -> bool:
    """Whether another process drives the session; then the user is told."""
    observer = chat.controller.observer
    if observer is not None:
        chat.say_note(str(observer.refusal), "warning")
    return observer is not None


def carry_out(request: ChatRequest, typed: InputController, agents: AgentActions, services: ChatServices) -> None:
    """Have done what the user asked for in a widget."""
    match request:
        case Composer.Submitted():
            typed.submit(request.draft, request.path)
        case Composer.SendQueue():
            typed.send_queue()
        case Composer.ShellCommand():
            typed.shell.start(request.command, keep=request.keep)
        case AskAnswered():
            agents.begin(agents.answer, request.ask_id, request.answer)
        case ExplanationWanted():
            agents.begin(typed.explain, request.ask_id)
        case EditorWanted():
            services.app.run_worker(typed.edit_command(request.ask_id, request.command))
        case AgentRequest():
            agents.begin(agents.carry_out, request.action, request.path)
        case ForkRequested():
            typed.submit(Draft(f"/fork {request.number}"))
        case CopyText():
            services.app.run_worker(services.copy_text(request.text))
        case Links():
            services.app.run_worker(_follow_link(services, request.urls))
        case Welcome.Chosen():
            typed.first = typed.first or request.first
            services.app.run_worker(typed.reopen(model=request.model))


async def _follow_link(services: ChatServices, urls: list[str]) -> None:
    """Copy the link that the user chooses, and open it when there is a desktop: a browser in the terminal would write over
    the chat."""
    url = await services.choose("Which link?", [(url, url) for url in urls[:50]])
    if url:
        await copy(services.app, url)
        if has_desktop():
            services.app.open_url(url)
        services.say_note(f"Copied: {url}")
