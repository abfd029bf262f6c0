"""Talking: a message, its answer, tools, a sub-agent, and what is said of each on the screen."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from textual.app import ScreenStackError
from textual.css.query import NoMatches

from friday_cli.frontends.tui.refresh import SOON_S
from tests.frontends.tui.chat import opened
from tests.timing import paced

HELPERS = {
    "a": [
        {"text": "I ask a helper.", "calls": [{"name": "delegate_task", "arguments": {"profile": "researcher", "task": "Look at notes.txt"}}]},
        {"text": "The helper says: **42**."},
    ],
    "a.1": [
        {"calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]},
        {"text": "It says 42."},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("the answer is 42\n")
    return tmp_path


async def test_a_message_is_answered_in_the_transcript(folder: Path) -> None:
    async with opened(folder, {"a": [{"text": "Hello *there*."}]}) as chat:
        await chat.type("hi you")
        await chat.pilot.press("enter")
        await chat.idle()
        assert "› hi you" in chat.frame
        assert "Hello there." in chat.frame
        assert chat.composer.text == ""


async def test_a_machine_that_stands_still_at_each_moment_does_not_stop_the_screen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count()
    monkeypatch.setattr("textual._time.get_time", lambda: time.monotonic() + 1.2 * SOON_S * next(looks))
    async with opened(folder, {"a": [{"text": "Hello *there*."}]}) as chat:
        await chat.say("hi you")
        await chat.until(lambda: "Hello there." in chat.frame)


async def test_keys_act_in_the_order_in_which_they_were_typed(folder: Path) -> None:
    async with opened(folder, {"a": [{"text": "Yes."}]}) as chat:
        for key in (*"quick", "enter"):  # in one burst, as a terminal gives type-ahead
            chat.app.post_message(_key(key))
        await chat.idle()
        assert "› quick" in chat.frame


def _key(name: str) -> Any:
    from textual.events import Key

    return Key(name, name if len(name) == 1 else "\r")


async def test_a_sub_agent_has_its_block_its_row_and_its_own_transcript(folder: Path) -> None:
    async with opened(folder, HELPERS, size=(160, 45)) as chat:
        await chat.say("Ask somebody")
        await chat.idle()
        assert "The helper says: 42." in chat.frame
        assert "[researcher]" in chat.frame
        assert "Look at notes.txt" in chat.frame
        assert "└ It says 42." in chat.frame  # the collapsed block shows its result
        assert "✓ researcher" in chat.frame  # its row in the tree
        assert chat.side.child == "a.1"
        assert "read_file notes.txt" in chat.frame  # its own transcript, in the side pane


async def test_a_delegation_unfolds_to_the_childs_history(folder: Path) -> None:
    async with opened(folder, HELPERS) as chat:
        await chat.say("Ask somebody")
        await chat.idle()
        assert "read_file" not in chat.frame
        chat.log.focus()
        chat.log.entry.jump("agent")
        await chat.pilot.press("enter")
        assert "│ ▸ ✓ read_file notes.txt" in chat.frame


async def test_a_call_unfolds_to_its_arguments_and_result(folder: Path) -> None:
    agents = {"a": [{"calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]}, {"text": "Done."}]}
    async with opened(folder, agents) as chat:
        await chat.say("Read")
        await chat.idle()
        assert "the answer is 42" not in chat.frame
        await chat.pilot.press("ctrl+o")
        assert "path: notes.txt" in chat.frame
        assert "the answer is 42" in chat.frame


async def test_thinking_is_one_line_until_it_is_unfolded(folder: Path) -> None:
    async with opened(folder, {"a": [{"thinking": "first line\nsecret plan", "text": "Yes."}]}) as chat:
        await chat.say("Think")
        await chat.idle()
        assert "thought · 2 lines" in chat.frame
        assert "secret plan" not in chat.frame
        await chat.pilot.press("ctrl+o")
        assert "│ secret plan" in chat.frame


async def test_what_is_unfolded_on_the_last_row_comes_into_view(folder: Path) -> None:
    play = {
        "a": [{"text": "\n".join(f"- {n}" for n in range(40))}, {"thinking": "head\nsecret plan\nthe last", "text": ""}]
    }
    async with opened(folder, play, size=(60, 20)) as chat:
        for _ in range(2):
            await chat.say("Go")
            await chat.idle()
        at = next(y for y, row in enumerate(chat.frame.split("\n")) if "thought · 3 lines" in row)
        await chat.pilot.click(offset=(4, at))
        await chat.until(lambda: "│ the last" in chat.frame)
        assert "▾ thought" in chat.frame


async def test_a_change_is_shown_as_a_diff_with_line_numbers(folder: Path) -> None:
    edit = {"path": "notes.txt", "edits": [{"old": "is 42", "new": "is 43"}]}
    read = {"name": "read_file", "arguments": {"path": "notes.txt"}}
    agents = {"a": [{"calls": [read]}, {"calls": [{"name": "edit_file", "arguments": edit}]}, {"text": "Done."}]}
    async with opened(folder, agents, mode="edits") as chat:
        await chat.say("Change it")
        await chat.idle()
        assert "1 - the answer is 42" in chat.frame
        assert "1 + the answer is 43" in chat.frame


@paced
async def test_messages_typed_while_the_agent_works_wait_and_can_be_taken_back(folder: Path, pace: float) -> None:
    slow = {"text": "one two three four five", "chunk_delay_s": 0.3 * pace}
    agents = {"a": [slow, {"text": "Second."}, {"text": "Third."}]}
    async with opened(folder, agents) as chat:
        await chat.say("begin")
        await chat.until(lambda: chat.app.engine.working)
        await chat.say("later")
        await chat.say("not this")
        assert "queued: later" in chat.frame
        await chat.pilot.press("escape")
        assert chat.composer.text == "not this"
        assert "queued: not this" not in chat.frame
        chat.composer.clear()
        await chat.until(lambda: "Second." in chat.frame)
        assert "› later" in chat.frame


async def test_escape_interrupts_the_turn(folder: Path) -> None:
    agents = {"a": [{"text": "one two three four five six", "chunk_delay_s": 5.0}]}
    async with opened(folder, agents) as chat:
        await chat.say("begin")
        await chat.until(lambda: chat.app.engine.state.root and chat.app.engine.state.root.reply)
        await chat.pilot.press("escape")
        await chat.idle()
        assert chat.app.engine.state.agents["a"].status == "cancelled"


async def test_foreign_text_is_neither_markup_nor_escape_sequences(folder: Path) -> None:
    text = "a\x1b]0;owned\x07b \x1b[31mred \u202eright [bold]x[/bold] <b>tag</b> 漢字 👩‍👩‍👧 e\u0301"
    async with opened(folder, {"a": [{"text": text}]}) as chat:
        await chat.say("[red]mine[/red] \x1b[2J")
        await chat.idle()
        assert "[red]mine[/red]" in chat.frame
        assert "[bold]x[/bold] <b>tag</b> 漢字" in chat.frame
        assert "\x1b" not in chat.frame
        assert "\u202e" not in chat.frame
        assert "owned" not in chat.frame


async def test_a_focus_that_is_told_while_the_chat_is_taken_down_asks_for_no_pane(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "x"}]}) as chat:
        app = chat.app
    app.on_descendant_focus()
    app.on_app_focus()


async def test_work_that_outlives_the_panes_is_no_defect(tmp_path: Path) -> None:
    async def late() -> None:
        while True:
            chat.composer.put("late")
            await asyncio.sleep(0)

    async with opened(tmp_path, {"a": [{"text": "x"}]}) as chat:
        work = chat.app.run_worker(late())
    assert isinstance(work.error, (NoMatches, ScreenStackError))
    assert chat.app.failure is None
