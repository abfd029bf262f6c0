"""A terminal driver that asks for the colour of the background, and reads keys that Textual does not know.

The answer is removed from the keys. Nothing waits for it: a terminal may never answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import partial

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.message import Message

QUERY = "\x1b]11;?\x07"
_ANSWER = re.compile(r"\x1b\]11;([^\x07\x1b]{0,60})(?:\x07|\x1b\\)")
_META_ENTER = "\x1b\r"
"""Alt+Enter of a terminal without the newer protocol of keys: Textual reads Enter."""
_OTHER_KEY = re.compile(r"\x1b\[27;(\d{1,3});(\d{1,7})~")
"""A key with modifiers as xterm writes it (modifyOtherKeys; tmux, too), in the order of kitty's form the other way round."""
_BEGUN = re.compile(r"\x1b\]11?(?:(?<=11);[^\x07\x1b]{0,60}\x1b?)?\Z")
_COLOUR = re.compile(r"(?:rgba?:|#)([0-9a-fA-F]{1,4})/?([0-9a-fA-F]{1,4})/?([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]+)?\Z")


class KeyParser(XTermParser):
    """A parser of keys that also reads the answer, while `awaited` returns True."""

    def __init__(self, awaited: Callable[[], bool], heard: Callable[[str], None], debug: bool = False) -> None:
        super().__init__(debug)
        self._awaited, self._on_background = awaited, heard
        self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        if "\x1b" in data:
            data = _OTHER_KEY.sub("\x1b[\\2;\\1u", data.replace(_META_ENTER, "\x1b[13;3u"))
        if data and self._awaited():
            data, self._held = self._held + data, ""
            if found := _ANSWER.search(data):
                self._on_background(found[1])
                data = data[: found.start()] + data[found.end() :]
            elif found := _BEGUN.search(data):
                data, self._held = data[: found.start()], data[found.start() :]
            if not data:
                return ()
        return super().feed(data)


class TerminalWriter(WriterThread):
    """Discards output when the terminal is closed. Textual's thread ends then, and a writer to its full queue would wait
    forever: the process would stay, with its session."""

    def run(self) -> None:
        try:
            super().run()
        except (OSError, ValueError):
            while self._queue.get() is not None:
                pass


class Listening(linux_driver.LinuxDriver):
    """The driver of a real terminal. While another program has the terminal, nothing is written to it."""

    _on_background: Callable[[bool], object] | None = None
    _asked = _lent = False

    def ask(self, heard: Callable[[bool], object]) -> None:
        """Ask once whether the background is light; `heard` is called on the input thread."""
        if self._asked or os.environ.get("TERM", "").startswith("linux"):
            return  # the console is dark, and writes what it does not know
        self._on_background, self._asked = heard, True
        self.write(QUERY)
        self.flush()

    def start_application_mode(self) -> None:
        linux_driver.WriterThread = TerminalWriter  # type: ignore[attr-defined]
        super().start_application_mode()  # type: ignore[no-untyped-call]  # it makes its writer by that name

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._lent = True

    def resume_application_mode(self) -> None:
        self._lent = False
        super().resume_application_mode()

    def write(self, data: str) -> None:
        if not self._lent:
            super().write(data)

    def run_input_thread(self) -> None:
        linux_driver.XTermParser = partial(KeyParser, lambda: self._on_background is not None, self._report_background)  # type: ignore[attr-defined, assignment]
        super().run_input_thread()  # which makes its parser by that name

    def _report_background(self, answer: str) -> None:
        heard, self._on_background = self._on_background, None
        light = is_light(answer)
        if heard is not None and light is not None:
            heard(light)


def is_light(colour: str) -> bool | None:
    """Whether a colour as terminals write it (`rgb:ffff/ffff/ffff`) is nearer to white than to black; None for no colour."""
    found = _COLOUR.match(colour.strip())
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
