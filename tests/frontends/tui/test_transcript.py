"""The transcript as a widget: following, staying, wrapping again, searching, selecting; nothing is pruned."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from friday_cli.core.protocol.events import AgentStarted, AnyEvent, Envelope, MessageAdded, TextDelta, TurnStarted
from friday_cli.core.protocol.messages import Message, Text, user
from tests.frontends.tui.chat import Chat, does, opened

NOTHING: dict[str, list[object]] = {"a": []}


class Feed:
    """Puts events into the state of a chat, as the engine would."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._seq = 10_000
        self("a", AgentStarted(1, "friday", "many", "demo"))

    def __call__(self, agent: str, event: AnyEvent, *, live: bool = False) -> None:
        self._seq += 1
        envelope = Envelope(None if live else self._seq, 1_000.0, agent, event)
        self._chat.state.apply(envelope)
        self._chat.app.controller.fold.dirty.add(agent)

    def talk(self, count: int) -> None:
        for number in range(count):
            self("a", MessageAdded(user(f"question {number}")))
            self("a", MessageAdded(Message("assistant", (Text(f"Answer {number} with some *words* in it."),))))

    async def shown(self) -> None:
        self._chat.app.refresher.schedule_refresh()
        await self._chat.until(lambda: not self._chat.app.controller.fold.dirty)


def lines(chat: Chat) -> list[str]:
    """What is seen of the transcript, without its scroll bar."""
    width = chat.log.scrollable_content_region.width
    return [line[: width - 1].strip() for line in chat.frame.split("\n")[: chat.log.size.height]]


async def test_it_follows_at_the_end_and_stays_where_the_reader_went(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        feed.talk(50)
        await feed.shown()
        assert "Answer 49" in chat.frame
        chat.log.focus()
        await chat.press("home")
        assert "question 0" in chat.frame
        before = lines(chat)
        feed.talk(20)
        await feed.shown()
        assert lines(chat) == before
        await chat.press("end")
        assert "Answer 19" in chat.frame
        feed.talk(30)
        await feed.shown()
        assert "Answer 29" in chat.frame


async def test_nothing_is_pruned_and_only_what_is_seen_is_drawn(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        feed.talk(2_500)
        await feed.shown()
        assert "Answer 2499" in chat.frame
        transcript = chat.log.blocks
        assert len(transcript.blocks) == 5_000
        assert 0 < chat.log.context.cache.lines < 100
        chat.log.focus()
        await chat.press("home")
        assert "question 0" in chat.frame


async def test_a_resize_keeps_the_place_of_the_reader(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        for number in range(60):
            feed("a", MessageAdded(Message("assistant", (Text(f"Start {number} " + "many words " * 30),))))
        await feed.shown()
        chat.log.focus()
        await chat.press("home")
        for _ in range(3):
            await chat.press("pagedown")
        top = next(line for line in chat.frame.split("\n") if "Start" in line).split()[1]
        await chat.pilot.resize_terminal(70, 30)
        await chat.pilot.pause(0.1)
        around = [int(line.split()[1]) for line in chat.frame.split("\n") if line.strip().startswith("Start")]
        assert min(abs(number - int(top)) for number in around) <= 1


async def test_scrolling_up_by_lines_shows_every_line_once(tmp_path: Path) -> None:
    """Heights above the view are guesses until they are drawn: what is seen must not jump when they become known."""
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        for number in range(40):
            words = "".join(f"w{number}.{n} " for n in range(60 if number % 3 else 5))
            feed("a", MessageAdded(Message("assistant", (Text(words + "\n\n- a\n- b\n"),))))
        await feed.shown()
        chat.log.focus()
        seen = lines(chat)
        for _ in range(60):
            await chat.press("up")
            now = lines(chat)
            assert now[1:] == seen[:-1]
            seen = now
        await chat.press("home", "end")
        assert chat.log.position.following
        assert "w39.4" in chat.frame.replace("\n", " ")


async def test_a_reply_that_is_written_shows_settled_blocks_and_its_tail(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        feed("a", TurnStarted(1))
        text = "# Title\n\nFirst **paragraph**.\n\n```python\nprint(1)\n```\n\nThe la"
        for at in range(0, len(text), 7):
            feed("a", TextDelta(1, 1, at, text[at : at + 7]), live=True)
            await feed.shown()
        chat.has("First paragraph.", "print(1)", "The la")
        feed("a", MessageAdded(Message("assistant", (Text(text + "st."),))))
        await feed.shown()
        assert chat.frame.count("First paragraph.") == 1
        assert "The last." in chat.frame


async def test_search_from_the_chat_or_the_prompt_finds_what_is_folded_and_unfolds_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a needle in here\n")
    async with opened(tmp_path, {"a": [does("read_file", path="notes.txt"), {"text": "Done."}]}) as chat:
        await chat.ask("Read")
        assert "needle" not in chat.frame
        chat.log.focus()
        await chat.press("slash")
        await chat.type("needle")
        await chat.press("enter")
        assert "a needle in here" in chat.frame
        await chat.press("escape")
        assert chat.log.has_focus
        chat.composer.area.focus()
        await chat.type("draft")
        await chat.press("ctrl+f")
        await chat.type("needle", shows="1 match")
        await chat.press("enter", "escape")
        assert chat.composer.text == "draft"
        assert not chat.app.query_one("#find").display


async def test_a_selection_is_copied_and_made_with_the_mouse(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "copy these words\n\nand these"}]}) as chat:
        await chat.ask("go")
        lines = chat.frame.split("\n")
        y = next(n for n, line in enumerate(lines) if "copy these" in line)
        chat.app.screen.selections = {chat.log: Selection(Offset(5, y), Offset(3, y + 2))}
        assert chat.app.screen.get_selected_text() == "these words\n\nand"
        await chat.press("ctrl+c")
        assert chat.app.clipboard == "these words\n\nand"
        await chat.pilot.mouse_down(chat.log, offset=(1, y))
        await chat.pilot.hover(chat.log, offset=(8, y))
        await chat.pilot.mouse_up(chat.log, offset=(8, y))
        assert (chat.app.screen.get_selected_text() or "").startswith("copy")


async def test_a_line_of_a_megabyte_is_shown_in_part_and_breaks_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING) as chat:
        feed = Feed(chat)
        feed("a", MessageAdded(user("x" * 1_000_000)))
        feed("a", MessageAdded(Message("assistant", (Text("漢" * 500_000 + "\n\nend"),))))
        await feed.shown()
        assert "end" in chat.frame


