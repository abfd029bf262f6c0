"""A conversation: a message, its answer, tools, a sub-agent, and what the screen shows of each."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

import pytest
from textual.app import ScreenStackError
from textual.css.query import NoMatches

from friday_cli.frontends.tui.refresh import SOON_S
from tests.frontends.tui.chat import delegates, does, opened

HELPERS = {
    "a": [delegates("Look at notes.txt", profile="researcher"), {"text": "The helper says: **42**."}],
    "a.1": [does("read_file", path="notes.txt"), {"text": "It says 42."}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("the answer is 42\n")
    return tmp_path


async def test_a_machine_that_stands_still_at_each_moment_does_not_stop_the_screen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count()
    monkeypatch.setattr("textual._time.get_time", lambda: time.monotonic() + 1.2 * SOON_S * next(looks))
    async with opened(folder, {"a": [{"text": "Hello *there*."}]}) as chat:
        await chat.say("hi you", shows="Hello there.")


async def test_a_sub_agent_has_its_block_its_row_and_its_own_transcript(folder: Path) -> None:
    async with opened(folder, HELPERS, size=(160, 45)) as chat:
        await chat.ask("Ask somebody")
        chat.has("The helper says: 42.", "[researcher]", "Look at notes.txt")
        assert "│ It says 42." in chat.frame  # the collapsed block shows its result
        assert "✓ researcher" in chat.frame  # its row in the tree
        assert chat.side.child == "a.1"
        assert "read_file notes.txt" in chat.frame  # its own transcript, in the side pane
        chat.log.focus()
        await chat.press("a", "enter")
        assert "│ ▸ ✓ read_file notes.txt" in chat.frame


async def test_thinking_and_a_call_unfold_to_all_of_it(folder: Path) -> None:
    read = does("read_file", path="notes.txt") | {"thinking": "first line\nsecret plan"}
    agents = {"a": [read, {"text": "Done."}]}
    async with opened(folder, agents) as chat:
        await chat.ask("Read")
        assert "thought · 2 lines" in chat.frame
        assert "secret plan" not in chat.frame
        assert "the answer is 42" not in chat.frame
        await chat.press("ctrl+o")
        chat.has("│ secret plan", "path: notes.txt", "the answer is 42")


async def test_what_is_unfolded_on_the_last_row_comes_into_view(folder: Path) -> None:
    long = {"text": "\n".join(f"- {n}" for n in range(40))}
    play = {"a": [long, {"thinking": "head\nsecret plan\nthe last", "text": ""}]}
    async with opened(folder, play, size=(60, 20)) as chat:
        for _ in range(2):
            await chat.ask("Go")
        at = next(y for y, row in enumerate(chat.frame.split("\n")) if "thought · 3 lines" in row)
        await chat.pilot.click(offset=(4, at))
        await chat.shows("│ the last")
        assert "▾ thought" in chat.frame


async def test_escape_interrupts_the_turn(folder: Path) -> None:
    agents = {"a": [{"text": "one two three four five six", "chunk_delay_s": 5.0}]}
    async with opened(folder, agents) as chat:
        await chat.say("begin")
        await chat.until(lambda: chat.state.root and chat.state.root.reply)
        await chat.press("escape")
        await chat.idle()
        assert chat.state.agents["a"].status == "cancelled"


async def test_a_focus_that_is_told_while_the_chat_is_taken_down_asks_for_no_pane(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "x"}]}) as chat:
        app = chat.app
    app.chat.on_descendant_focus()


async def test_work_that_outlives_the_panes_is_no_defect(tmp_path: Path) -> None:
    async def late() -> None:
        while True:
            chat.composer.put("late")
            await asyncio.sleep(0)

    async with opened(tmp_path, {"a": [{"text": "x"}]}) as chat:
        work = chat.app.run_worker(late())
    assert isinstance(work.error, (NoMatches, ScreenStackError))
    assert chat.app.services.failure is None
