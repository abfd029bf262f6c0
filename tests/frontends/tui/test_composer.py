"""The prompt: lines, history, completion, pastes and the keys that must not crash it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from friday_cli.core.text.sanitize import sanitize
from friday_cli.frontends.tui.commands import slash_commands
from friday_cli.frontends.tui.state.prompt_history import PromptHistory
from friday_cli.frontends.tui.widgets.paste_chips import PasteChips
from tests.frontends.tui.chat import opened

ORDER = "a b x backspace c d left left y ctrl+w e end ctrl+j f ctrl+u g"
TWO = {"a": [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]}


async def test_keys_that_come_at_once_act_in_their_order(tmp_path: Path) -> None:
    """As over a slow line: what deletes and moves must not come after the letters behind it."""
    async with opened(tmp_path, TWO) as chat:
        for key in ORDER.split():
            chat.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.until(lambda: chat.composer.text == "ecd\ng")


async def test_new_lines_do_not_send_and_the_prompt_grows_to_eight_rows_and_shrinks(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(60, 20)) as chat:
        assert chat.composer.area.size.height == 1
        await chat.press("a", "shift+enter", "b", "alt+enter", "c", "backslash", "enter", "d", "ctrl+j", "e")
        assert chat.composer.text == "a\nb\nc\nd\ne"
        await chat.press(*["x", "ctrl+j"] * 12)
        assert chat.composer.area.size.height == 8
        await chat.press(*["ctrl+z"] * 40)
        assert chat.composer.area.size.height == 1
        assert "F1" in chat.frame or "ask" in chat.frame


async def test_earlier_prompts_come_back_with_up_and_what_was_typed_with_down(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.ask("first")
        await chat.ask("second")
        await chat.type("new")
        await chat.press("up")
        assert chat.composer.text == "second"
        await chat.press("up")
        assert chat.composer.text == "first"
        await chat.press("down", "down")
        assert chat.composer.text == "new"


async def test_ctrl_r_searches_earlier_prompts(tmp_path: Path) -> None:
    for text in ("fix the parser", "write a test", "parse the log"):
        PromptHistory(tmp_path).add(text)
    async with opened(tmp_path, TWO) as chat:
        await chat.press("ctrl+r")
        await chat.type("test")
        await chat.press("enter")
        assert chat.composer.text == "write a test"
        assert chat.state.root is None  # it was put there, not sent


async def test_at_offers_files_and_profiles_and_tab_takes_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "widget.py").write_text("x")
    for name in ("researcher", "it's its.md"):
        (tmp_path / name).touch()
    async with opened(tmp_path, TWO) as chat:
        await chat.until(lambda: chat.app.input.profiles)
        await chat.type("see @wdg", shows="src/widget.py")
        await chat.press("tab")
        assert chat.composer.text == "see @src/widget.py "
        chat.composer.clear()
        await chat.type("@resear")
        await chat.until(lambda: "@researcher" in chat.frame and "\nresearcher" in chat.frame)
        await chat.press("down", "tab")
        assert chat.composer.text == "@./researcher "  # without its folder it would be the profile
        await chat.type("@its", shows="it's its.md")
        await chat.press("tab")
        assert chat.composer.text == '@./researcher @"it\'s its.md" '


async def test_enter_runs_the_offered_command_and_an_unknown_one_stays_in_the_prompt(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.type("/cos")
        assert "/cost" in chat.frame
        await chat.press("enter", shows="Nothing has run yet.")
        assert "$" not in chat.frame
        await chat.say("/nonsense now", shows="No such command: /nonsense. /help lists the commands.")
        assert chat.composer.text == "/nonsense now"
        assert chat.state.root is None


async def test_a_paste_has_no_escape_sequences_and_a_big_one_is_a_chip_that_is_sent_in_full(tmp_path: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(40))
    async with opened(tmp_path, TWO) as chat:
        chat.composer.area.post_message(events.Paste("a\x1b[31mb\r\nc"))
        await chat.pilot.pause()
        assert chat.composer.text == "ab\nc"
        chat.composer.clear()
        chat.composer.area.post_message(events.Paste(text))
        await chat.pilot.pause()
        assert "[Pasted #1 +40 lines]" in chat.frame
        assert chat.composer.text == text
        await chat.press("enter")
        await chat.idle()
        assert "line 3" in chat.frame


async def test_a_draft_is_there_the_next_time(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.type("unsent words")
    async with opened(tmp_path, TWO) as chat:
        assert chat.composer.text == "unsent words"
        await chat.composer.area.paste(" of old\n" * 10_000)
    async with opened(tmp_path, TWO) as chat:  # thousands of lines in the prompt would be slow
        assert chat.composer.area.text == "[Pasted #1 +10000 lines]"
        assert chat.composer.text == "unsent words" + " of old\n" * 10_000


async def test_ctrl_c_clears_what_is_typed_before_it_quits(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        for words in ("first words", "other words"):  # the second within the moment in which Ctrl+C again quits
            chat.composer.put(words)
            await chat.press("ctrl+c")
            await chat.until(lambda: not chat.composer.text)
            assert chat.app.return_code is None
        await chat.press("up", "up")
        await chat.until(lambda: chat.composer.text == "first words")


async def test_the_agent_reads_the_output_of_a_command_with_one_mark_but_not_with_two(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "I read: {task}"}]}) as chat:
        await chat.say("!!echo mine\u202ealone", shows="exit 0")
        assert sanitize("!! echo mine\u202ealone") in chat.frame
        await chat.say("!echo from-the-shell")
        await chat.until(lambda: chat.frame.count("exit 0") == 2)
        (tmp_path / "notes.md").write_text('one\n\n<folder path="x">\nthree\n')
        await chat.ask("and @notes.md?")
        assert "from-the-shell" in chat.log.blocks.last_reply().text()
        assert "alone" not in chat.session._main.agent.conversation.history[0].text
        for seen in ("› and @notes.md?", "+ ! echo from-the-shell · 1 line", "+ notes.md · 4 lines"):
            assert seen in chat.frame
        assert "I ran this command" not in chat.frame.partition("I read:")[0]
        chat.log.focus()
        await chat.press("u", "enter")
        await chat.until(lambda: "[I ran this command: echo" in chat.frame.partition("I read:")[0])


async def test_the_agent_may_repeat_how_a_command_of_the_person_ended(tmp_path: Path) -> None:
    """Also in a later process."""
    (tmp_path / "check.sh").write_text("echo fine\n", encoding="utf-8")
    agents = {"a": [{"text": "As your run shows, all checks pass."}] * 2}
    async with opened(tmp_path, agents) as chat:
        await chat.say("!sh check.sh", shows="exit 0")
        await chat.ask("and?")
        assert chat.state.agents["a"].receipt.warnings == ()
        kept = chat.session.id
    async with opened(tmp_path, agents, resume=kept) as chat:
        await chat.ask("really?")
        assert chat.state.agents["a"].receipt.warnings == ()
        await chat.say("!sh check.sh; false", shows="exit 1")
        await chat.ask("and now?")
        assert "`sh check.sh; false` ended with exit 1" in chat.state.agents["a"].receipt.warnings[0]
    async with opened(tmp_path, agents, resume=kept) as chat:
        await chat.ask("and later?")
        assert "`sh check.sh; false` ended with exit 1" in chat.state.agents["a"].receipt.warnings[0]


async def test_a_message_before_the_session_is_open_is_not_lost(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, ready=False) as chat:
        await chat.ask("early")
        chat.has("› early", "One.")


async def test_a_letter_that_means_nothing_in_the_chat_goes_to_the_prompt(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        chat.log.focus()
        await chat.press("j")  # this one means something there
        assert chat.composer.text == ""
        await chat.type("What")
        await chat.pilot.pause()
        assert chat.composer.area.has_focus
        assert chat.composer.text == "What"
        chat.composer.clear()
        chat.log.focus()
        await chat.pilot.pause()
        for letter in "became":  # before the focus could move: c, e and a mean something in the chat
            chat.app.post_message(events.Key(letter, letter))
        await chat.until(lambda: chat.composer.text == "became")
        chat.log.focus()
        await chat.pilot.pause()
        for event in (events.Paste(" a\nline"), events.Key("c", "c"), events.Key("enter", "\r")):
            chat.app.post_message(event)
        await chat.until(lambda: "› became a" in chat.frame and "linec" in chat.frame)


async def test_what_is_typed_fast_is_not_taken_for_what_the_list_offered_before(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.type("/", shows="/help")
        for key in ("c", "o", "s", "t", "space", "x", "enter"):  # before the list can hear of them
            chat.composer.area.post_message(events.Key(key, {"space": " ", "enter": "\r"}.get(key, key)))
        await chat.shows("Nothing has run yet.")
        (tmp_path / "ab.txt").write_text("x")
        await chat.type("see @a", shows="ab.txt")
        for key in ("n", "n", "enter"):
            chat.composer.area.post_message(events.Key(key, {"enter": "\r"}.get(key, key)))
        await chat.idle()
        assert "› see @ann" in chat.frame


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_every_command_of_the_completion_says_what_it_does(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(tmp_path, {"a": []}, size=size) as chat:
        for command in sorted(slash_commands.COMMANDS, key=lambda c: len(c.name) + len(c.usage))[-6:]:
            await chat.type(f"/{command.name}", shows=command.help[:20])
            chat.has(f"/{command.name} {command.usage[:1]}")
            chat.composer.put("")


async def test_a_note_is_shown_to_its_last_word_on_a_small_screen(tmp_path: Path) -> None:
    words = "@reseacher is neither a profile nor a file, so it stays text. Did you mean @researcher?"
    async with opened(tmp_path, {"a": []}, size=(60, 20)) as chat:
        chat.app.notify(words, markup=False, timeout=3600)
        await chat.until(lambda: "@reseacher is neither" in chat.frame and "@researcher?" in chat.frame)


async def test_a_chip_is_one_thing_for_the_cursor_for_deleting_selecting_and_undo(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        area, text = chat.composer.area, "\n".join(f"line {n}" for n in range(40))
        await chat.type("ab")
        area.post_message(events.Paste(text))
        chip = "[Pasted #1 +40 lines]"
        await chat.until(lambda: area.text == f"ab{chip}")
        await chat.press("left")
        assert area.cursor_location == (0, 2)
        await chat.press("right")
        assert area.cursor_location == (0, 2 + len(chip))
        await chat.press("shift+left")
        assert area.selected_text == chip
        area.move_cursor((0, 5))
        assert area.cursor_location == (0, 2)
        await chat.press("delete")
        assert area.text == "ab"
        await chat.press("ctrl+underscore")
        assert chat.composer.text == f"ab{text}"
        await chat.press("end", "backspace")
        assert area.text == "ab"
        await chat.press("ctrl+z")
        await chat.press("enter")
        await chat.shows("One.")
        assert str(chat.state.agents["a"].task) == f"ab{text}"


@pytest.mark.parametrize("pasted", ["see @pasted.txt\n" * 40, "see @pasted.txt", "@pasted.txt", "@past"])
async def test_a_paste_names_no_files_and_what_is_typed_beside_it_does(tmp_path: Path, pasted: str) -> None:
    async with opened(tmp_path, TWO) as chat:
        for name in ("typed.txt", "pasted.txt"):
            (tmp_path / name).write_text(f"content of {name}")
        chat.composer.area.post_message(events.Paste(pasted))
        await chat.until(lambda: chat.composer.area.text)
        await chat.type("ed.txt @typed.txt " if pasted == "@past" else " @typed.txt ")
        await chat.until(lambda: chat.composer.area.text.endswith("@typed.txt "))
        await chat.press("enter")
        await chat.idle()
        texts = [message.text for message in chat.session._main.agent.conversation.history]
        assert "content of typed.txt" in texts[0]
        assert "content of pasted.txt" not in texts[0]
        assert texts[0].count("@pasted.txt") == max(1, pasted.count("@pasted.txt"))
        await chat.shows("@pasted.txt: not attached")


async def test_a_paste_that_was_changed_in_an_editor_names_no_files(tmp_path: Path) -> None:
    chips = PasteChips()
    text = chips.add_paste("see @pasted.txt\n" * 40) + chips.add_paste("and @short.txt")
    names = chips.pasted_names()
    whole = chips.full(text)
    chips.clear()
    chips.names += names
    assert "@" not in str(chips.typed(whole))
