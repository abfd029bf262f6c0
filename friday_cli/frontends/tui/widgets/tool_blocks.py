"""Tool calls in a transcript: one line that unfolds to arguments, result, diff or output.

The approval panel draws the arguments of a call with `draw_request`.
"""

from __future__ import annotations

import json
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.displays import CommandDisplay, DiffDisplay, TableDisplay, TextDisplay
from friday_cli.core.protocol.format import pluralize, size
from friday_cli.core.protocol.tool_info import ASK_USER, MAP_TASKS, RESULT_FIELDS, TASK_RESULT
from friday_cli.core.text.sanitize import sanitize, sanitize_line, show_invisible
from friday_cli.view import CALL_MARKS, ToolRun
from friday_cli.view.words import call_facts, call_time, exit_text, hidden_failure

from .blocks import Block, RenderContext
from .diff import diff_of, draw_diff
from .styles import TextRenderer, indented

OUTPUT_TAIL, ERROR_TAIL = 5, 10
"""Rows of the end of a command's output that stay visible: of one that went well, and of one that failed."""
TITLE_LEAST = 12
"""Cells that the title of a call keeps where its row is short."""
PREVIEW, TAIL, MOST = 10, 3, 5_000
"""Lines shown of a folded diff, of the output of a running command, and at most of anything unfolded."""


class CallBlock(Block):
    """A tool call that starts no agent."""

    compact = True

    def __init__(self, context: RenderContext, run: ToolRun) -> None:
        super().__init__(context)
        self._run = run

    def version(self) -> object:
        run = self._run
        output = run.output.end if run.output else 0
        clock = int(self.context.now()) if run.status == "running" else 0
        return (self.open, run.status, run.title, output, run.display is None, len(run.text), run.images, clock)

    @property
    def done(self) -> bool:
        """Whether the call has ended and its result is known."""
        return self._run.status in ("ok", "error", "denied", "cancelled") and bool(self._run.text)

    def text(self) -> str:
        run = self._run
        details = _details_text(run) if self.open else ""
        return f"{run.label} {_title(run)}\n{details}".rstrip("\n")

    def folded_text(self) -> str:
        return _details_text(self._run)

    def _folds_at(self, at: int) -> bool:
        return True

    def matches(self, what: str) -> bool:
        status = self._run.status
        if what == "error":
            return status in ("error", "denied")
        return what == "question" and (status == "waiting" or self._run.tool == ASK_USER)

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        run = self._run
        head = renderer.line(_head(run, renderer, self.context.now(), self.open, width), width)
        details = body(run, renderer, width - 4) if self.open else preview(run, renderer, width - 4)
        return [head, *indented(details, "    ", "    ", renderer.styles.dim)]


def _title(run: ToolRun) -> str:
    """What the call works on: its title, or its main argument."""
    if run.title:
        return sanitize_line(run.title, 300)
    for key in ("path", "command", "pattern", "query", "url", "question", "profile"):
        if isinstance(value := run.arguments.get(key), str):
            return sanitize_line(value, 300)
    return ""


def _head(run: ToolRun, renderer: TextRenderer, now: float, open_: bool, width: int) -> Text:
    """The row of a call. Where it is too long, its title is cut, not how it ended."""
    styles = renderer.styles
    color = {
        "ok": styles.ok,
        "error": styles.error,
        "denied": styles.error,
        "waiting": styles.warn,
        "running": styles.accent,
    }
    text = Text("▾ " if open_ else "▸ ", style=styles.dim)
    hidden = run.display.exit_of if isinstance(run.display, CommandDisplay) else ""
    text.append(*(("! ", styles.warn) if hidden else (CALL_MARKS[run.status] + " ", color.get(run.status, styles.dim))))
    text.append(sanitize_line(run.label, 60), style="bold")
    facts = Text(
        "".join(f" · {part}" for part in (*call_facts(run), *call_time(run, now))),
        style=styles.warn if run.status == "waiting" else styles.dim,
    )
    if name := _title(run):
        title = Text(f" {name}")
        title.truncate(max(width - text.cell_len - facts.cell_len, TITLE_LEAST), overflow="ellipsis")
        text.append_text(title)
    return text.append_text(facts)


