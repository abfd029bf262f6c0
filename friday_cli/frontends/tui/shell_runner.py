"""Shell commands that the user runs from the prompt."""

from __future__ import annotations

import asyncio

from textual.worker import Worker

from friday_cli.core.protocol.errors import FridayError
from friday_cli.view.words import exit_text

from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .widgets.shell_block import ShellBlock


class ShellRunner:
    """Runs the user's shell commands, one at a time, and shows their output in the transcript."""

    def __init__(self, services: ChatServices, chat: ChatScreen) -> None:
        self._services, self._chat = services, chat
        self._running: Worker[None] | None = None

    def start(self, command: str, *, keep: bool) -> None:
        """Run a command; `keep` lets the agent read its output. Where that is not possible, the command goes back into the
        prompt."""
        controller = self._services.controller
        if self.running:
            refusal = "One of your commands is still running; Esc stops it."
        elif controller.session is None:
            refusal = str(controller.observer.refusal) if controller.observer else "No session is open yet."
        else:
            self._running = self._services.app.run_worker(self._run(command, keep))
            return
        self._services.say_note(refusal, "warning")
        self._chat.composer.put(("!" if keep else "!!") + command)

    @property
    def running(self) -> bool:
        return self._running is not None and self._running.is_running

    def stop(self) -> None:
        """Stop the command, if one runs."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: str, keep: bool) -> None:
        body, schedule_refresh = self._chat.body, self._services.schedule_refresh
        block = ShellBlock(body.context, command, kept=keep)
        body.transcript.add(block)
        schedule_refresh()

        def show(text: str) -> None:
            block.put(text)
            schedule_refresh()

        try:
            code, output = await self._services.controller.run(command, show, keep=keep)
        except FridayError as error:
            block.end("failed", str(error))
        except asyncio.CancelledError:
            block.end("stopped by you", block.text().partition("\n")[2])
            raise
        else:
            block.end(exit_text(code), output)
        finally:
            schedule_refresh()
