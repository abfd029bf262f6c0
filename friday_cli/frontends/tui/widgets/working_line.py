"""What the main agent does now, above the prompt: its list of steps, and one line with the time, the tokens and the key that
stops it. It takes no row while nothing runs."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.format import seconds, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import TODO
from friday_cli.view import AgentView
from friday_cli.view.tree import activity_text

from .blocks import RenderContext
from .styles import Styles

MAX_STEPS, LOW = 6, 24
"""Steps that are shown at once, and rows of a screen below which only the active one is."""
MARKS = {"done": "✓", "active": "▸", "pending": "○"}


class WorkingLine(Static):
    """The line above the prompt that says what the main agent is doing, for how long and at what cost."""

    _shown: Text | None = None

    def follow(self, context: RenderContext, key: str) -> None:
        """Show what is new. `key` stops the run."""
        root = context.state.root
        self.display = root is not None and root.run > 0 and not root.ended  # the mode can change before the first run
        if root is None or not self.display:
            return
        lines = [*self._steps(context, root), self._line(context, root, key)]
        text = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
        if text != self._shown:
            rows = self._shown.plain.count("\n") if self._shown is not None else -1
            self._shown = text
            self.update(text, layout=rows != text.plain.count("\n"))

    def _line(self, context: RenderContext, root: AgentView, key: str) -> Text:
        styles = context.renderer.styles
        what = "waits for you" if root.asks else activity_text(context.state, root, context.now())
        used = context.state.usage_of(root.path)
        new = max(used.billed - context.state.used_before.billed, 0)
        # while all wait for a person no clock runs here: seconds would stand still
        parts = [seconds(max(context.now() - root.asked_at, 0.0))] if context.state.moves else []
        parts += [f"{tokens(Usage(output=new, estimated=used.estimated))} tok"] if new else []
        text = Text("✶ ", style=styles.accent)
        text.append(sanitize_line(what, 200), style=styles.text)
        room = max(self.app.size.width - 4 - len(" · ".join([*parts, key])) - 3, 8)
        text.truncate(room, overflow="ellipsis")
        return text.append(f" · {' · '.join([*parts, key])}", style=styles.dim)

    def _steps(self, context: RenderContext, root: AgentView) -> list[Text]:
        """The steps around the active one, those of the newest list."""
        calls = (run for run in reversed(root.calls.values()) if run.tool == TODO and run.status == "ok")
        shown = next((run.display for run in calls), None)
        rows = shown.rows if isinstance(shown, TableDisplay) else ()
        if not rows or all(row[0] == "done" for row in rows):
            return []
        most = 1 if self.app.size.height < LOW or context.state.asks else MAX_STEPS
        at = next((n for n, row in enumerate(rows) if row[0] != "done"), 0)
        first = max(min(at - most // 3, len(rows) - most), 0)
        styles = context.renderer.styles
        lines = [_step(row[0], row[1], styles) for row in rows[first : first + most]]
        if len(rows) > most:
            done = sum(row[0] == "done" for row in rows)
            lines[-1].append(f"  ({done} of {len(rows)} done)", style=styles.dim)
        return lines


def _step(status: str, text: str, styles: Styles) -> Text:
    style = {"done": styles.dim, "active": styles.accent}.get(status, styles.text)
    return Text(f"{MARKS.get(status, '○')} {sanitize_line(text, 300)}", style=style)
