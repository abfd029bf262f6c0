"""A terminal driver that asks for the colour of the background and whether the terminal reads reports of the program's status,
and that reads keys that Textual does not know.

The answers are removed from the keys. Nothing waits for them: a terminal may never answer.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.message import Message

from friday_cli.system.ascii_signs import is_linux_console, to_signs
from friday_cli.system.blocked_process import BlockedWatch

from .bursts import QUIET_S, Bursts, Pasted

QUERIES = {"11": "\x1b]11;?\x07", "7501": "\x1b]7501;?\x1b\\"}
"""What asks for the colour of the background, and whether OSC 7501 is read, by the number that the answer begins with too."""
READ_BYTES = 65_536
"""Bytes read from the terminal at once."""
_ANSWER = re.compile(r"\x1b\](11|7501);([^\x07\x1b]{0,60})(?:\x07|\x1b\\)")
_META_ENTER = "\x1b\r"
"""Alt+Enter of a terminal without the newer protocol of keys: Textual reads Enter."""
_OTHER_KEY = re.compile(r"\x1b\[27;(\d{1,3});(\d{1,7})~")
"""A key with modifiers as xterm writes it (modifyOtherKeys; tmux, too), in the order of kitty's form the other way round."""
_BEGUN = re.compile(r"\x1b\](?:11?|75?0?1?|(?:11|7501);[^\x07\x1b]{0,60}\x1b?)\Z")
_COLOUR = re.compile(r"(?:rgba?:|#)([0-9a-fA-F]{1,4})/?([0-9a-fA-F]{1,4})/?([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]+)?\Z")


class KeyParser(XTermParser):
    """A parser of keys that also reads answers. `awaited`: what is called with each, by its number; an answer is removed from it."""

    def __init__(self, awaited: dict[str, Callable[[str], object]], debug: bool = False) -> None:
        super().__init__(debug)
        self._awaited = awaited
        self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        if "\x1b" in data:
            data = _OTHER_KEY.sub("\x1b[\\2;\\1u", data.replace(_META_ENTER, "\x1b[13;3u"))
        if data and (self._awaited or self._held):
            data, self._held = _ANSWER.sub(self._take, self._held + data), ""
            if self._awaited and (found := _BEGUN.search(data)):
                data, self._held = data[: found.start()], data[found.start() :]
            if not data:
                return ()
        return super().feed(data)

    def _take(self, found: re.Match[str]) -> str:
        on_answer = self._awaited.pop(found[1], None)
        if on_answer is None:
            return found[0]
        on_answer(found[2])
        return ""


class TerminalWriter(WriterThread):
    """Discards output when the terminal is closed. Textual's thread ends then, and a writer to its full queue would wait
    forever: the process would stay, with its session."""

    def run(self) -> None:
        try:
            super().run()
        except (OSError, ValueError):
            while self._queue.get() is not None:
                pass

    def stop(self) -> None:
        if self.ident is not None:  # else the system started no more threads
            super().stop()


class Listening(linux_driver.LinuxDriver):
    """The driver of a real terminal. While another program has the terminal, nothing is written to it."""

    _lent = False
    _watch: BlockedWatch | None = None

    def __init__(self, *args: Any, on_closed: Callable[[], object], **more: Any) -> None:
        """`on_closed` is called on the event loop when the terminal is closed."""
        self._handlers = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
        super().__init__(*args, **more)
        self._on_closed = on_closed
        self._awaited: dict[str, Callable[[str], object]] = {}
        self._asked: set[str] = set()
        self._ascii_signs = is_linux_console(os.environ)

    def ask(self, number: str, on_answer: Callable[[str], object]) -> None:
        """Ask one of `QUERIES`, once; `on_answer` is called on the input thread."""
        if number in self._asked or is_linux_console(os.environ):
            return  # the console writes what it does not know
        self._asked.add(number)
        self._awaited[number] = on_answer
        self.write(QUERIES[number])
        self.flush()

    def start_application_mode(self) -> None:
        linux_driver.WriterThread = TerminalWriter  # type: ignore[attr-defined]
        super().start_application_mode()  # type: ignore[no-untyped-call]  # it makes its writer by that name
        self._watch = self._watch or BlockedWatch(tell=self._show, restore=self._give_back)

    def suspend_application_mode(self) -> None:
        self.stop_application_mode()
        super().close()
        self._lent = True

    def resume_application_mode(self) -> None:
        self._lent = False
        super().resume_application_mode()

    def close(self) -> None:
        """Leave the terminal for good: a process that is stopped and continued later has no screen to show again."""
        super().close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def write(self, data: str) -> None:
        if not self._lent:
            super().write(to_signs(data) if self._ascii_signs else data)

    def _show(self, text: str) -> None:
        """Write a text over the last line while the event loop is blocked; "" has the screen drawn again."""
        if text:
            columns, lines = self._get_terminal_size()
            self.write(f"\x1b7\x1b[{lines};1H\x1b[7m{f'Friday {text}'[:columns]:{columns}}\x1b[0m\x1b8")
        else:
            self._loop.call_soon_threadsafe(partial(self._app.refresh, layout=True))

    def _give_back(self) -> None:
        """Restore the terminal while the event loop is blocked."""
        self._disable_mouse_support()
        self.stop_application_mode()
        super().close()  # signals are set on the main thread only

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after a stop. A closed window sends the same signal, with nothing to take; and where nobody
        gave the terminal back before the stop, a second thread would read the keys."""
        if self._auto_restart and not self._must_signal_resume:
            if not os.isatty(self.fileno):
                return
            self.suspend_application_mode()
        super()._sigcont_application()

    def run_input_thread(self) -> None:
        """Read keys and pastes until `exit_event`. Where the terminal is closed, the app is told, and the thread ends."""
        parser, bursts = KeyParser(self._awaited, self._debug), Bursts()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            typed_before = bool(selector.select(0))
            while not self.exit_event.is_set():
                if not selector.select(QUIET_S if bursts.waiting else 0.1):
                    self._dispatch(parser, bursts.end())
                    continue
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except OSError:
                    data = b""
                if not data:
                    self._loop.call_soon_threadsafe(self._on_closed)
                    return
                if typed_before:  # the terminal made a line feed of Enter until Friday took it
                    data, typed_before = data.replace(b"\n", b"\r"), False
                self._dispatch(parser, bursts.feed(decode(data), time.monotonic()))
            self._dispatch(parser, bursts.end())

    def _dispatch(self, parser: KeyParser, found: Iterable[str | Pasted]) -> None:
        for piece in found:
            if isinstance(piece, Pasted):
                self.process_message(events.Paste(piece.text))
            else:
                for message in parser.feed(piece):
                    if self._watch is not None and isinstance(message, events.Key) and message.key == "ctrl+c":
                        self._watch.press()
                    self.process_message(message)
        for message in parser.tick():
            self.process_message(message)


def is_light(colour: str) -> bool | None:
    """Whether a colour as terminals write it (`rgb:ffff/ffff/ffff`) is nearer to white than to black; None for no colour."""
    found = _COLOUR.match(colour.strip())
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
