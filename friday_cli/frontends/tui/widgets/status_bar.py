"""The line at the bottom: mode, agents, cost, context, model, folder, and a hint about the keys."""

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


@dataclass(frozen=True)
class StatusFacts:
    """The facts in the status line. `context` is the used share of the context window (0 to 1) and `free` the tokens left of it,
    None if unknown. `badge` marks a model that is not an AI model. `sandbox` names the sandbox of commands. `offline`:
    what all wait for: a connection, or a cap over all sessions; "" for neither."""

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
    offline: str = ""
    asks: int = 0
    compacting: bool = False
    hint: str = ""


class StatusLine(Static):
    """The line at the bottom: mode, agents, cost, context, model, folder, and a hint about keys."""

    _shown: tuple[object, ...] = ()

    def show(self, facts: StatusFacts, styles: Styles) -> None:
        """Show `facts`. Nothing is drawn if they are the same as before."""
        key = (facts, styles, self.size.width)
        if key != self._shown:
            self._shown = key
            self.update(draw_line(facts, styles, self.size.width or 80), layout=False)


def short_count(count: int) -> str:
    """A number of tokens in few cells: 950, 12k, 1.0M."""
    return str(count) if count < 1_000 else f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def draw_line(facts: StatusFacts, styles: Styles, width: int) -> Text:
    """The line in `width` cells: the most important parts first, as many as fit beside the hint."""
    parts: list[Text] = []

    def add(text: str, style: Style | str = styles.dim) -> None:
        if text:
            parts.append(Text(text, style=style))

    unsafe = facts.sandbox == "none" and facts.mode == "auto"
    mode_style = getattr(styles, MODE_STYLES.get(facts.mode, "dim"))
    add(f" {facts.mode} ", mode_style + styles.cursor if facts.mode else styles.dim)
    if facts.badge:
        add(sanitize_line(facts.badge, 40), styles.warn)
    if unsafe:
        add("sandbox: none", styles.warn)
    if facts.asks:
        add(f"{facts.asks} need{'s' if facts.asks == 1 else ''} you", styles.warn)
    add(facts.offline, styles.warn)
    if facts.compacting:
        add("compacting", styles.accent)
    required = len(parts)
    if facts.running or facts.waiting:
        agents = f"{pluralize(facts.running, 'agent')} at work" if facts.running else ""
        agents += ("" if not agents else ", ") + f"{facts.waiting} waiting" if facts.waiting else ""
        add(agents, styles.accent)
        required += not facts.asks  # the keys of a question tell more than who waits for it
    add(facts.cost)
    if facts.context is not None:
        style = styles.dim if facts.context < 0.7 else styles.warn if facts.context < 0.85 else styles.error
        left = f" ({short_count(facts.free)} free)" if facts.free is not None and width >= 90 else ""
        add(f"context {facts.context:.0%}{left}", style)
    if not facts.badge:
        add(sanitize_line(facts.model, 40))
    if not unsafe:
        add(facts.sandbox and f"sandbox: {facts.sandbox}")
    add(sanitize_line(facts.folder, 40) + (f" ⎇ {sanitize_line(facts.branch, 30)}" if facts.branch else ""))
    out = Text(no_wrap=True, overflow="ellipsis")
    hint_text = facts.hint
    while width < 80 and cell_len(hint_text) > width // 2 and " · " in hint_text:
        hint_text = hint_text.rpartition(" · ")[0]
    hint = Text(hint_text, style=styles.dim, no_wrap=True, overflow="ellipsis")
    reserved = hint.cell_len + 2 if width >= 80 or hint.cell_len <= width // 2 else 0
    for number, part in enumerate(parts):
        gap = " · " if out and not out.plain.endswith(" ") else " " if out else ""
        if out.cell_len + len(gap) + part.cell_len > width - (reserved if number >= required else 0):
            continue
        out.append(gap, style=styles.dim)
        out.append_text(part)
    free = width - out.cell_len - 1
    while hint.cell_len > free - 1 and " · " in hint.plain:
        hint = Text(hint.plain.rpartition(" · ")[0], style=styles.dim, no_wrap=True, overflow="ellipsis")
    if free > hint.cell_len:
        out.append(" " * (free - hint.cell_len))
        out.append_text(hint)
    return out
