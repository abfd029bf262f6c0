"""A command that the person ran with `!`: its output while it comes, and all of it when it is unfolded. Interface:
`ShellBlock`."""

from __future__ import annotations

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.text.sanitize import sanitize, sanitize_line

from .blocks import Block, RenderContext
from .styles import TextRenderer, indented

TAIL, HEAD, MOST = 8, 20, 5_000
"""Lines shown while it runs, of an ended one while folded, and at most."""
KEPT = 200_000


class ShellBlock(Block):
    """See the module. `output` is put into it as it comes; `end` closes it."""

    kind = "shell"

    def __init__(self, scene: RenderContext, command: str, *, kept: bool = True) -> None:
        super().__init__(scene)
        self._command = command
        self._mark = "!" if kept else "!!"
        """What the person typed: of one with two marks the agent reads nothing."""
        self._output = ""
        self._end = ""

    def put(self, text: str) -> None:
        """More output came."""
        self._output = (self._output + text)[-KEPT:]

    def end(self, how: str, output: str) -> None:
        """It is over: `how` it ended, and what it wrote in all."""
        self._end, self._output = how, output[-KEPT:]

    def version(self) -> object:
        return (self.open, self._end, len(self._output), self._output[-20:])

    @property
    def done(self) -> bool:
        return bool(self._end)

    def text(self) -> str:
        return f"{self._mark} {self._command}\n{sanitize(self._output)}"

    def wants(self, what: str) -> bool:
        return what == "error" and self._end not in ("", "exit 0")

    def toggle(self, at: int) -> bool:
        self.open = not self.open
        return True

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        look = pen.look
        head = Text(f"{self._mark} ", style=look.accent).append(sanitize_line(self._command, 300), style="bold")
        head.append(f" · {self._end or 'running; Esc stops it'}", style=look.dim)
        lines = sanitize(self._output).rstrip("\n").split("\n") if self._output.strip() else []
        most = MOST if self.open else HEAD if self._end else TAIL
        if self._end:
            body = pen.hard("\n".join(lines), width - 2, look.text, most=most) if lines else []
        else:
            body = pen.hard("\n".join(lines[-most:]), width - 2, look.text)[-most:] if lines else []
        return [pen.line(head, width), *indented(body, "  ", "  ", look.dim)]
