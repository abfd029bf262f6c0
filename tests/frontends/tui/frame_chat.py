"""A chat whose screens are kept as text: what differs from run to run and from machine to machine is fixed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, AnyEvent, Envelope, MessageAdded, TextDelta
from friday_cli.core.protocol.messages import Message, Text, user
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.frontends.tui.chat import Chat
from tests.frontends.tui.frame_events import BEGUN, MODEL


class EventChat:
    """A chat into which events are put by hand, at their own time."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._seq = 1_000
        self._at = 0.0
        chat.app.chat.body.context.now = lambda: BEGUN + self._at

    async def play(self, happenings: list[tuple[float, str, AnyEvent]]) -> None:
        """Fold events and let the screen follow."""
        controller = self.chat.app.controller
        for self._at, path, event in happenings:
            self._seq += 1
            seq = None if isinstance(event, TextDelta) else self._seq
            controller.fold.dirty.update(controller.state.apply(Envelope(seq, BEGUN + self._at, path, event)))
        await self.settle()

    async def settle(self, *, has: str = "") -> None:
        """Let the screen come to rest, with a word on it."""
        self.chat.app.refresher.schedule_refresh()
        await self.chat.until(lambda: not self.chat.app.controller.fold.dirty and has in self.chat.frame)
        seen: list[str] = []
        while seen[-4:] != [self.chat.frame] * 4:
            seen.append(self.chat.frame)
            await self.chat.pilot.pause(0.05)

    def frame(self) -> str:
        """The screen; what differs from run to run has a fixed word of the same length."""
        text = re.sub(r"\b[0-9a-f]{8}  \d\d \w{3} \d\d:\d\d", "7f3a11c0  01 Nov 09:30", self.chat.frame)
        text = re.sub(r"(│ \d )\d\d:\d\d ·", r"\g<1>09:30 ·", text)
        text = re.sub(r"( · \+1 -0) · [\d.]+ s", r"\1", text)  # a slow machine
        return "\n".join(row.rstrip() for row in text.split("\n")) + "\n"


async def keep_sessions(store: Store, cwd: Path) -> None:
    """Two sessions of earlier days."""
    for day, title in ((2, "Rename the modules of the wire"), (1, "Explain the lanes")):
        made = await store.create_session(cwd, title=title)
        said = (
            AgentStarted(1, "friday", title, MODEL),
            MessageAdded(user(title)),
            MessageAdded(Message("assistant", (Text("Done; the tests pass."),))),
            AgentFinished(1, "completed", "done"),
        )
        envelopes = [Envelope(n, BEGUN - day * 86_400 + n, "a", event) for n, event in enumerate(said, 1)]
        with await store.own(made):
            await store.journal(made).append(envelopes)
    await store.close()


@contextmanager
def at_home() -> Iterator[Path]:
    """An empty folder `retry` below an empty home."""
    with tempfile.TemporaryDirectory() as home:
        cwd = Path(os.path.realpath(home)) / "retry"
        cwd.mkdir()
        before = dict(os.environ)
        os.environ.update(
            HOME=str(cwd.parent), FRIDAY_HOME=str(cwd.parent / ".friday"), FRIDAY_SANDBOX="none", TZ="UTC"
        )
        try:
            yield cwd
        finally:
            os.environ.clear()
            os.environ.update(before)


@asynccontextmanager
async def opened_chat(
    cwd: Path, size: tuple[int, int], *, model: str | None, mode: Mode | None = None, first: str = "", **keys: str
) -> AsyncIterator[Chat]:
    """A chat in a folder of `at_home`. `keys`: more of the environment."""
    env = {k: v for k, v in os.environ.items() if k in ("HOME", "FRIDAY_HOME", "FRIDAY_SANDBOX", "PATH")} | keys
    options = Options(cwd, model=model, mode=mode, attended=True)
    app = FridayApp(lambda: options, cwd=cwd, env=env, first=first)
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            chat = Chat(app, pilot)
            await chat.until(lambda: app.controller.session is not None or "Welcome" in chat.frame)
            if isinstance(app.controller.session, Session):
                app.controller.session.sandbox = "bubblewrap"  # whatever this machine has
                app.refresher.schedule_refresh()
            yield chat
    finally:
        await app.controller.close()


@asynccontextmanager
async def opened_event_chat(size: tuple[int, int], *, key: bool = True) -> AsyncIterator[EventChat]:
    """A chat in an empty folder; without a key it shows the first run."""
    keys = {"ANTHROPIC_API_KEY": "no-key"} if key else {}
    with at_home() as cwd:
        await keep_sessions(Store(store_path()), cwd)
        async with opened_chat(cwd, size, model=MODEL if key else None, **keys) as chat:
            event_chat = EventChat(chat)
            await event_chat.settle()
            yield event_chat
