"""The colours: the terminal is asked for its background, the settings decide, and with NO_COLOR there are none."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from textual import events

from friday_cli.config import load
from friday_cli.frontends.tui.terminal.driver import QUERIES, KeyParser, TerminalWriter, is_light
from tests.frontends.tui.chat import opened
from tests.frontends.tui.terminal_fixture import ON, Terminal

ONE = {"a": [{"text": "Hello."}]}
WHITE = b"\x1b]11;rgb:ffff/ffff/ffff\x07"
LIGHT, DARK = b"38;2;31;31;31;48;2;224;224;224", b"38;2;224;224;224;48;2;18;18;18"
"""Ink and paper."""


class KeyRecorder:
    """A parser of keys, with what it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.parser = KeyParser(dict.fromkeys(QUERIES, self.heard.append))

    def keys(self, *pieces: str) -> list[str]:
        came = [message for piece in pieces for message in self.parser.feed(piece)]
        return [message.key for message in came if isinstance(message, events.Key)]


def test_a_terminal_that_is_gone_holds_nobody_up() -> None:
    gone = io.StringIO()
    gone.close()
    writer = TerminalWriter(gone)
    writer.start()
    for _ in range(100):
        writer.write("lost")
    writer.stop()
    assert not writer.is_alive()


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
def test_an_answer_is_taken_out_of_what_is_typed_wherever_it_is_cut(end: str) -> None:
    for text in ("11;rgb:1e1e/1e1e/2e2e", "7501;?"):
        answer = f"\x1b]{text}{end}"
        for cut in range(3, len(answer)):
            recorder = KeyRecorder()
            assert recorder.keys("ab" + answer[:cut], answer[cut:] + "cd") == ["a", "b", "c", "d"]
            assert recorder.heard == [text.partition(";")[2]]


KEYS = {
    "\x1b\r": "alt+enter", "\x1b[27;2;13~": "shift+enter", "\x1b[27;3;13~": "alt+enter", "\x1b[27;5;106~": "ctrl+j",
    "\x1b[A": "up",
}  # fmt: skip
"""New lines as terminals write them, and a key that begins like an answer."""


def test_a_key_is_one_however_the_terminal_writes_it() -> None:
    for typed, key in KEYS.items():
        recorder = KeyRecorder()
        assert recorder.keys(typed, "x", "\r") == [key, "x", "enter"]
        assert not recorder.heard


def test_a_colour_is_light_or_dark() -> None:
    light, dark = ("rgb:ffff/ffff/ffff", "rgb:fd/f6/e3"), ("rgba:0000/0000/0000/ffff", "#1e1e2e", "rgb:1e1e/1e1e/2e2e")
    assert [is_light(colour) for colour in (*light, *dark, "blue", "rgb:")] == [True] * 2 + [False] * 3 + [None] * 2


def test_a_light_terminal_gets_light_colours_and_keeps_what_was_typed(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo", COLORTERM="truecolor") as terminal:
        terminal.until(QUERIES["11"].encode())
        terminal.type(b"early " + WHITE + b"bird", until=b"early bird")
        terminal.until(b"demo: scripted")
        terminal.until(b"\x1b[" + LIGHT + b"mearly bird")
        assert b"rgb:" not in terminal.out


def test_nothing_waits_for_a_terminal_that_does_not_answer(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo", COLORTERM="truecolor") as terminal:
        terminal.until(b"demo: scripted")
        assert DARK in terminal.out
        assert LIGHT not in terminal.out


def test_with_no_color_there_are_attributes_only(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo", NO_COLOR="1") as terminal:
        terminal.until(b"demo: scripted")
        terminal.type(b"read notes.txt\r", until=b"read_file")
        terminal.until(b"context")
        terminal.type(b"/the", until=b"/theme")
        terminal.until_quiet()
        codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.out) for code in found.split(b";")}
        assert ON[0] in terminal.out
        assert b"7" in codes, "the line of a list that Enter takes is reversed"
        assert not codes - {b"", *(b"%d" % code for code in (0, 1, 2, 3, 4, 7, 9, 22, 23, 24, 27, 29, 39, 49))}


def test_a_terminal_of_sixteen_colours_gets_its_own(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo", TERM="xterm", COLORTERM="") as terminal:
        terminal.until(b"demo: scripted")
        terminal.type(b"hello there\r", until=b"add a model")
        terminal.until_quiet()
        found = [codes.split(b";") for codes in re.findall(rb"\x1b\[([0-9;]*)m", terminal.out)]
        codes = {code for codes in found for code in codes if b"7" not in codes}  # a reversed cell is the cursor
        assert b"34" in codes, "there are colours"
        assert not codes & {b"%d" % code for code in (*range(40, 48), *range(100, 108))}, "no paper of our own"


async def test_a_theme_is_kept_in_the_settings_and_the_settings_decide(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        assert chat.app.theme == "textual-dark"
        await chat.say("/theme light")
        await chat.until(lambda: chat.app.theme == "textual-light")
        assert load().settings.theme == "light"
        await chat.say("/theme mauve", shows="Unknown theme")
    async with opened(tmp_path, ONE) as chat:
        assert chat.app.theme == "textual-light"
    from friday_cli.config.edit import set_value

    set_value("theme", "ansi")
    async with opened(tmp_path, ONE) as chat:
        await chat.until(lambda: chat.app.theme == "ansi-dark")