def preview(run: ToolRun, renderer: TextRenderer, width: int) -> list[Strip]:
    """Lines below a folded call: a change, the end of running output, an error, or the answer of the user."""
    styles = renderer.styles
    if isinstance(run.display, DiffDisplay):
        return draw_diff(run.display.diff, renderer, width, most=PREVIEW, path=run.display.path)
    if run.output is not None and run.status == "running":
        last = sanitize(run.output.text).rstrip().split("\n")[-TAIL:]
        if run.tool == MAP_TASKS:  # each line of its progress replaces the one before
            return [renderer.line(Text(last[-1], style=styles.dim), width)]
        return renderer.hard("\n".join(last), width, styles.dim)[-TAIL:]
    if isinstance(run.display, CommandDisplay) and run.status in ("ok", "error"):
        lines = (
            sanitize(run.display.output).rstrip().split("\n")[-(ERROR_TAIL if run.status == "error" else OUTPUT_TAIL) :]
        )
        style = styles.error if run.status == "error" else styles.dim
        shown = renderer.hard("\n".join(lines), width, style)[-len(lines) :] if any(lines) else []
        if words := hidden_failure(run.display):
            shown += renderer.wrap(Text(f"! {words}", style=styles.warn), width)
        return shown
    if run.status in ("error", "denied"):
        last = [part for part in sanitize(run.text).strip().split("\n") if part.strip()][-TAIL:]
        texts = (Text(part[:1000], style=styles.error) for part in last)
        rows = [row for text in texts for row in text.wrap(renderer.console, width, overflow="fold")]
        return [renderer.line(row, width) for row in rows[:TAIL]]
    if run.tool in (ASK_USER, MAP_TASKS) and run.text:
        first = run.text if run.tool == ASK_USER else run.text.partition("\n")[0]
        return [
            *_plan(run, renderer, width),
            renderer.line(Text(f"└ {sanitize_line(first, 500)}", style=styles.dim), width),
        ]
    return []


def _plan(run: ToolRun, renderer: TextRenderer, width: int) -> list[Strip]:
    """The plan that a call handed in; nothing for any other call."""
    plan = run.arguments.get("plan") if run.tool == ASK_USER else None
    if not isinstance(plan, str) or not plan.strip():
        return []
    from . import markdown  # takes 30 ms

    return markdown.draw(plan, renderer, width)


def body(run: ToolRun, renderer: TextRenderer, width: int) -> list[Strip]:
    """The whole call: its arguments and its result. The result in a call of `task_result` is Markdown."""
    values, out = dict(run.arguments), []
    result = next((name for name in RESULT_FIELDS if isinstance(values.get(name), str)), "")
    if run.tool == TASK_RESULT and result:
        from . import markdown  # takes 30 ms; the first screen does not need it

        out = markdown.draw(values.pop(result), renderer, width)
    out += arguments(values, renderer, width, skip_long=isinstance(run.display, DiffDisplay))
    display, styles = run.display, renderer.styles
    if isinstance(display, DiffDisplay):
        return [*out, *draw_diff(display.diff, renderer, width, most=MOST, path=display.path)]
    if isinstance(display, CommandDisplay):
        end = exit_text(display.exit_code)
        spill = f" · all of it: {sanitize_line(display.spill, 200)}" if display.spill else ""
        lines = renderer.hard(sanitize(display.output).rstrip("\n"), width, styles.text, most=MOST)
        return [*out, *lines, renderer.line(Text(f"→ {end}{spill}", style=styles.dim), width)]
    if isinstance(display, TableDisplay):
        return [*out, *_table(display, renderer, width)]
    text = run.output.text if run.output else run.text
    if isinstance(display, TextDisplay) and len(display.text) > len(text):
        text = display.text
    style = styles.error if run.status in ("error", "denied") else styles.dim
    return [*out, *renderer.hard(sanitize(text).rstrip("\n"), width, style, most=MOST)] if text else out


