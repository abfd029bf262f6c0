"""How a person's words reach the session: messages, the queue, commands, commands of the shell, answers.

`Talk` is the part of the app that knows this; `app.FridayApp` is the rest. It is what `commands.Chat` asks for, too.
"""

from __future__ import annotations

from typing import Any

from friday_cli.core.errors import FridayError

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

    async def command(self, text: str) -> bool:
        """Run what stands behind a `/`; False when it is no command."""
        raise NotImplementedError

    def words(self, kind: str, query: str) -> list[Choice]:
        from . import commands

        if kind == "/":
            return commands.choices(query)
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
        await self._try(self.engine.say(text))

    async def _try(self, work: Any) -> None:
        try:
            for remark in await work or ():
                self.say_note(remark, "warning")
        except FridayError as error:
            self.say_note(str(error), "error")

    def on_composer_nudge(self, message: Composer.Nudge) -> None:
        if waiting := self.query_one(Composer).take_queue():
            self.run_worker(self.send(waiting))

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
