"""Calls of tools in a transcript: one line that unfolds to arguments, result, diff or output.

Interface: `CallBlock(scene, run)`; `body(run, pen, width)` draws what is inside, also for a question's panel.
"""

from __future__ import annotations

import json
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.displays import CommandDisplay, DiffDisplay, TableDisplay, TextDisplay
from friday_cli.core.protocol.format import seconds
from friday_cli.core.text.sanitize import sanitize, sanitize_line, show_invisible
from friday_cli.tool_catalog import ASK_USER
from friday_cli.view import ToolRun

from .blocks import Block, RenderContext
from .diff import draw_diff, proposed
from .styles import TextRenderer, indented

PREVIEW, TAIL, MOST = 10, 3, 5_000
"""Lines of a diff while folded, of a running command's output, and of anything unfolded."""
MARKS = {
    "pending": "○", "waiting": "?", "running": "●", "ok": "✓", "error": "✗", "denied": "⊘", "cancelled": "■",
}  # fmt: skip


class CallBlock(Block):
    """A call that starts no agent."""

    kind = "call"
    compact = True

    def __init__(self, scene: RenderContext, run: ToolRun) -> None:
        super().__init__(scene)
        self._run = run

    def version(self) -> object:
        run = self._run
        output = run.output.end if run.output else 0
        clock = int(self.scene.now()) if run.status == "running" else 0
        return (self.open, run.status, run.title, output, run.display is None, len(run.text), clock)

    @property
    def done(self) -> bool:
        """Whether nothing more can come of it."""
        return self._run.status in ("ok", "error", "denied", "cancelled") and bool(self._run.text)

    def text(self) -> str:
        run = self._run
        inside = _inside(run) if self.open else ""
        return f"{run.tool} {_title(run)}\n{inside}".rstrip("\n")

    def folded_text(self) -> str:
        """What a search finds inside while it is folded."""
        return _inside(self._run)

    def toggle(self, at: int) -> bool:
        self.open = not self.open
        return True

    def wants(self, what: str) -> bool:
        return (what == "error" and self._run.status in ("error", "denied")) or (
            what == "question" and (self._run.status == "waiting" or self._run.tool == ASK_USER)
        )

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        run = self._run
        head = pen.line(_head(run, pen, self.scene.now(), self.open), width)
        inside = body(run, pen, width - 4) if self.open else preview(run, pen, width - 4)
        return [head, *indented(inside, "    ", "    ", pen.look.dim)]


def _title(run: ToolRun) -> str:
    """What it is done to, in a few words."""
    if run.title:
        return sanitize_line(run.title, 300)
    for key in ("path", "command", "pattern", "query", "url", "question", "profile"):
        if isinstance(value := run.arguments.get(key), str):
            return sanitize_line(value, 300)
    return ""


def _head(run: ToolRun, pen: TextRenderer, now: float, open_: bool) -> Text:
    look = pen.look
    color = {"ok": look.ok, "error": look.error, "denied": look.error, "waiting": look.warn, "running": look.accent}
    text = Text("▾ " if open_ else "▸ ", style=look.dim)
    text.append(MARKS[run.status] + " ", style=color.get(run.status, look.dim))
    text.append(sanitize_line(run.tool, 40), style="bold")
    if title := _title(run):
        text.append(f" {title}")
    tail = []
    if isinstance(run.display, DiffDisplay):
        tail.append(f"+{run.display.added} -{run.display.removed}")
    if isinstance(run.display, CommandDisplay) and run.display.exit_code:
        tail.append(f"exit {run.display.exit_code}")
    if run.status in ("waiting", "denied", "cancelled"):
        tail.append({"waiting": "waits for you"}.get(run.status, run.status))
    took = run.duration_s or (now - run.started if run.status == "running" and run.started else 0.0)
    if took >= 0.1:
        tail.append(seconds(took))
    text.append("".join(f" · {part}" for part in tail), style=look.warn if run.status == "waiting" else look.dim)
    return text


def preview(run: ToolRun, pen: TextRenderer, width: int) -> list[Strip]:
    """What is worth seeing of a folded call: a change, the end of running output, why it failed, what a person said."""
    look = pen.look
    if isinstance(run.display, DiffDisplay):
        return draw_diff(run.display.diff, pen, width, most=PREVIEW)
    if run.output is not None and run.status == "running":
        return pen.hard("\n".join(sanitize(run.output.text).rstrip().split("\n")[-TAIL:]), width, look.dim)[-TAIL:]
    if run.status in ("error", "denied"):
        last = [part for part in sanitize(run.text).strip().split("\n") if part.strip()][-TAIL:]
        return [pen.line(Text(part[:1000], style=look.error), width) for part in last]
    if run.tool == ASK_USER and run.text:
        return [pen.line(Text(f"└ {sanitize_line(run.text, 500)}", style=look.dim), width)]
    return []


