"""Going back, forking and compacting from the chat: what is asked, what comes of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

from friday_cli.frontends.tui.widgets.choice_dialog import Chooser
from friday_cli.view import MessageItem
from tests.frontends.tui.chat import Chat, does, opened

TWO = {
    "a": [
        does("write_file", path="one.txt", content="1\n"),
        {"text": "First answer."},
        does("write_file", path="two.txt", content="2\n"),
        {"text": "Second answer."},
        {"text": "Third answer."},
    ]
}


async def two(chat: Chat) -> None:
    """Two messages are sent and answered."""
    for text in ("make one", "make two"):
        await chat.say(text)
        await chat.until(
            lambda text=text: text in said(chat) and not chat.app.controller.working and chat.app.refresher.quiet
        )


def asks(chat: Chat) -> bool:
    return isinstance(chat.app.screen, Chooser)


def said(chat: Chat) -> list[str]:
    items = chat.state.root.transcript if chat.state.root else []
    return [item.text for item in items if isinstance(item, MessageItem) and item.role == "user"]


async def test_escape_twice_goes_back_to_a_message_and_its_words_can_be_sent_anew(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, mode="edits") as chat:
        await two(chat)
        await chat.press("escape", "escape")
        await chat.until(lambda: asks(chat) and "Go back to before which message?" in chat.frame)
        chat.has("Stay here", "Nothing is changed.")
        await chat.press("enter")  # what a finger does by itself changes nothing
        await chat.until(lambda: not asks(chat))
        assert said(chat) == ["make one", "make two"]
        await chat.press("escape", "escape")
        await chat.until(lambda: asks(chat) and "Go back to before which message?" in chat.frame)
        await chat.press("up", shows="Changed since: two.txt")
        chat.has("· 2 files · make one")
        await chat.press("enter", shows="Conversation and files")
        assert "two.txt deleted" in chat.frame
        await chat.press("enter")
        await chat.until(lambda: not asks(chat) and said(chat) == ["make one"])
        assert not (tmp_path / "two.txt").exists()
        assert (tmp_path / "one.txt").exists()
        await chat.until(lambda: chat.composer.text == "make two")
        await chat.shows("Undo it with /rewind undo")
        assert "Second answer." not in chat.frame


async def test_a_rewind_is_offered_to_be_taken_back_where_it_was_made(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, mode="edits") as chat:
        await two(chat)
        await chat.say("/rewind 1 both")
        await chat.until(lambda: said(chat) == [])
        assert not (tmp_path / "one.txt").exists()
        chat.composer.clear()
        await chat.say("/rewind")
        await chat.until(lambda: asks(chat) and "Undo the last rewind" in chat.frame)
        await chat.press("up", "enter")
        await chat.until(lambda: said(chat) == ["make one", "make two"])
        assert (tmp_path / "two.txt").read_text() == "2\n"
        await chat.say("/rewind undo", shows="There is no rewind to undo.")


async def test_the_conversation_alone_goes_back_where_no_file_was_changed(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}, {"text": "Two."}]}) as chat:
        await two(chat)
        await chat.say("/rewind")
        await chat.until(lambda: asks(chat))
        await chat.press("1")
        await chat.until(lambda: said(chat) == [])
        assert chat.composer.text == "make one"


async def test_a_file_that_the_person_changed_is_asked_about_before_it_is_overwritten(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, mode="edits") as chat:
        await two(chat)
        (tmp_path / "one.txt").write_text("mine\n")
        await chat.say("/rewind 1 files")
        await chat.until(lambda: asks(chat) and "one.txt: it was changed since" in chat.frame)
        await chat.press("escape", shows="Nothing was changed.")
        assert (tmp_path / "two.txt").exists()
        await chat.say("/rewind 1 files")
        await chat.until(lambda: asks(chat))
        await chat.press("1")
        await chat.until(lambda: not asks(chat) and "Rewound the files." in chat.frame)
        assert not (tmp_path / "two.txt").exists()
        assert (tmp_path / "one.txt").read_text() == "mine\n"
        await chat.say("/rewind 1 files overwrite")
        await chat.until(lambda: not (tmp_path / "one.txt").exists())
        assert said(chat) == ["make one", "make two"]


async def test_the_transcript_forks_from_the_message_where_one_stands(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, mode="edits") as chat:
        await two(chat)
        old = chat.session.id
        chat.log.focus()
        await chat.press("f", shows="Select one of your messages first")
        await chat.press("u", "u", "f")
        await chat.until(lambda: chat.app.controller.session is not None and chat.session.id != old)
        await chat.until(lambda: said(chat) == ["make one"] and chat.composer.text == "make two")
        await chat.say("other", shows="› other")
        await chat.idle()
        chat.composer.clear()
        await chat.say(f"/resume {old[:8]}")
        await chat.until(lambda: said(chat) == ["make one", "make two"])


async def test_a_fork_of_all_of_it_is_chosen_by_itself(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, mode="edits") as chat:
        await two(chat)
        old = chat.session.id
        await chat.say("/fork")
        await chat.until(lambda: asks(chat) and "Fork before which message?" in chat.frame)
        dialog = chat.frame.partition("Fork before which message?")[2]
        assert "make two" in dialog
        assert "make one" not in dialog  # there is nothing before it
        await chat.press("enter", shows="This is the fork")
        assert chat.session.id != old
        assert said(chat) == ["make one", "make two"]


async def test_compacting_puts_a_summary_in_place_and_can_be_stopped(tmp_path: Path) -> None:
    slow = {"text": "A summary.", "chunk_delay_s": 60.0}
    play = {"a": [{"text": "One."}, {"text": "Two."}, slow, {"text": "It was about one and two."}, {"text": "Three."}]}
    async with opened(tmp_path, play) as chat:
        await chat.say("/compact", shows="There is nothing to compact yet.")
        await two(chat)
        await chat.say("/compact the names")
        await chat.until(lambda: chat.app.controller.working)
        await chat.say("wait for it")
        await chat.until(lambda: "queued: wait for it" in chat.frame and "ask  compacting" in chat.frame)
        await chat.press("escape", shows="Compaction stopped")
        assert not chat.app.controller.working
        assert chat.composer.text == "wait for it"
        chat.composer.clear()
        await chat.say("/compact the names", shows="▸ The context was compacted")
        assert "It was about one and two." not in chat.frame
        at = next(y for y, row in enumerate(chat.frame.split("\n")) if "▸ The context" in row)
        await chat.pilot.click(offset=(4, at))
        await chat.shows("│ It was about one and two.")
        chat.composer.area.focus()
        await chat.say("on", shows="Three.")


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}) as chat:
        for words, answer in (
            ("/rewind", "There is no message to rewind to yet."),
            ("/fork", "There is nothing to fork yet."),
            ("/rewind everything", "is not an argument of /rewind"),
            ("/rewind 7", "There is no message 7"),
        ):
            await chat.say(words)
            await chat.until(lambda answer=answer: answer in chat.frame)
