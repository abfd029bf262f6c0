"""A command that the user ran with `!`: the end of its output while it runs, all of it when unfolded."""

from __future__ import annotations

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.text.sanitize import sanitize, sanitize_line

from .blocks import Block, RenderContext
from .styles import TextRenderer, indented

TAIL, HEAD, MOST = 8, 20, 5_000
"""Lines shown while it runs, while an ended one is folded, and at most."""
MAX_OUTPUT = 200_000
"""Characters of output that are kept: the last ones."""


class ShellBlock(Block):
    """A command that the user ran with `!`, and its output. `output` is put into it as it comes; `end` closes it."""

    def __init__(self, context: RenderContext, command: str, *, kept: bool = True) -> None:
        super().__init__(context)
        self._command = command
        self._mark = "!" if kept else "!!"
        """What the user typed: with `!!` the agent does not see the command."""
        self._output = ""
        self._end = ""

    def put(self, text: str) -> None:
        """Append output."""
        self._output = (self._output + text)[-MAX_OUTPUT:]

    def end(self, how: str, output: str) -> None:
        """Show how the command ended, such as "exit 0", and its whole output."""
        self._end, self._output = how, output[-MAX_OUTPUT:]

    def version(self) -> object:
        return (self.open, self._end, len(self._output), self._output[-20:])

    @property
    def done(self) -> bool:
        return bool(self._end)

    def text(self) -> str:
        return f"{self._mark} {self._command}\n{sanitize(self._output)}"

    def matches(self, what: str) -> bool:
        return what == "error" and self._end not in ("", "exit 0")

    def _folds_at(self, at: int) -> bool:
        return True

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        styles = renderer.styles
        head = Text(f"{self._mark} ", style=styles.accent).append(sanitize_line(self._command, 300), style="bold")
        head.append(f" · {self._end or 'running; Esc stops it'}", style=styles.dim)
        lines = sanitize(self._output).rstrip("\n").split("\n") if self._output.strip() else []
        most = MOST if self.open else HEAD if self._end else TAIL
        if self._end:
            body = renderer.hard("\n".join(lines), width - 2, styles.text, most=most) if lines else []
        else:
            body = renderer.hard("\n".join(lines[-most:]), width - 2, styles.text)[-most:] if lines else []
        return [renderer.line(head, width), *indented(body, "  ", "  ", styles.dim)]
