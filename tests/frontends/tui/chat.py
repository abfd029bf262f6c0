"""The chat in a test: the real app over the real engine and a scripted model, without a terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets.agent_panel import AgentPanel
from friday_cli.frontends.tui.widgets.composer import Composer
from friday_cli.frontends.tui.widgets.transcript import Transcript
from friday_cli.session.open import Options


@dataclass
class Chat:
    """A running chat and what a person would do with it."""

    app: FridayApp
    pilot: Pilot[int]

    async def type(self, text: str) -> None:
        """Type a text, letter by letter."""
        names = {" ": "space", "/": "slash", "@": "at", "!": "exclamation_mark", ".": "full_stop", "?": "question_mark"}
        await self.pilot.press(*(names.get(c, c) for c in text))

    async def say(self, text: str) -> None:
        """Send a message."""
        self.composer.put(text)
        await self.pilot.press("enter")

    async def until(self, done: Callable[[], Any], *, seconds: float = 60.0) -> None:
        """Let the chat go on until something is so."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    await self.pilot.pause(0.02)
        except TimeoutError:
            raise AssertionError(f"It did not come to it. The screen:\n{self.frame}") from None
        await self.pilot.pause(0.1)
        await self.pilot.pause()

    async def idle(self) -> None:
        """Let the chat go on until all that was said has come to an agent, and none works."""
        await self.until(lambda: self._rests)

    @property
    def _rests(self) -> bool:
        controller = self.app.controller
        working = controller.working or controller.state.working or any(not w.is_finished for w in self.app.workers)
        return controller.state.root is not None and not working and self.app.refresher.quiet

    @property
    def composer(self) -> Composer:
        return self.app.query_one(Composer)

    @property
    def log(self) -> Transcript:
        return self.app.query_one("#chat", Transcript)

    @property
    def side(self) -> AgentPanel:
        return self.app.query_one(AgentPanel)

    @property
    def frame(self) -> str:
        """The screen as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)


@asynccontextmanager
async def opened(
    folder: Path, agents: dict[str, Any], *, size: tuple[int, int] = (100, 30), ready: bool = True, **options: Any
) -> AsyncIterator[Chat]:
    """A chat with a scripted model in `folder`; it is ready to be typed into."""
    scenario = folder / ".scenario.json"
    scenario.write_text(json.dumps({"agents": agents, "badge": ""}, ensure_ascii=False))
    first = options.pop("first", "")
    made = Options(folder, model=options.pop("model", f"scripted:{scenario}"), attended=True, **options)
    app = FridayApp(lambda: made, cwd=folder, first=first)
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            chat = Chat(app, pilot)
            if ready:
                await chat.until(lambda: app.controller.session is not None or app.failure is not None)
                assert app.failure is None, app.failure
            yield chat
    finally:
        await app.controller.close()
