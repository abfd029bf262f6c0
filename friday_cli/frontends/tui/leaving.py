"""How the chat ends: by a key, by `/exit`, by a signal, or because its window is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from threading import Timer

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize

from ..host import terminal
from .chat_screen import ChatScreen
from .chat_services import ChatServices

CLOSE_S = 1.7
"""Seconds after which a process whose terminal is closed ends, whatever it does."""
HANG_UP = 129
"""The exit code then: 128 and the number of SIGHUP."""


class Leaving:
    """Ends the app. Agents at work are named first, except where nobody can be asked."""

    def __init__(self, services: ChatServices, chat: ChatScreen) -> None:
        self._services, self._chat = services, chat
        self._hang_up: asyncio.Future[None] | None = None

    def handle_signals(self) -> None:
        """Let SIGTERM, SIGINT and SIGHUP end the app."""
        loop = asyncio.get_running_loop()
        on_signal: dict[int, Callable[[], object]] = {
            signal.SIGTERM: partial(self._end, 143),
            signal.SIGINT: partial(self._end, 130),
            signal.SIGHUP: self._on_hang_up,
        }
        if terminal.life() >= 0:
            loop.add_reader(terminal.life(), self._shell_left)
        for number, call in on_signal.items():
            try:
                loop.add_signal_handler(number, call)
            except (NotImplementedError, RuntimeError, ValueError):
                pass  # not the main thread: a test

    def by_key(self, key: str) -> None:
        """Quit; at the second press of `key` where agents are at work, which would end."""
        ends, them = self._ends_with_chat()
        if ends and not self._services.presses.again("leave"):
            self._services.say_note(f"{ends}. Press {key} again to stop {them} and quit.", "warning")
        else:
            self._services.app.run_worker(self._exit())

    async def by_command(self) -> None:
        """Quit. Asks first where agents are at work, which would end."""
        ends, them = self._ends_with_chat()
        if ends:
            title = f"{ends}. Quit and stop {them}?"
            if await self._services.choose(title, (("stay", "Stay"), ("quit", "Quit"))) != "quit":
                return
        await self._exit()

    def _ends_with_chat(self) -> tuple[str, str]:
        """What would end with the chat, and a word for it; two empty texts if nothing would."""
        controller = self._services.controller
        if count := controller.agents_at_work:
            return f"{pluralize(count, 'agent')} at work", "it" if count == 1 else "them"
        return ("A loop runs in this chat", "it") if controller.loop.running and not controller.detached else ("", "")

    async def _exit(self) -> None:
        """End the app. What waits in the queue goes to a session that runs on; a command stays a draft."""
        controller, composer = self._services.controller, self._chat.composer
        if (controller.remote is not None or controller.detached) and (draft := composer.queue.take()) is not None:
            from friday_cli.session.attachments import PromptText

            try:
                if draft.text.startswith("/"):
                    composer.put(draft.text)
                else:
                    await controller.say(PromptText(draft.text, draft.typed), images=draft.images)
            except FridayError:
                composer.put(draft.text)
        self._services.app.exit(0)

    def _on_hang_up(self) -> None:
        if sys.__stdin__ is not None and sys.__stdin__.isatty():
            self._end(HANG_UP)  # the signal of a person or a program: the terminal is there, and is left as it was
        else:
            self.window_closed()

    def _shell_left(self) -> None:
        """The process that the shell waits for was killed: the shell reads the terminal now."""
        asyncio.get_running_loop().remove_reader(terminal.life())
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # what restores the terminal must not stop this process
        self._end(HANG_UP)

    def _end(self, code: int) -> None:
        """Close the session, then give the terminal back. The second time without effect. One that goes on without the terminal
        is not closed."""
        if self._services.controller.detached:
            self._services.app.exit(code)
        elif self._hang_up is None:
            self._hang_up = asyncio.ensure_future(self._close_and_give_back(code))

    async def _close_and_give_back(self, code: int) -> None:
        try:
            if self._services.controller.remote is None:  # one of another process goes on
                await self._services.controller.close()
        finally:
            limit = Timer(CLOSE_S, os._exit, (code,))  # a terminal that nobody reads takes no more output
            limit.daemon = True
            limit.start()
            self._services.app.exit(code)

    def _goes_on(self) -> bool:
        """Whether the agents at work, or a loop, go on without the terminal."""
        controller = self._services.controller
        works = controller.agents_at_work or (controller.loop.running and controller.remote is None)
        if not (works and terminal.can_let_go()):
            return False
        from friday_cli import config  # not before the first screen

        try:
            controller.detached = config.load().settings.fleet.on_hangup == "detach"
        except FridayError:
            return False
        if controller.detached:
            terminal.let_go()
        return controller.detached

    def window_closed(self) -> None:
        """Close the session and end the process within `CLOSE_S`, whatever else waits to be done, such as keys that were read
        and widgets to be taken down. Called on the event loop; the second time without effect."""
        if self._services.controller.detached or self._goes_on():
            self._chat.composer.keep_draft()
            self._services.app.exit(0)
        elif self._hang_up is None:
            Timer(CLOSE_S, os._exit, (HANG_UP,)).start()
            self._hang_up = asyncio.ensure_future(self._close_session())

    async def _close_session(self) -> None:
        try:
            if self._chat.ready:
                self._chat.composer.keep_draft()
            await self._services.controller.close()
        finally:
            os._exit(HANG_UP)
