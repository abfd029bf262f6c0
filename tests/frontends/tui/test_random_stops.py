"""Stops at random moments of a busy tree of agents, by Esc, Ctrl+C or a closed window: nothing is sent afterwards, nothing is left
at work, and what waited is in the prompt, or in the draft of the next chat.

The suite plays a few; `FRIDAY_STOPS=500 python -m pytest tests/frontends/tui/test_random_stops.py` plays as many. The number of a
test is its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import AgentStarted, MessageAdded, TurnStarted
from tests.frontends.tui import conftest
from tests.frontends.tui.chat import Chat, delegates, does, opened
from tests.frontends.tui.terminal_fixture import Terminal, scripted

STOPS = int(os.environ.get("FRIDAY_STOPS", "6"))
WINDOWS = 5
"""Each so many stops, the window is closed."""
LONGEST_S = 1.5
"""The latest moment of a stop after the message, in seconds."""
WORK = does("bash", command="sleep 0.1; echo one; sleep 30")
AGENTS: dict[str, Any] = {
    "a": [
        {"text": "I'll look. " * 5, "chunk_delay_s": 0.005, **delegates("first", "second", "third", profile="coder")},
        {"text": "word " * 400, "chunk_delay_s": 0.01},
        {"text": "It was sent."},
    ],
    "a.1": [WORK, {"text": "One."}],
    "a.2": [{"text": "half " * 200, "chunk_delay_s": 0.01}],
    "a.3": [does("list_dir", path="."), {"text": "Three.", "delay_s": 0.3}],
}


async def begun(chat: Chat, rng: random.Random) -> None:
    """Begin work, put messages into the queue, and wait for a random moment."""
    await chat.say("go")
    await chat.until(lambda: chat.app.controller.working)
    for number in range(rng.randrange(3)):
        await chat.say(f"then {number}")
    await asyncio.sleep(rng.random() * LONGEST_S)


@pytest.mark.parametrize("seed", [n for n in range(STOPS) if n % WINDOWS])
async def test_a_stop_ends_all_and_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(conftest, "LONGEST_S", 0.05)  # nobody waits until the screen rests
    rng = random.Random(seed)
    async with opened(tmp_path, AGENTS, mode="yolo", size=(100, 30)) as chat:
        await begun(chat, rng)
        if not chat.app.controller.working:
            return  # it was done before
        waiting = [draft.text for draft in chat.composer.queue._drafts]
        await chat.press(rng.choice(("escape", "ctrl+c")))
        await chat.until(lambda: not chat.app.controller.working and not chat.state.working, seconds=30)
        root, count = chat.state.agents["a"], len(await chat.session.history())
        for agent in chat.state.agents.values():
            assert agent.ended, agent.path
        assert root.status in ("cancelled", "completed"), root.status
        await asyncio.sleep(0.2)
        later = (await chat.session.history())[count:]
        assert not [e for e in later if isinstance(e.event, (TurnStarted, AgentStarted, MessageAdded))], later
        if root.status == "cancelled" and root.run == 1:
            assert chat.composer.text.split() == "\n\n".join(waiting).split()
            assert chat.composer.queue.empty


@pytest.mark.parametrize("seed", range(0, STOPS, WINDOWS))
def test_a_closed_window_ends_all(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Terminal(tmp_path, "-m", scripted(tmp_path, AGENTS), FRIDAY_SANDBOX="none") as terminal:
        terminal.until(b"Ask, or / for commands")
        terminal.type(b"go")
        terminal.type(b"\r", until=b"Esc stops")
        terminal.read(rng.random() * LONGEST_S)
        terminal.hang_up(seconds=30.0)