def body(run: ToolRun, pen: TextRenderer, width: int) -> list[Strip]:
    """All of a call: its arguments, and what came of it."""
    out = arguments(run.arguments, pen, width, skip_long=isinstance(run.display, DiffDisplay))
    display, look = run.display, pen.look
    if isinstance(display, DiffDisplay):
        return [*out, *draw_diff(display.diff, pen, width, most=MOST)]
    if isinstance(display, CommandDisplay):
        end = "stopped" if display.exit_code is None else f"exit {display.exit_code}"
        tail = Text(
            f"→ {end}" + (f" · all of it: {sanitize_line(display.spill, 200)}" if display.spill else ""), style=look.dim
        )
        return [
            *out,
            *pen.hard(sanitize(display.output).rstrip("\n"), width, look.text, most=MOST),
            pen.line(tail, width),
        ]
    if isinstance(display, TableDisplay):
        return [*out, *_table(display, pen, width)]
    text = run.output.text if run.output else run.text
    if isinstance(display, TextDisplay) and len(display.text) > len(text):
        text = display.text
    style = look.error if run.status in ("error", "denied") else look.dim
    return [*out, *pen.hard(sanitize(text).rstrip("\n"), width, style, most=MOST)] if text else out


def wish(values: dict[str, Any], pen: TextRenderer, width: int) -> list[Strip]:
    """What a call would do: a change as a diff, all else as its arguments."""
    rest, diff = _change(values)
    return [*arguments(rest, pen, width), *draw_diff(diff, pen, width, most=MOST)]


def told(values: dict[str, Any]) -> list[str]:
    """As `wish`, in lines of plain text; hidden characters are spelled out."""
    rest, diff = _change(values)
    lines = [f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in rest.items()]
    return [
        show_invisible(text) for text in (*lines, *(part for part in diff.split("\n") if part and part[:2] != "@@"))
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _change(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments that are no change, and the change as a diff."""
    rest = dict(values)
    pairs = []
    for edit in rest["edits"] if isinstance(rest.get("edits"), list) else ():
        if isinstance(edit, dict) and isinstance(edit.get("old"), str) and isinstance(edit.get("new"), str):
            pairs.append((edit["old"], edit["new"]))
    if pairs and len(pairs) == len(rest["edits"]) and not any(edit.get("replace_all") for edit in rest["edits"]):
        del rest["edits"]
    else:
        pairs = []
    if isinstance(content := rest.get("content"), str):
        pairs.append(("", content))
        del rest["content"]
    return rest, proposed(pairs)


def arguments(values: dict[str, Any], pen: TextRenderer, width: int, *, skip_long: bool = False) -> list[Strip]:
    """The arguments of a call, a line for each short one; hidden characters are spelled out."""
    out: list[Strip] = []
    for name, value in values.items():
        text = show_invisible(value if isinstance(value, str) else _json(value))
        head = Text().append(f"{sanitize_line(name, 40)}:", style=pen.look.accent)
        if "\n" in text or head.cell_len + 1 + cell_len(text) > width:
            if skip_long:
                continue
            out.append(pen.line(head, width))
            out += indented(pen.hard(text.rstrip("\n"), width - 2, pen.look.text, most=MOST), "  ", "  ", pen.look.dim)
        else:
            out.append(pen.line(head.append(f" {text}"), width))
    return out


def _table(table: TableDisplay, pen: TextRenderer, width: int) -> list[Strip]:
    rows = [table.columns, *table.rows][: MOST + 1]
    cells = [[sanitize_line(cell, 60) for cell in row] for row in rows]
    widths = [max((cell_len(row[i]) for row in cells if i < len(row)), default=0) for i in range(len(table.columns))]
    out = []
    for number, row in enumerate(cells):
        text = "  ".join(set_cell_size(cell, size) for cell, size in zip(row, widths, strict=False))
        out.append(pen.line(Text(text.rstrip(), style="bold" if number == 0 else ""), width))
    return out


def _inside(run: ToolRun) -> str:
    parts = [json.dumps(run.arguments, ensure_ascii=False)]
    match run.display:
        case DiffDisplay():
            parts.append(run.display.diff)
        case CommandDisplay():
            parts.append(run.display.output)
        case _:
            parts.append(run.text)
    return sanitize("\n".join(parts))
