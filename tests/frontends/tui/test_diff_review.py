"""The review of changes: one row by agent and file, accepted or put back; a file the person changed is asked about."""

from __future__ import annotations

from pathlib import Path

from textual import events

from friday_cli.frontends.tui.widgets.choice_dialog import Chooser
from friday_cli.frontends.tui.widgets.diff_review import Review
from tests.frontends.tui.chat import Chat, delegates, does, opened

PLAY = {
    "a": [
        does("write_file", path="one.txt", content="1\n"),
        delegates("make it two"),
        {"text": "Done."},
        {"text": "Again."},
    ],
    "a.1": [
        does("read_file", path="one.txt"),
        does("edit_file", path="one.txt", edits=[{"old": "1", "new": "2"}]),
        does("write_file", path="two.txt", content="two\n"),
        {"text": "It is two."},
    ],
}


async def reviewed(chat: Chat) -> None:
    """Everything is changed, and the review is open."""
    await chat.say("change")
    await chat.until(lambda: "Done." in chat.frame and not chat.app.controller.working)
    await chat.say("/diff")
    await chat.until(lambda: isinstance(chat.app.screen, Review) and "one.txt" in chat.frame)


async def test_each_agent_s_part_of_a_file_is_a_row_with_its_difference(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY, mode="edits") as chat:
        await reviewed(chat)
        chat.has("Changes: 2 files by 2 agents · +3 -1", "a.1 general: make it two")
        chat.has("a made one.txt +1 -0 · by its tools · another agent changed it after this one")
        await chat.press("down", shows="a.1 changed one.txt +1 -1")
        chat.has("1 - 1", "1 + 2")
        await chat.press("escape")
        await chat.until(lambda: not isinstance(chat.app.screen, Review))
        assert (tmp_path / "one.txt").read_text() == "2\n"


async def test_an_empty_file_that_was_made_is_shown_as_empty(tmp_path: Path) -> None:
    play = {"a": [does("write_file", path="one.txt", content=""), {"text": "Done."}]}
    async with opened(tmp_path, play, mode="edits") as chat:
        await reviewed(chat)
        chat.has("a made one.txt +0 -0", "An empty file.")
        assert "old content" not in chat.frame


async def test_a_file_is_put_back_for_one_agent_and_for_all(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY, mode="edits") as chat:
        await reviewed(chat)
        await chat.press("p", shows="after a.")
        assert (tmp_path / "one.txt").read_text() == "2\n"
        for key in ("j", "p", "k"):  # at once: it is done to the file at which the cursor stood
            chat.app.post_message(events.Key(key, key))
        await chat.until(lambda: (tmp_path / "one.txt").read_text() == "1\n")
        await chat.shows("Changes: 2 files by 2 agents · +2 -0")
        await chat.press("P")
        await chat.until(lambda: not (tmp_path / "one.txt").exists())
        await chat.shows("Changes: 1 file by 1 agent")
        await chat.press("p")
        await chat.until(lambda: not isinstance(chat.app.screen, Review))
        assert not (tmp_path / "two.txt").exists()
        await chat.say("/rewind undo")
        await chat.until(lambda: (tmp_path / "two.txt").exists())


async def test_what_is_accepted_leaves_the_list_and_stays_in_the_folder(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY, mode="edits") as chat:
        await reviewed(chat)
        await chat.press("a")
        await chat.until(lambda: "one.txt" not in chat.frame.split("Changes:")[1])
        await chat.press("a")
        await chat.until(lambda: not isinstance(chat.app.screen, Review))
        assert (tmp_path / "one.txt").read_text() == "2\n"
        await chat.say("/diff", shows="There are no changes of agents to review.")


async def test_a_file_that_the_person_changed_since_is_put_back_only_after_a_word(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY, mode="edits") as chat:
        await reviewed(chat)
        (tmp_path / "two.txt").write_text("mine\n")
        await chat.press("r", "down", "down")
        await chat.until(lambda: "two.txt" in chat.frame and "changed by you since" in chat.frame)
        await chat.press("p")
        await chat.until(lambda: isinstance(chat.app.screen, Chooser) and "it was changed since" in chat.frame)
        await chat.press("enter", shows="Nothing was changed.")
        assert (tmp_path / "two.txt").read_text() == "mine\n"
        await chat.press("p")
        await chat.until(lambda: isinstance(chat.app.screen, Chooser))
        await chat.press("2")
        await chat.until(lambda: not (tmp_path / "two.txt").exists())
