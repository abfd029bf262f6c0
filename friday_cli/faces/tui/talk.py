"""How a person's words reach the session: messages, the queue, commands, commands of the shell, answers.

`Talk` is the part of the app that knows this; `app.FridayApp` is the rest. It is what `commands.Chat` asks for, too.
"""

from __future__ import annotations

import asyncio
from typing import Any

from friday_cli.core.errors import FridayError
from friday_cli.custom import Custom, Customs, called, load

from .agents import AgentKeys
from .approval import Approval
from .blocks import CardBlock, Scene
from .popup import Choice
from .prompt import Composer, Prompt
from .transcript import Transcript


class Talk(AgentKeys):
    """See the module."""

    scene: Scene
    profiles: list[tuple[str, str]]
    """(name, description) of the profiles here, once they are known."""

    customs = Customs()
    """The person's own commands, once they are known."""
    _said: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()  # one message after the other: with each the agent may begin

    async def load_customs(self) -> None:
        """Look for commands of one's own; what is newly wrong with them is said."""
        from . import commands

        names = {name for c in commands.COMMANDS for name in (c.name, *c.aliases)}
        options = self.engine.options
        self.customs = await asyncio.to_thread(load, options.cwd, trusted=options.trusted, reserved=names)
        wrong = [str(problem) for problem in self.customs.problems]
        for text in [text for text in wrong if text not in self._said][:3]:
            self.say_note(text, "warning")
        self._said = frozenset(wrong)

    async def send_custom(self, custom: Custom, rest: str, typed: str) -> None:
        """Send what a command of the person's own says, now or when the agent has time."""
        async with self._turn:
            if self.engine.session is None or self.engine.working:
                self.query_one(Composer).queue(typed)
                self.look_again()
            else:
                self.query_one("#chat", Transcript).following = True
                await self._try(self.engine.say(custom.words(rest), task=typed, bounds=custom.bounds()))

    async def command(self, text: str) -> bool:
        """Run what stands behind a `/`; False when it is no command."""
        raise NotImplementedError

    def words(self, kind: str, query: str) -> list[Choice]:
        from . import commands

        if kind == "/":
            return commands.choices(query, self.customs)
        return [Choice(f"@{n} ", f"@{n}", f"sub-agent: {t}") for n, t in self.profiles if query.lower() in n.lower()]

    def on_composer_sent(self, message: Composer.Sent) -> None:
        self.run_worker(self.deliver(message.text, message.path))

    async def deliver(self, text: str, path: str) -> None:
        """Do what a message of the person says: to an agent, as a command, now or later."""
        if path:
            await self._try(self.engine.say_to(path, text))
        elif text.startswith("/") and await self.command(text):
            pass
        elif (
            text.startswith("/")
            and "/" not in (name := text[1:].split()[0] if text[1:].split() else "")
            and "\n" not in text
        ):
            self.say_note(f"There is no command /{name}. / lists them.", "warning")
            self.query_one(Composer).put(text)
        elif self.engine.session is None or self.engine.working:
            self.query_one(Composer).queue(text)
            self.look_again()
        else:
            await self.send(text)

    async def send(self, text: str) -> None:
        """Give the main agent a message now."""
        chat = self.query_one("#chat", Transcript)
        chat.following = True
        async with self._turn:
            await self._try(self.engine.say(text))

    async def _try(self, work: Any) -> None:
        try:
            for remark in await work or ():
                self.say_note(remark, "warning")
        except FridayError as error:
            self.say_note(str(error), "error")

    def on_composer_nudge(self, message: Composer.Nudge) -> None:
        if waiting := self.query_one(Composer).take_queue():
            self.run_worker(self._now(waiting))

    async def _now(self, waiting: str) -> None:
        """Send what waited, also to an agent at work: it reads it at its next turn."""
        own = called(waiting, self.customs)
        if own is None:
            await self.send(waiting)
        elif own[0].tools is None or not self.engine.working:
            await self._try(self.engine.say(own[0].words(own[1]), task=waiting, bounds=own[0].bounds()))
        else:
            self.query_one(Composer).queue(waiting)
            self.say_note(f"/{own[0].name} takes tools away, so it waits until the agent is done.")

    def on_composer_shell(self, message: Composer.Shell) -> None:
        self.run_worker(self._shell(message.command, message.keep))

    async def _shell(self, command: str, keep: bool) -> None:
        from .cards import output_card

        try:
            code, output = await self.engine.run(command, lambda text: None)
        except FridayError as error:
            self.say_note(str(error), "error")
            return
        self.show_card(output_card(command, code, output))
        if keep:
            self.engine.remember(f"[I ran this command: {command}\nexit code: {code}\n{output[-20_000:]}]")

    def on_composer_scroll(self, message: Composer.Scroll) -> None:
        chat = self.query_one("#chat", Transcript)
        (chat.action_page_up if message.by < 0 else chat.action_page_down)()

    def on_approval_answered(self, message: Approval.Answered) -> None:
        self.run_worker(self.engine.answer(message.ask_id, message.answer))
        if len(self.engine.state.asks) <= 1:
            self.query_one(Prompt).focus()

    def on_approval_left(self, message: Approval.Left) -> None:
        area = self.query_one(Prompt)
        area.focus()
        area.insert(message.text)

    def show_card(self, markdown: str) -> None:
        chat = self.query_one("#chat", Transcript)
        chat.add(CardBlock(self.scene, markdown))
