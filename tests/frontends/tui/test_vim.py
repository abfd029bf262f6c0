"""Vim keys in the prompt."""

from __future__ import annotations

from pathlib import Path

from textual import events

from friday_cli.system.paths import config_dir

from .chat import Chat, opened

ONE = {"a": [{"text": "One."}, {"text": "Two."}]}


def settings(text: str) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "config.toml").write_text(text)


async def vim(chat: Chat) -> None:
    await chat.until(lambda: chat.composer.area.vim is not None)


async def keys(chat: Chat, text: str) -> None:
    """Press the keys of a text at once; `<` is Esc."""
    for letter in text:
        chat.app.post_message(events.Key("escape", None) if letter == "<" else events.Key(letter, letter))
    await chat.pilot.pause()


EDITS = [
    # text, keys after Esc, text, cursor (row, column)
    ("one two three", "0x", "ne two three", (0, 0)),
    ("one two three", "03x", " two three", (0, 0)),
    ("one two three", "0wdw", "one three", (0, 4)),
    ("one two three", "0d2w", "three", (0, 0)),
    ("one two three four five", "02d2w", "five", (0, 0)),
    ("one two three", "bD", "one two ", (0, 7)),
    ("one two three", "0wcwsix<", "one six three", (0, 6)),
    ("one two three", "0wciwsix<", "one six three", (0, 6)),
    ("one two three", "0wdaw", "one three", (0, 4)),
    ("one two three", "0de", " two three", (0, 0)),
    ("one two three", "$db", "one two e", (0, 8)),
    ("one two three", "0dtw", "wo three", (0, 0)),
    ("one two three", "0dfw", "o three", (0, 0)),
    ("one two three", "0wywP", "one two two three", (0, 7)),
    ("one two three", "0dwwp", "two tone hree", (0, 8)),
    ("one two three", "0rx", "xne two three", (0, 0)),
    ("one two three", "0~", "One two three", (0, 1)),
    ("one two three", "0dwu", "one two three", (0, 0)),
    ("one two three", "0dwuU", "two three", (0, 0)),
    ("one two three", "Izero <", "zero one two three", (0, 4)),
    ("one two three", "$a!<", "one two three!", (0, 13)),
    ("one two three", "0A four<", "one two three four", (0, 17)),
    ("one two three", "0vey$p", "one two threeone", (0, 15)),
    ("one two three", "0wved", "one  three", (0, 4)),
    ("one two three", "0wviwcx<", "one x three", (0, 4)),
    ("one\ntwo\nthree", "ggdd", "two\nthree", (0, 0)),
    ("one\ntwo\nthree", "dd", "one\ntwo", (1, 0)),
    ("one\ntwo\nthree", "gg2dd", "three", (0, 0)),
    ("one\ntwo\nthree", "ggdG", "", (0, 0)),
    ("one\ntwo\nthree", "ggyyp", "one\none\ntwo\nthree", (1, 0)),
    ("one\ntwo\nthree", "ggddGp", "two\nthree\none", (2, 0)),
    ("one\ntwo\nthree", "ggccx<", "x\ntwo\nthree", (0, 0)),
    ("one\ntwo\nthree", "ggox<", "one\nx\ntwo\nthree", (1, 0)),
    ("one\ntwo\nthree", "ggOx<", "x\none\ntwo\nthree", (0, 0)),
    ("one\ntwo\nthree", "ggVjd", "three", (0, 0)),
    ("one\ntwo\nthree", "ggJ", "one two\nthree", (0, 3)),
    ("one\ntwo\nthree", "ggjdj", "one", (0, 0)),
    ("one\ntwo\nthree", "gg$", "one\ntwo\nthree", (0, 2)),
    ("one.two", "0dw", ".two", (0, 0)),
    ("one.two three", "0dW", "three", (0, 0)),
    ("one two", "0d<x", "ne two", (0, 0)),
    ("one two", "0qz", "one two", (0, 0)),
    ("one", "0d", "one", (0, 0)),
    ("", "xdwp", "", (0, 0)),
]  # fmt: skip


async def test_the_keys_of_vim_edit_the_prompt(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    async with opened(tmp_path, ONE) as chat:
        await vim(chat)
        for text, pressed, expected, cursor in EDITS:
            chat.composer.put(text)
            await keys(chat, f"<{pressed}")
            found = (chat.composer.area.text, chat.composer.area.cursor_location)
            assert found == (expected, cursor), f"{text!r}: {pressed}"
            await keys(chat, "<i")


async def test_the_line_of_the_prompt_shows_the_mode_and_enter_sends_in_each(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    async with opened(tmp_path, ONE) as chat:
        await vim(chat)
        await chat.shows("INSERT")
        await chat.type("hello")
        await chat.press("escape", shows="NORMAL")
        await chat.press("2", "d", shows="NORMAL 2d")
        await chat.press("escape", "v", shows="VISUAL")
        await chat.press("enter")
        await chat.idle()
        await chat.shows("One.")
        await chat.shows("INSERT")  # the next message is typed


async def test_esc_stops_what_runs_from_every_mode(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    for before in ("", "<", "<v", "<d"):
        async with opened(tmp_path, {"a": [{"text": "One.", "delay_s": 60}]}) as chat:
            await vim(chat)
            await chat.say("go")
            await chat.until(lambda: chat.state.working)
            chat.composer.put("a draft")
            chat.composer.area.vim.escape() if before else None  # type: ignore[union-attr]
            await keys(chat, before[1:])
            await chat.press("escape")
            await chat.until(lambda: not chat.state.working, seconds=10)  # long before the reply
            assert chat.composer.text == "a draft"


async def test_the_mode_is_shown_again_when_files_are_no_longer_looked_for(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    (tmp_path / "found.txt").write_text("")
    async with opened(tmp_path, ONE) as chat:
        await vim(chat)
        await chat.type("look at @fou", shows="found.txt")
        await chat.press("tab", shows="@found.txt")
        await chat.type("x", shows="INSERT")


async def test_a_chip_is_one_character_for_vim(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    async with opened(tmp_path, ONE) as chat:
        await vim(chat)
        await chat.composer.area.paste("x\n" * 2_000)
        chip = chat.composer.area.text
        await keys(chat, "<0x")
        assert chat.composer.area.text == ""
        await keys(chat, "p")
        assert chat.composer.area.text == chip
        assert chat.composer.text == "x\n" * 2_000


async def test_a_slash_on_an_empty_prompt_begins_a_command_and_vim_turns_the_keys_off(tmp_path: Path) -> None:
    settings("[tui]\nvim = true\n")
    async with opened(tmp_path, ONE) as chat:
        await vim(chat)
        await chat.press("escape")
        await chat.type("/vim")
        await chat.press("enter", shows="Vim keys: off.")
        assert "INSERT" not in chat.frame
        assert "vim = false" in (config_dir() / "config.toml").read_text()