async def test_what_is_on_the_screen_does_not_change_between_two_looks(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "Yes."}]}) as chat:
        await chat.ask("hi")
        agent = chat.state.agents["a"]
        end, agent.end, agent.writing = agent.end, None, True
        chat.log.follow()
        shown = chat.log.blocks.strip(chat.log.blocks.total - 1).text
        assert shown == "…"
        agent.writing = False  # folded; the next look has not come yet
        assert chat.log.blocks.strip(chat.log.blocks.total - 1).text == shown
        agent.end = end


FOREIGN = {
    "a sequence that clears": "\x1b[2J\x1b[H",
    "a title": "\x1b]0;owned\x07",
    "a picture": "\x1bPq#0\x1b\\",
    "an eight-bit sequence": "\x9b31m",
    "other controls": "\a\b\r\v\f\0\x7f",
    "text that runs backwards": "\u202e\u2067\u200f",
    "markup": "[red]x[/red] [link=file:///etc]y[/link] <b>z</b>",
    "letters without width": "a\u200b\u200d\u2060\ufeffb",
    "signs that join": "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 e\u0301 한글",
    "wide letters": "漢字" * 60,
    "a word without end": "x" * 3_000,
}


@pytest.mark.parametrize("size", [(60, 20), (160, 45)], ids=["60", "160"])
async def test_foreign_text_breaks_no_line_and_reaches_no_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(tmp_path, NOTHING, size=size) as chat:
        feed = Feed(chat)
        for text in FOREIGN.values():
            feed("a", MessageAdded(user(f"<{text}>")))
            feed("a", MessageAdded(Message("assistant", (Text(f"{text}\n\n- {text}\n\n```\n{text}\n```"),))))
        feed("a.1", AgentStarted(1, f"p{FOREIGN['a title']}", f"task {FOREIGN['a sequence that clears']}", "m", "a"))
        await feed.shown()
        chat.log.focus()
        await chat.press("home")
        top = -1
        while top != int(chat.log.scroll_y):
            for strip in chat.app.screen._compositor.render_strips():
                assert strip.cell_length == size[0]
                assert not [c for c in strip.text if unicodedata.category(c) == "Cc" or c in "\u202e\u2067\u200f"]
                assert "owned" not in strip.text
            top = int(chat.log.scroll_y)
            await chat.press("pagedown")


async def test_what_is_written_and_typed_needs_no_new_layout_of_the_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, NOTHING, size=(160, 45)) as chat:
        feed = Feed(chat)
        feed("a.1", AgentStarted(1, "researcher", "a part", "demo", "a", "call-1"))
        feed("a.1", MessageAdded(user("a part")))
        for agent in ("a", "a.1"):
            feed(agent, TurnStarted(1))
        await feed.shown()
        await chat.until(lambda: chat.frame.count("researcher") > 1)
        await feed.shown()
        laid: list[object] = []
        chat.app.screen.screen_layout_refresh_signal.subscribe(chat.app.screen, laid.append, immediate=True)
        for at in range(9):
            for agent in ("a", "a.1"):
                feed(agent, TextDelta(1, 1, 7 * at, f"word{at}\n\n"), live=True)
            await feed.shown()
            await chat.press("x")
            await chat.until(lambda at=at: chat.frame.count(f"word{at}") == 2)
        await chat.until(lambda: "x" * 9 in chat.frame)
        assert len(laid) <= 1, "one for the tree, whose width is known when it is shown"
        laid.clear()
        await chat.press("ctrl+j")
        await chat.until(lambda: laid)