def draw_request(values: dict[str, Any], renderer: TextRenderer, width: int) -> list[Strip]:
    """The arguments of a call that has not run: a change as a diff, the others as they are."""
    rest, diff = _split_change(values)
    return [*arguments(rest, renderer, width), *draw_diff(diff, renderer, width, most=MOST)]


def _created(change: DiffDisplay) -> str:
    """What is known of a file that would be made, "" for a change of one that exists."""
    return "" if change.created is None else f"New file: {pluralize(change.added, 'line')}, {size(change.created)}"


def change_lines(change: DiffDisplay) -> list[str]:
    """As `draw_change`, in lines of plain text; invisible characters are spelled out."""
    lines = [line for line in change.diff.split("\n") if line]
    return [*filter(None, (_created(change),)), *map(show_invisible, lines)]


def draw_change(change: DiffDisplay, renderer: TextRenderer, width: int) -> list[Strip]:
    """What a call that has not run would change in its file, as its result will show it."""
    words = _created(change)
    head = [renderer.line(Text(words, style=renderer.styles.accent), width)] if words else []
    return [*head, *draw_diff(change.diff, renderer, width, most=MOST, path=change.path)]


def request_lines(values: dict[str, Any]) -> list[str]:
    """As `draw_request`, in lines of plain text; invisible characters are spelled out."""
    rest, diff = _split_change(values)
    lines = [f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in rest.items()]
    lines += [line for line in diff.split("\n") if line and line[:2] != "@@"]
    return [show_invisible(line) for line in lines]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _split_change(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments that are not a change, and the change as a diff."""
    rest, pairs = dict(values), []
    edits = rest["edits"] if isinstance(rest.get("edits"), list) else []
    for edit in edits:
        match edit:
            case {"old": str(old), "new": str(new)} if not edit.get("replace_all"):
                pairs.append((old, new))
    if pairs and len(pairs) == len(edits):
        del rest["edits"]
    else:
        pairs = []
    if isinstance(content := rest.get("content"), str):
        pairs.append(("", content))
        del rest["content"]
    return rest, diff_of(pairs)


def arguments(values: dict[str, Any], renderer: TextRenderer, width: int, *, skip_long: bool = False) -> list[Strip]:
    """The arguments of a call, one line for each short one; invisible characters are spelled out."""
    out: list[Strip] = []
    for name, value in values.items():
        text = show_invisible(value if isinstance(value, str) else _json(value))
        head = Text().append(f"{sanitize_line(name, 40)}:", style=renderer.styles.accent)
        if "\n" in text or head.cell_len + 1 + cell_len(text) > width:
            if skip_long:
                continue
            out.append(renderer.line(head, width))
            lines = renderer.hard(text.rstrip("\n"), width - 2, renderer.styles.text, most=MOST)
            out += indented(lines, "  ", "  ", renderer.styles.dim)
        else:
            out.append(renderer.line(head.append(f" {text}"), width))
    return out


def _table(table: TableDisplay, renderer: TextRenderer, width: int) -> list[Strip]:
    rows = [table.columns, *table.rows][: MOST + 1]
    cells = [[sanitize_line(cell, 60) for cell in row] for row in rows]
    widths = [max((cell_len(row[i]) for row in cells if i < len(row)), default=0) for i in range(len(table.columns))]
    out = []
    for number, row in enumerate(cells):
        text = "  ".join(set_cell_size(cell, size) for cell, size in zip(row, widths, strict=False))
        out.append(renderer.line(Text(text.rstrip(), style="bold" if number == 0 else ""), width))
    return out


def _details_text(run: ToolRun) -> str:
    """The text that a search finds in the unfolded call."""
    result = run.text
    if isinstance(run.display, DiffDisplay):
        result = run.display.diff
    elif isinstance(run.display, CommandDisplay):
        result = run.display.output
    return sanitize(f"{_json(run.arguments)}\n{result}")
