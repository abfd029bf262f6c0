"""Random sequences of keys, words, pastes, clicks and sizes over every screen of the chat: no defect, and no screen that is dead
afterwards.

The suite plays a few; `FRIDAY_KEYS=1000 python -m pytest tests/frontends/tui/test_random_keys.py` plays as many. The number of a
test is its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import OutOfBounds

from friday_cli.frontends.tui.chat_screen import ChatScreen
from friday_cli.system.paths import state_dir
from tests.frontends.tui import conftest
from tests.frontends.tui.chat import Chat, delegates, does, opened

SEQUENCES = int(os.environ.get("FRIDAY_KEYS", "4"))
STEPS = 30
"""Steps of a sequence."""
LONG_TEXT = "\n".join(
    ["# Found", "| a | b |", "|---|---|", "| 1 | [a link](https://example.org/a) |", "```python", "print(1)", "```"]
    + [f"{n}. row {n} 🦊 of many words that are wrapped where the window is narrow" for n in range(40)]
)
TODO = does("todo", items=[{"text": f"Step {n}", "status": "done" if n < 3 else "pending"} for n in range(9)])
TURNS = [
    TODO,
    delegates("look at one", "look at two", profile="coder"),
    does("bash", command="echo one; echo two"),
    does("write_file", path="new.py", content="print(1)\n" * 30),
    {"text": LONG_TEXT},
    does("ask_user", question="Which one?", choices=["this", "that"]),
    {"text": "word " * 30, "chunk_delay_s": 0.02},
    does("ask_user", plan="# Plan\n\n1. Read.\n2. Write."),
    {"fail": {"kind": "network", "message": "Cannot reach it."}},
    {"text": "Done."},
]
AGENTS: dict[str, Any] = {
    "a": TURNS * 4,
    "a.*": [does("bash", command="echo mine"), {"text": LONG_TEXT, "chunk_delay_s": 0.002}],
}
KEYS = (
    *"abcdefghijklmnoprstuvwxyzGN0123456789/?@!#[]+-=",
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "escape", "tab", "space", "backspace"),
    *("shift+up", "shift+down", "shift+left", "shift+right", "shift+tab", "shift+enter", "delete", "f1", "alt+left", "alt+right"),
    *(f"ctrl+{letter}" for letter in "abcefgijklnoprtuvwy"),
)  # fmt: skip
COMMANDS = (
    *("/help", "/keys", "/mode", "/agents", "/profiles", "/mcp", "/context", "/cost", "/budget", "/permissions", "/rewind"),
    *("/undo", "/fork", "/compact", "/diff", "/copy", "/copy code", "/todo", "/find row", "/model", "/theme", "/config"),
    *("/status", "/hooks", "/skills", "/sessions", "/resume", "/timeline", "/vim", "/effort", "/rename x", "/nothing", "/new"),
)  # fmt: skip
PASTES = (
    "one line",
    "two\r\nlines",
    "x\n" * 400,
    "\x1b[31mred\x1b[0m\x07",
    "🦊" * 20,
    "/etc/passwd",
    "@README.md",
    " " * 90,
)
SIZES = ((60, 20), (100, 30), (160, 45), (30, 8), (20, 5), (240, 60), (80, 24))

Step = tuple[str, Callable[[], Coroutine[Any, Any, object]]]


class Person:
    """Somebody who does anything at any time."""

    def __init__(self, chat: Chat, rng: random.Random) -> None:
        self._chat, self._rng = chat, rng
        self.done: list[str] = []
        """What was done, in order."""

    async def act(self) -> None:
        """Do something."""
        chat, rng = self._chat, self._rng
        kinds = ("key", "keys", "command", "message", "paste", "size", "click", "wait")
        kind = rng.choices(kinds, (10, 6, 4, 2, 2, 2, 2, 2))[0]
        if kind in ("key", "keys"):
            keys = rng.choices(KEYS, k=1 if kind == "key" else 5)
            self.done.append(f"keys {' '.join(keys)}")
            await chat.pilot.press(*keys)
        elif kind in ("command", "message"):
            words = rng.choice(COMMANDS) if kind == "command" else "go on"
            self.done.append(words)
            if isinstance(chat.app.screen, ChatScreen):
                chat.composer.put(words)
                chat.composer.area.focus()
            await chat.pilot.press("enter")
        elif kind == "paste":
            text = rng.choice(PASTES)
            self.done.append(f"paste {text[:20]!r}")
            (chat.app.focused or chat.app.screen).post_message(events.Paste(text))
            await chat.pilot.pause()
        elif kind == "size":
            size = rng.choice(SIZES)
            self.done.append(f"size {size}")
            await chat.pilot.resize_terminal(*size)
        elif kind == "click":
            at = rng.randrange(chat.app.size.width), rng.randrange(chat.app.size.height)
            self.done.append(f"click {at}")
            try:
                await chat.pilot.click(offset=at, times=rng.choice((1, 1, 2)))
            except OutOfBounds:  # the size changes with the next message
                await chat.pilot.pause()
        else:
            self.done.append("wait")
            await asyncio.sleep(rng.random() / 10)


async def comes_back(chat: Chat) -> None:
    """Leave all that is open, stop what works, and type: the chat answers."""
    await chat.pilot.resize_terminal(100, 30)
    for _ in range(12):
        if isinstance(chat.app.screen, ChatScreen) and not chat.app.controller.working:
            break
        await chat.pilot.press("escape")
    assert isinstance(chat.app.screen, ChatScreen), f"{chat.app.screen} does not close"
    if chat.app.controller.session is not None:
        await chat.stop()
        await chat.until(lambda: not chat.app.controller.working, seconds=20)
    chat.composer.area.focus()
    await chat.pilot.press("ctrl+u", "escape")
    await chat.pilot.pause()
    if not isinstance(chat.app.screen, ChatScreen):  # the second Esc within a moment asks where to go back to
        await chat.pilot.press("escape")
    await chat.pilot.press("i")
    chat.composer.clear()
    await chat.type("xyzzy", shows="xyzzy")


@pytest.mark.parametrize("seed", range(SEQUENCES))
async def test_nothing_that_a_person_does_breaks_or_blocks_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setattr(conftest, "LONGEST_S", 0.05)  # nobody waits until the screen rests
    rng, lost = random.Random(seed), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context))
    (tmp_path / "README.md").write_text("# Here\n")
    mode, size = rng.choice(("ask", "edits", "plan", "auto")), rng.choice(SIZES)
    async with opened(tmp_path, AGENTS, size=size, mode=mode, ready=rng.random() < 0.8, survives=True) as chat:
        person = Person(chat, rng)
        for _ in range(STEPS):
            if not chat.app.is_running:
                break
            await person.act()
        story = "\n".join(person.done)
        if chat.app.is_running:
            try:
                await comes_back(chat)
            except AssertionError as error:
                raise AssertionError(f"{error}\nafter:\n{story}") from None
    assert not chat.app.defects.seen, f"{chat.app.defects.seen}\nafter:\n{story}"
    logs = "".join(path.read_text() for path in (state_dir() / "logs").glob("*.log"))
    assert "Traceback" not in logs, f"{logs[-3000:]}\nafter:\n{story}"
    assert not lost, f"{lost}\nafter:\n{story}"
