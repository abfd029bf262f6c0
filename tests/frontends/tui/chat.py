"""The chat in a test: the real app over the real engine and a scripted model, without a terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from textual._context import visible_screen_stack
from textual.pilot import Pilot

from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets.agent_panel import AgentPanel
from friday_cli.frontends.tui.widgets.approval_panel import Approval
from friday_cli.frontends.tui.widgets.composer import Composer
from friday_cli.frontends.tui.widgets.transcript import Transcript
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.view import SessionView

SOON_S = 0.1
"""How long what was begun by something that a test waited for is waited for as well, such as an update of the screen."""


def does(name: str, **arguments: Any) -> dict[str, Any]:
    """A turn of a scripted model that calls one tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def delegates(*tasks: str, profile: str = "general", **more: Any) -> dict[str, Any]:
    """A turn of a scripted model that starts sub-agents."""
    return does("delegate_tasks", tasks=[{"profile": profile, "task": task, **more} for task in tasks])


@dataclass
class Chat:
    """A running chat, and what a user does with it."""

    app: FridayApp
    pilot: Pilot[int]

    async def press(self, *keys: str, shows: str = "") -> None:
        """Press keys, and wait until the screen shows a text. Keys that answer come after the question is on the screen."""
        if any(panel.grace.until == inf for panel in self.app.query(Approval)):
            await self.until(lambda: all(panel.grace.until < inf for panel in self.app.query(Approval)))
        await self.pilot.press(*keys)
        if shows:
            await self.shows(shows)

    async def type(self, text: str, *, shows: str = "") -> None:
        """Type a text, letter by letter."""
        names = {" ": "space", "/": "slash", "@": "at", "!": "exclamation_mark", ".": "full_stop", "?": "question_mark"}
        await self.press(*(names.get(c, c) for c in text), shows=shows)

    async def say(self, text: str, *, shows: str = "") -> None:
        """Send a message."""
        self.composer.put(text)
        await self.press("enter", shows=shows)

    async def shows(self, text: str) -> None:
        """Wait until the screen shows a text."""
        await self.until(lambda: text in self.frame)

    def has(self, *texts: str) -> None:
        """Check that the screen shows each text now."""
        missing = [text for text in texts if text not in self.frame]
        assert not missing, f"{missing} missing on the screen:\n{self.frame}"

    async def ask(self, text: str, *, shows: str = "") -> None:
        """Send a message, and wait until it is answered."""
        await self.say(text)
        await self.idle()
        if shows:
            await self.shows(shows)

    async def stop(self, path: str = "a") -> None:
        """Abort an agent and all below it."""
        await self.session.stop(path)

    @property
    def state(self) -> SessionView:
        return self.app.controller.state

    @property
    def session(self) -> Session:
        """The open session. There must be one."""
        assert isinstance(self.app.controller.session, Session)
        return self.app.controller.session

    async def until(self, done: Callable[[], Any], *, seconds: float = 60.0) -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(seconds):
                while not done():  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"Not reached. The screen:\n{self.frame}") from None
        await self._coming()
        await self.pilot.pause()

    async def _coming(self) -> None:
        """Wait for the timers that are due within SOON_S and for the workers, no longer than that."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SOON_S
        while loop.time() < end:
            timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
            due = min((timer.when() for timer in timers if not timer.cancelled()), default=end)
            if due >= end and all(worker.is_finished for worker in self.app.workers):
                break
            await asyncio.sleep(min(max(due - loop.time(), 0.002), 0.01))

    async def idle(self) -> None:
        """Wait until every message has reached an agent, and no agent runs."""
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
        """The screen as text, with what shows of the screens behind it."""
        visible_screen_stack.set(self.app._background_screens)
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)


@asynccontextmanager
async def running(app: FridayApp, *, size: tuple[int, int] = (100, 30), survives: bool = False) -> AsyncIterator[Chat]:
    """A chat that runs `app` without a terminal, and closes it. `survives`: unexpected errors of it are expected."""
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            yield (chat := Chat(app, pilot))
            if app.is_running and app.screen_stack:
                assert chat.frame.strip(), "Nothing is drawn."
    finally:
        await app.controller.close()
    if app.defects.seen and not survives:
        raise app.defects.seen[0]


@asynccontextmanager
async def opened(
    folder: Path,
    agents: dict[str, Any],
    *,
    size: tuple[int, int] = (100, 30),
    ready: bool = True,
    survives: bool = False,
    **options: Any,
) -> AsyncIterator[Chat]:
    """A chat with a scripted model in `folder`, ready for input. Agents that still run at the end are aborted."""
    scenario = folder / ".scenario.json"
    scenario.write_text(json.dumps({"agents": agents, "badge": ""}, ensure_ascii=False))
    first = options.pop("first", "")
    made = Options(folder, model=options.pop("model", f"scripted:{scenario}"), attended=True, **options)
    app = FridayApp(lambda: made, cwd=folder, first=first)
    async with running(app, size=size, survives=survives) as chat:
        if ready:
            await chat.until(lambda: app.controller.session is not None or app.services.failure is not None)
            assert app.services.failure is None, app.services.failure
        yield chat
        if app.controller.session is not None and app.controller.working:
            await chat.stop()
