"""The line at the bottom: where, with what, how much of it is used, who works, and the key that matters now.

Interface: `StatusLine`, `tell(facts)`; `Facts` is plain data; `drawn(facts, styles, width)` is the line itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line

from .styles import Styles

MODE_STYLES = {"ask": "accent", "edits": "warn", "plan": "ok", "auto": "warn", "yolo": "error"}

LEAST = 12
"""Columns that are worth a hint."""


@dataclass(frozen=True)
class StatusFacts:
    """What the line says. `context` is the used share of the window (0 to 1) and `free` the tokens left of it, None when
    unknown; `badge` marks a model that is none; `sandbox` names what confines commands."""

    folder: str = ""
    branch: str = ""
    model: str = ""
    badge: str = ""
    mode: str = ""
    sandbox: str = ""
    context: float | None = None
    free: int | None = None
    cost: str = ""
    running: int = 0
    waiting: int = 0
    asks: int = 0
    compacting: bool = False
    hint: str = ""


class StatusLine(Static):
    """See the module."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[object, ...] = ()

    def tell(self, facts: StatusFacts, styles: Styles) -> None:
        """Show `facts`; nothing is drawn when they are the same."""
        key = (facts, styles, self.size.width)
        if key != self._shown:
            self._shown = key
            self.update(drawn(facts, styles, self.size.width or 80), layout=False)


def short(count: int) -> str:
    """A number of tokens in few characters: 950, 12k, 1.0M."""
    return str(count) if count < 1_000 else f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def drawn(facts: StatusFacts, styles: Styles, width: int) -> Text:
    """The line: what matters first, as far as there is room beside the hint."""
    parts: list[Text] = []

    def add(text: str, style: Style | str = styles.dim) -> None:
        if text:
            parts.append(Text(text, style=style))

    unsafe = facts.sandbox == "none" and facts.mode == "auto"
    add(
        f" {facts.mode} ",
        getattr(styles, MODE_STYLES.get(facts.mode, "dim")) + styles.cursor if facts.mode else styles.dim,
    )
    if facts.badge:
        add(sanitize_line(facts.badge, 40), styles.warn)
    if unsafe:
        add("sandbox: none", styles.warn)
    if facts.asks:
        add(f"{facts.asks} need{'s' if facts.asks == 1 else ''} you", styles.warn)
    if facts.compacting:
        add("compacting", styles.accent)
    if facts.running or facts.waiting:
        words = f"{pluralize(facts.running, 'agent')} at work" if facts.running else ""
        words += ("" if not words else ", ") + f"{facts.waiting} waiting" if facts.waiting else ""
        add(words, styles.accent)
    must = len(parts)
    add(facts.cost)
    if facts.context is not None:
        style = styles.dim if facts.context < 0.7 else styles.warn if facts.context < 0.85 else styles.error
        left = f" ({short(facts.free)} free)" if facts.free is not None and width >= 90 else ""
        add(f"context {facts.context:.0%}{left}", style)
    if not facts.badge:
        add(sanitize_line(facts.model, 40))
    if not unsafe:
        add(facts.sandbox and f"sandbox: {facts.sandbox}")
    add(sanitize_line(facts.folder, 40) + (f" ⎇ {sanitize_line(facts.branch, 30)}" if facts.branch else ""))
    out = Text(no_wrap=True, overflow="ellipsis")
    words = facts.hint
    while width < 80 and cell_len(words) > width // 2 and " · " in words:
        words = words.rpartition(" · ")[0]
    hint = Text(words, style=styles.dim, no_wrap=True, overflow="ellipsis")
    held = hint.cell_len + 2 if width >= 80 or hint.cell_len <= width // 2 else 0
    for number, part in enumerate(parts):
        gap = " · " if out and not out.plain.endswith(" ") else " " if out else ""
        if out.cell_len + len(gap) + part.cell_len > width - (held if number >= must else 0):
            continue
        out.append(gap, style=styles.dim)
        out.append_text(part)
    room = width - out.cell_len - 1
    while hint.cell_len > room - 1 and " · " in hint.plain:
        hint = Text(hint.plain.rpartition(" · ")[0], style=styles.dim, no_wrap=True, overflow="ellipsis")
    if held and hint.cell_len > room - 1 >= LEAST:
        hint.truncate(room - 1, overflow="ellipsis")
    if room > hint.cell_len:
        out.append(" " * (room - hint.cell_len))
        out.append_text(hint)
    return out
