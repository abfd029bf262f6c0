"""The timeline of agents in the chat: what each did and waited for, zoomed and moved by keys; printed with --plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.frontends.tui.widgets.timeline_screen import TimelineScreen
from tests.frontends.tui.chat import Chat, delegates, does, opened

# Half a second: a part of the timeline is at least 0.05 s, and there has to be a later one.
PLAY = {
    "a": [delegates("look at one"), {"text": "Done."}],
    "a.1": [does("glob", pattern="*"), {"text": "It is there.", "delay_s": 0.5}],
}


async def test_before_the_first_message_it_says_that_nothing_ran(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY) as chat:
        await chat.say("/timeline", shows="No agent has run yet.")


async def shown(chat: Chat) -> None:
    await chat.ask("go", shows="Done.")
    await chat.say("/timeline", shows="Timeline: all of it")


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_each_agent_has_a_row_and_keys_zoom_and_move(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(tmp_path, PLAY, size=size) as chat:
        await shown(chat)
        chat.has("a friday", "a.1 general", "█ model", "· waits for agents", "Esc")
        await chat.press("up")
        await chat.until(lambda: "Timeline: all of it" not in chat.frame and " of " in chat.frame)
        part = chat.frame
        await chat.press("right")
        await chat.until(lambda: chat.frame != part)
        await chat.press("0", shows="Timeline: all of it")
        await chat.press("r", shows="a.1 general")
        await chat.press("escape")
        await chat.until(lambda: not isinstance(chat.app.screen, TimelineScreen))
