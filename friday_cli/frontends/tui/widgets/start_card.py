"""What stands above an empty chat: the version, the folder, the model, the last session here, and three tips."""

from __future__ import annotations

import time
from pathlib import Path

from rich.text import Text
from textual import work
from textual.widgets import Static

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session import lists

from .status_bar import StatusFacts

_TIPS = (
    "/ commands · @ files · ! a shell command · # a note",
    'Ask for sub-agents: "let three sub-agents compare ..."',
)


class StartCard(Static):
    """The card above an empty chat: version, folder, model, last session and tips. `keys` is a tip that names keys."""

    def __init__(self, cwd: Path, keys: str) -> None:
        super().__init__(id="start")
        self._cwd, self._keys = cwd, keys
        self._last = ""
        self._facts = StatusFacts()

    def on_mount(self) -> None:
        self._read_last()

    def follow(self, facts: StatusFacts) -> None:
        """Show what is so now."""
        shown, self._facts = self._facts, facts
        if (shown.branch, shown.model, shown.mode, shown.sandbox) != (
            facts.branch,
            facts.model,
            facts.mode,
            facts.sandbox,
        ):
            self._draw()

    @work
    async def _read_last(self) -> None:
        try:
            row = await lists.last_conversation(self._cwd)
        except FridayError:  # opening the session said what is wrong with the file
            return
        if row is not None:
            when = time.strftime("%d %b %H:%M", time.localtime(row.updated))
            self._last = f"Last here, {when} (/resume): {sanitize_line(row.title, 60)}"
            self._draw()

    def _draw(self) -> None:
        facts, text = self._facts, Text()
        text.append(f"Friday {__version__}\n", style="bold")
        text.append(f"{sanitize_line(facts.folder, 200)}{f' ({facts.branch})' if facts.branch else ''}\n")
        now = [facts.badge or facts.model, f"mode {facts.mode}", f"sandbox {facts.sandbox}" if facts.sandbox else ""]
        text.append(" · ".join(part for part in now if part) + "\n")
        text.append(f"{self._last}\n" if self._last else "")
        text.append("\n" + "\n".join((*_TIPS, self._keys)), style="dim")
        self.update(text)
