"""The progress of a batch: one live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.map.report import progress_cells, progress_text
from friday_cli.map.scheduler import Progress

from .output import read_confirmation, remark, show_question

EVERY_S = 10.0
"""Seconds between two plain lines."""
SILENT_S = 1.0
"""Seconds of reading items before it is shown."""
REDRAW_S = 0.2


class PlainFrontend:
    """Implements `MapFrontend` with lines on standard error."""

    def __init__(self, *, yes: bool) -> None:
        self._yes, self._last = yes, time.monotonic() + SILENT_S - EVERY_S
        self._asking: asyncio.Future[bool] | None = None
        self._shown: tuple[int, int, str] | None = None

    def note(self, text: str) -> None:
        remark(text)

    def reading(self, what: str, count: int) -> None:
        """Show how much was read of what the batch is made of."""
        if time.monotonic() - self._last >= EVERY_S:
            self._last = time.monotonic()
            remark(f"reading the {what}: {count:,} so far")

    def can_confirm(self, about: str) -> None:
        if not self._yes and not (sys.stdin is not None and sys.stdin.isatty()):
            raise UsageError(
                f"Nothing was started: this needs your confirmation, and there is no terminal to ask in. {about}.",
                hint="Add --yes to confirm.",
            )

    async def confirm(self, question: str) -> bool:
        self.note(question)
        return self._yes or await self._ask("Run them?", otherwise="No more items are started")

    async def cancel_at_service(self, count: int) -> bool:
        """Ask whether the requests that wait at the service are cancelled there."""
        if self._yes or sys.stdin is None or not sys.stdin.isatty():
            return False
        question = (
            f"{count:,} requests wait at the service. Cancel them there? No: the same command collects them later"
        )
        return await self._ask(question, otherwise="They stay at the service")

    def withdraw(self) -> bool:
        """End the open question with no. Whether there was one."""
        asking = self._asking
        if asking is None or not self._asks:
            return False
        asking.set_result(False)
        print(file=sys.stderr)
        return True

    @property
    def _asks(self) -> bool:
        """Whether a question is open: no progress is drawn over it."""
        return self._asking is not None and not self._asking.done()

    async def _ask(self, question: str, *, otherwise: str) -> bool:
        """Ask a yes-or-no question; the event loop turns until it is answered or withdrawn."""
        self.close()
        loop = asyncio.get_running_loop()
        asking = self._asking = loop.create_future()
        show_question(question)
        loop.add_reader(sys.stdin, lambda: None if asking.done() else asking.set_result(True))
        try:
            return await asking and read_confirmation(otherwise)
        finally:
            loop.remove_reader(sys.stdin)

    def progress(self, progress: Progress, left: int) -> None:
        now, shown = time.monotonic(), (progress.ended, progress.running, progress.trouble)
        if not self._asks and shown != self._shown and (progress.ended >= left or now - self._last >= EVERY_S):
            self._last, self._shown = now, shown
            remark(progress_text(progress, left))

    def close(self) -> None:
        pass


class TableFrontend(PlainFrontend):
    """Implements `MapFrontend` with a table that is redrawn in place."""

    def __init__(self, *, yes: bool) -> None:
        super().__init__(yes=yes)
        self._live: Any = None
        self._line, self._redraw = False, time.monotonic() + SILENT_S

    def reading(self, what: str, count: int) -> None:
        if (now := time.monotonic()) >= self._redraw:
            self._redraw, self._line = now + REDRAW_S, True
            print(f"\r\x1b[Kreading the {what}: {count:,} so far", end="", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self.close()
        super().note(text)

    def progress(self, progress: Progress, left: int) -> None:
        if self._asks:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        cells = progress_cells(progress, left)
        table = Table(*(name for name, _ in cells), box=None, pad_edge=False)
        table.add_row(*(Text(sanitize_line(value, 40)) for _, value in cells))
        if self._live is None:
            self.close()
            self._live = Live(table, console=Console(stderr=True), refresh_per_second=4)
            self._live.start()
        else:
            self._live.update(table)

    def close(self) -> None:
        if self._line:
            self._line = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()


def progress_frontend(*, yes: bool) -> PlainFrontend:
    """How a batch shows its progress here."""
    return TableFrontend(yes=yes) if sys.stderr is not None and sys.stderr.isatty() else PlainFrontend(yes=yes)
