"""How a person's words reach the session: messages, the queue, commands, commands of the shell, answers.

`Talk` is the part of the app that knows this; `app.FridayApp` is the rest. It is a `chat.Chat`, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.worker import Worker

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.messages import Image
from friday_cli.extensions.commands import CustomCommand, CustomCommands, called, load

from .agent_actions import AgentActions
from .commands.context import NOTHING
from .state.keymap import Keys
from .widgets.approval_panel import Approval
from .widgets.blocks import CardBlock, RenderContext
from .widgets.choice_dialog import Chooser
from .widgets.completion_popup import Completion
from .widgets.composer import Composer
from .widgets.message_queue import Draft
from .widgets.search_bar import FindBar
from .widgets.shell_block import ShellBlock
from .widgets.text_input import Prompt
from .widgets.transcript import Transcript
from .widgets.transcript_messages import CopyText, ForkRequested, Typed

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .widgets.diff_review import ReviewActions


class InputController(AgentActions):
    """See the module."""

    scene: RenderContext
    profiles: list[tuple[str, str]]
    """(name, description) of the profiles here, once they are known."""

    customs = CustomCommands()
    """The person's own commands, once they are known."""
    keys = Keys()
    """The person's own keys."""
    _said: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.furnished = asyncio.Event()
        self._turn = asyncio.Lock()  # one message after the other: with each the agent may begin

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        """Let the person choose one of (key, label); see `chat.Chat`."""
        return await self.push_screen_wait(Chooser(title, choices, at=at, about=about))

    async def review(self, rows: Sequence[FileDiff], desk: ReviewActions) -> None:
        """Let the person look through what the agents changed."""
        from .widgets.diff_review import Review

        await self.push_screen_wait(Review(rows, self.scene.renderer, desk))

    def offer(self, text: str) -> None:
        """Put a text into the prompt, unless something stands there."""
        composer = self.query_one(Composer)
        if not composer.text:
            composer.put(text)
        composer.area.focus()

    def on_transcript_fork_requested(self, message: ForkRequested) -> None:
        self.run_worker(self.deliver(Draft(f"/fork {message.number}")))

    async def load_customs(self) -> None:
        """Look for commands of one's own; what is newly wrong with them is said."""
        from .commands import slash_commands

        names = {name for c in slash_commands.COMMANDS for name in (c.name, *c.aliases)}
        options = self.engine.options
        self.customs = await asyncio.to_thread(load, options.cwd, trusted=options.trusted, reserved=names)
        wrong = [str(problem) for problem in self.customs.problems]
        for text in [text for text in wrong if text not in self._said][:3]:
            self.say_note(text, "warning")
        self._said = frozenset(wrong)

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        """Send what a command of the person's own says, now or when the agent has time."""
        async with self._turn:
            if self.engine.window is not None:
                self.say_note(str(self.engine.window.refusal), "warning")
                self.offer(draft.text)
            elif self.engine.session is None or self.engine.working:
                self.query_one(Composer).queue.put(draft)
                self.look_again()
            else:
                self.query_one("#chat", Transcript).position.following = True
                words, bounds = custom.words(rest), custom.bounds()
                await self._try(self.engine.say(words, task=draft.text, images=draft.images, bounds=bounds))

    async def command(self, draft: Draft) -> bool:
        """Run what stands behind a `/`; False when it is no command."""
        raise NotImplementedError

    def words(self, kind: str, query: str) -> list[Completion]:
        from .commands import slash_commands

        if kind == "/":
            return slash_commands.choices(query, self.customs)
        return [
            Completion(f"@{n} ", f"@{n}", f"sub-agent: {t}") for n, t in self.profiles if query.lower() in n.lower()
        ]

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        self.run_worker(self.deliver(message.draft, message.path))

    async def deliver(self, draft: Draft, path: str = "") -> None:
        """Do what a message of the person says: to an agent, as a command, now or later."""
        await self.furnished.wait()
        text = draft.text
        if not path and self.size.width < 80:
            self.close_overlay()  # the answer comes in the chat
        if self.engine.window is not None and not text.startswith("/"):
            self.say_note(str(self.engine.window.refusal), "warning")
            self.offer(text)
        elif path:
            if draft.images:
                self.say_note("Pictures go to the main agent only; the words were sent.", "warning")
            await self._try(self.engine.say_to(path, text))
        elif text.startswith("/") and await self.command(draft):
            pass
        elif (
            text.startswith("/")
            and "/" not in (name := text[1:].split()[0] if text[1:].split() else "")
            and "\n" not in text
        ):
            self.say_note(f"There is no command /{name}. / lists them.", "warning")
            self.query_one(Composer).put(text)
        elif self.engine.session is None or self.engine.working:
            self.query_one(Composer).queue.put(draft)
            self.look_again()
        else:
            await self.send(text, draft.images)

    async def send(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Give the main agent a message now."""
        chat = self.query_one("#chat", Transcript)
        chat.position.following = True
        async with self._turn:
            await self._try(self.engine.say(text, images=images))

    async def _try(self, work: Coroutine[Any, Any, list[str] | None]) -> None:
        try:
            for remark in await work or ():
                self.say_note(remark, "warning")
        except FridayError as error:
            self.say_note(str(error), "error")

    def on_composer_nudge(self, message: Composer.Nudge) -> None:
        if waiting := self.query_one(Composer).queue.take():
            self.run_worker(self._now(waiting))

    async def _now(self, draft: Draft) -> None:
        """Send what waited, also to an agent at work: it reads it at its next turn."""
        own = called(draft.text, self.customs)
        narrow = own is not None and own[0].tools is not None
        if self.engine.working and (narrow or draft.images):
            what = "A command that takes tools away" if narrow else "A picture"
            self.query_one(Composer).queue.put(draft, first=True)
            self.say_note(f"{what} waits until the agent is done; Esc interrupts it.")
        elif own is None:
            await self.send(draft.text, draft.images)
        else:
            await self._try(self.engine.say(own[0].words(own[1]), task=draft.text, bounds=own[0].bounds()))

    def on_composer_shell_command(self, message: Composer.ShellCommand) -> None:
        if self._shell_run is not None and self._shell_run.is_running:
            self.say_note("A command of yours still runs; Esc stops it.", "warning")
            self.query_one(Composer).put(("!" if message.keep else "!!") + message.command)
        elif self.engine.session is None:
            window = self.engine.window
            self.say_note(str(window.refusal) if window else "No session is open yet.", "warning")
            self.query_one(Composer).put(("!" if message.keep else "!!") + message.command)
        else:
            self._shell_run = self.run_worker(self._shell(message.command, message.keep))

    _shell_run: Worker[None] | None = None

    async def _shell(self, command: str, keep: bool) -> None:
        block = ShellBlock(self.scene, command, kept=keep)
        self.query_one("#chat", Transcript).add(block)

        def came(text: str) -> None:
            block.put(text)
            self.look_again()

        try:
            code, output = await self.engine.run(command, came)
        except FridayError as error:
            block.end("failed", str(error))
        except asyncio.CancelledError:
            block.end("stopped by you", block.text().partition("\n")[2])
            raise
        else:
            block.end("stopped" if code is None else f"exit {code}", output)
            if keep:
                self.engine.remember(f"[I ran this command: {command}\nexit code: {code}\n{output[-20_000:]}]")
        finally:
            self.look_again()

    def stop_shell(self) -> bool:
        """Stop the command that the person ran; False when none runs."""
        if self._shell_run is None or not self._shell_run.is_running:
            return False
        self._shell_run.cancel()
        return True

    def on_prompt_scroll_chat(self, message: Prompt.ScrollChat) -> None:
        chat = self.query_one("#chat", Transcript)
        (chat.action_page_up if message.by < 0 else chat.action_page_down)()

    def on_approval_answered(self, message: Approval.Answered) -> None:
        self.run_worker(self._try(self._answer(message)))
        if len(self.engine.state.asks) <= 1:
            self.query_one(Prompt).focus()

    async def _answer(self, message: Approval.Answered) -> None:
        await self.engine.answer(message.ask_id, message.answer)

    async def on_transcript_typed(self, message: Typed) -> None:
        await self._to_prompt(message.text)

    async def on_approval_typing_started(self, message: Approval.TypingStarted) -> None:
        await self._to_prompt(message.text)

    async def _to_prompt(self, text: str) -> None:
        """What was typed or pasted elsewhere; a carriage return sends it."""
        composer = self.query_one(Composer)
        composer.area.focus()
        if text == "\r":
            composer.send()
        elif len(text) > 1:
            await composer.area.paste(text)
        else:
            composer.area.insert(text)

    def show_card(self, markdown: str) -> None:
        chat = self.query_one("#chat", Transcript)
        chat.add(CardBlock(self.scene, markdown))

    def action_help(self) -> None:
        self.run_worker(self.deliver(Draft("/help")))

    def action_find(self) -> None:
        self.look_for("")

    def last_reply(self) -> str:
        return self.query_one("#chat", Transcript).last_reply()

    def look_for(self, text: str) -> None:
        """Search the transcript that has the focus, else that of the main agent."""
        focused = self.focused
        found = focused if isinstance(focused, Transcript) else self.query_one("#chat", Transcript)
        self.query_one(FindBar).open(found, text)

    def on_transcript_copy_text(self, message: CopyText) -> None:
        self.run_worker(self.copy_text(message.text))
