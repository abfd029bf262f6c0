"""What a transcript is made of: one block per item of an agent, drawn at a width and cached.

Interface of a block: `sign()` (changes when it looks different), `strips(width)`, `guess(width)` (its height before it was
drawn), `toggle(line)` (fold; False where there is nothing to fold at that line), `words()` (what a search reads), `kind`,
`compact` (no gap to a compact neighbour). `Scene` is what blocks draw with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.tool_catalog import DELEGATE_TASK
from friday_cli.view import AgentView, Item, MessageItem, NoteItem, SessionView

from .styles import TextRenderer, filled, indented

if TYPE_CHECKING:
    from .markdown import GrowingMarkdown

FOLDED_LINES = 14
"""Lines of a person's message that are shown while it is folded."""


KEPT, LOOKS = 400, 16
"""Lines that stay drawn, and looks at the screen in which what was seen stays drawn however long it is."""


class RenderCache:
    """Which blocks are drawn. A day's lines, drawn, would weigh many times their words: those that nobody has looked at
    for longest are forgotten."""

    def __init__(self) -> None:
        self._lines: dict[Block, tuple[int, int]] = {}
        self._sum = self._looks = 0

    def look(self) -> None:
        """A look at the screen begins."""
        self._looks += 1

    def note(self, block: Block, lines: int) -> None:
        """A block of so many lines was looked at."""
        self.drop(block)
        self._lines[block] = lines, self._looks
        self._sum += lines
        while self._sum > KEPT:
            oldest, (_, seen) = next(iter(self._lines.items()))
            if seen > self._looks - LOOKS:
                break
            self.drop(oldest)
            oldest.forget()

    def drop(self, block: Block) -> None:
        """A block is not there any more."""
        self._sum -= self._lines.pop(block, (0, 0))[0]


@dataclass
class RenderContext:
    """What blocks draw with: the state they look into, the pen, the time (Unix seconds), what makes blocks of items,
    and which blocks are drawn."""

    state: SessionView
    pen: TextRenderer
    now: Callable[[], float]
    make: Callable[[RenderContext, Item], Block]
    recent: RenderCache = field(default_factory=RenderCache)


class Block:
    """One item. Subclasses draw in `_draw`; what they draw is kept until `sign` or the width changes."""

    kind: ClassVar[str] = "text"
    compact: ClassVar[bool] = False

    def __init__(self, scene: RenderContext) -> None:
        self.scene = scene
        self.open = False
        self._key: tuple[int, int, object] | None = None
        self._strips: list[Strip] = []
        self._guess: tuple[int, int] = (0, 0)

    def version(self) -> object:
        """Equal as long as the block looks the same."""
        return self.open

    def strips(self, width: int) -> list[Strip]:
        """The lines of the block."""
        key = (width, id(self.scene.pen), self.version())
        if key != self._key:
            self._strips, self._key = self._draw(self.scene.pen, width), key
        return self._strips

    def drawn(self, width: int) -> list[Strip]:
        """The lines as they were drawn last: what is on the screen changes with a look at the session, not between two."""
        return self._strips if self._key is not None and self._key[0] == width else self.strips(width)

    def forget(self) -> None:
        """Let go of what was drawn; it is drawn again when it is looked at."""
        self._strips, self._key = [], None

    @property
    def done(self) -> bool:
        """Whether only a person's fold can change it now."""
        return True

    def folded_text(self) -> str:
        """What a search finds inside while it is folded."""
        return ""

    def guess(self, width: int) -> int:
        """About how many lines it has, told quickly."""
        if self._guess[0] != width:
            self._guess = (width, max(1, sum(1 + len(part) // width for part in self.text()[:50_000].split("\n"))))
        return self._guess[1]

    def text(self) -> str:
        return ""

    def toggle(self, at: int) -> bool:
        """Fold or unfold at the line `at` of the block."""
        return False

    def fold(self, open_: bool) -> None:
        """Show all of it, or the short form."""
        self.open = open_

    def agent_at(self, at: int) -> str:
        """The path of the agent that line `at` is about, "" where it is none."""
        return ""

    def wants(self, what: str) -> bool:
        """Whether it is one of those a jump looks for: "error", "agent", "question", "user" (said
        to the agent), "own" (said by the person)."""
        return False

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        raise NotImplementedError


class UserBlock(Block):
    """What a person or a parent said."""

    kind = "user"

    def __init__(self, scene: RenderContext, item: MessageItem) -> None:
        super().__init__(scene)
        self._item = item

    def text(self) -> str:
        return self._item.text

    def wants(self, what: str) -> bool:
        return what == "user" or (what == "own" and self._item.source == "person")

    def toggle(self, at: int) -> bool:
        said, beside = _without_files(without_notes(self._item.text)[1])
        if not beside and said.count("\n") + len(said) // 200 < FOLDED_LINES:
            return False
        self.open = not self.open
        return True

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        look, item = pen.look, self._item
        if item.source == "harness":
            text = sanitize(item.text) if self.open else sanitize_line(item.text, 200)
            return pen.wrap(Text(f"· {text}", style=look.dim), width)
        notes, said = without_notes(item.text)
        above = [s for note in notes for s in pen.wrap(Text(f"· {sanitize_line(note, 300)}", style=look.dim), width)]
        said, beside = (said, []) if self.open else _without_files(said)
        text = sanitize(said).strip("\n")
        if item.images > text.count("[Image #"):
            text += f"\n[{pluralize(item.images, 'picture')}]"
        most = None if self.open else FOLDED_LINES + 1
        body = [piece for part in text.split("\n")[:most] for piece in pen.wrap(Text(part[:20_000]), width - 3)]
        left = len(text.split("\n")) - FOLDED_LINES
        if not self.open and (left > 0 or len(body) > FOLDED_LINES):
            more = f"… {pluralize(max(left, len(body) - FOLDED_LINES), 'more line')}"
            body = [*body[:FOLDED_LINES], *pen.wrap(Text(more, style=look.dim), width - 3)]
        body += [
            pen.line(Text(f"+ {sanitize_line(name, 200)} · {pluralize(count, 'line')}", style=look.dim), width - 3)
            for name, count in beside
        ]
        mark = "› " if item.source == "person" else "» "
        return [*above, *filled(indented(body, mark, "  ", look.accent), width, look.user)]


_BESIDE = re.compile(r'\n\n(?:<(file|folder) path="([^"\n]*)">|\[I ran this command: ([^\n]*))\n')


def _without_files(text: str) -> tuple[str, list[tuple[str, int]]]:
    """A person's own words, and what joined them: each file or command with the number of its lines."""
    own, beside, at = [], [], 0
    for found in _BESIDE.finditer(text):
        kind, path, command = found.groups()
        close = f"\n</{kind}>" if kind else "]"
        end = text.find(close + "\n\n", found.end() - 1)
        if end < 0 and text.endswith(close):
            end = len(text) - len(close)
        if found.start() < at or end < 0:
            continue
        lines = text[found.end() : end].rstrip("\n").count("\n")
        beside.append((path, lines + 1) if kind else (f"! {command}", lines))
        own.append(text[at : found.start()])
        at = end + len(close)
    return "".join([*own, text[at:]]), beside


def without_notes(text: str) -> tuple[list[str], str]:
    """What the harness put before a person's words, and these."""
    notes: list[str] = []
    if not text.startswith("["):
        return notes, text
    from friday_cli.core.eventlog.notices import NOTE

    while text.startswith(NOTE):
        note, _, text = text.partition("\n\n")
        notes.append(note.removeprefix(NOTE).strip())
    return notes, text


class ReplyBlock(Block):
    """What the model said: its thinking, foldable, and its words."""

    kind = "reply"

    def __init__(self, scene: RenderContext, item: MessageItem) -> None:
        super().__init__(scene)
        self._item = item
        self._grown: GrowingMarkdown | None = None

    def go_on(self, writing: WritingBlock) -> None:
        """It is what was being written: what is drawn of that needs no drawing again."""
        self._grown = writing.growing

    def text(self) -> str:
        return f"{self._item.thinking if self.open else ''}\n{self._item.text}".strip("\n")

    def toggle(self, at: int) -> bool:
        if not self._item.thinking or (at and not self.open):
            return False
        self.open = not self.open
        return True

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        thought = thinking(self._item.thinking, pen, width, self.open) if self._item.thinking else []
        from . import markdown  # 30 ms that the first screen does not need

        said = markdown.draw(self._item.text, pen, width, self._grown)
        self._grown = None
        return [*thought, *([Strip.blank(0)] if thought and said and self.open else []), *said]


def thinking(text: str, pen: TextRenderer, width: int, open_: bool, *, now: bool = False) -> list[Strip]:
    """A model's thinking: one dimmed line, or all of it."""
    text = sanitize(text).strip()
    count = text.count("\n") + 1
    words = "thinking" if now else "thought"
    head = Text(f"{'▾' if open_ else '▸'} {words} · {pluralize(count, 'line')}", style=pen.look.dim)
    if not open_:
        head.append(
            f" · {sanitize_line(text.rpartition(chr(10))[2] if now else text.partition(chr(10))[0], 200)}",
            style="italic",
        )
        return [pen.line(head, width)]
    body = [s for part in text.split("\n") for s in pen.wrap(Text(part[:20_000], style=pen.look.dim), width - 2)]
    return [pen.line(head, width), *indented(body, "│ ", "│ ", pen.look.dim)]


class NoteBlock(Block):
    """A remark of the harness."""

    kind = "note"
    compact = True

    def __init__(self, scene: RenderContext, item: NoteItem) -> None:
        super().__init__(scene)
        self._item = item

    def text(self) -> str:
        return f"{self._item.text}\n{self._item.more if self.open else ''}".strip("\n")

    def folded_text(self) -> str:
        return self._item.more

    def toggle(self, at: int) -> bool:
        if not self._item.more or (at and not self.open):
            return False
        self.open = not self.open
        return True

    def wants(self, what: str) -> bool:
        return what == "error" and self._item.level != "info"

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        look = pen.look
        style = {"info": look.dim, "warning": look.warn, "error": look.error}[self._item.level]
        mark = {"info": "· ", "warning": "! ", "error": "✗ "}[self._item.level]
        if self._item.more:
            mark = "▾ " if self.open else "▸ "
        body = indented(pen.wrap(Text(sanitize(self._item.text)[:10_000], style=style), width - 2), mark, "  ", style)
        if not self.open or not self._item.more:
            return body
        from . import markdown

        return [*body, *indented(markdown.draw(self._item.more, pen, width - 2), "│ ", "│ ", look.dim)]


class CardBlock(Block):
    """What a command of the person shows: Markdown of our own, not part of the session."""

    kind = "card"

    def __init__(self, scene: RenderContext, text: str) -> None:
        super().__init__(scene)
        self._text = text

    def text(self) -> str:
        return self._text

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        from . import markdown

        return indented(markdown.draw(self._text, pen, width - 2), "│ ", "│ ", pen.look.accent)


class WritingBlock(Block):
    """The reply that is being written; gone when it has become a message."""

    kind = "writing"
    done = False

    def __init__(self, scene: RenderContext, agent: AgentView) -> None:
        super().__init__(scene)
        self._agent = agent
        self.growing: GrowingMarkdown | None = None

    def version(self) -> object:
        reply = self._agent.reply
        if reply is None:
            return (self.open, self._agent.writing)
        calls: tuple[Any, ...] = tuple(reply.calls.items())
        return (self.open, id(reply), reply.text.size, reply.thinking.size, calls)

    def text(self) -> str:
        return self._agent.reply.text.text if self._agent.reply else ""

    def toggle(self, at: int) -> bool:
        if not self._agent.reply or not self._agent.reply.thinking.size:
            return False
        self.open = not self.open
        return True

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        reply = self._agent.reply
        if reply is None:
            return [pen.line(Text("…", style=pen.look.dim), width)] if self._agent.writing else []
        out: list[Strip] = []
        if reply.thinking.size:
            now = not reply.text.size
            out += thinking(reply.thinking.text, pen, width, self.open, now=now)
        if reply.text.size:
            from . import markdown

            self.growing = self.growing or markdown.GrowingMarkdown()
            out += self.growing.strips(reply.text.text, pen, width)
        for tool, chars in reply.calls.values():
            out.append(pen.line(Text(_preparing(tool, chars), style=pen.look.dim), width))
        return out or [pen.line(Text("…", style=pen.look.dim), width)]


def _preparing(tool: str, chars: int) -> str:
    if tool.startswith(DELEGATE_TASK):
        return f"◇ Preparing to delegate… ({chars} characters)"
    return f"○ {sanitize_line(tool, 40)} … ({chars} characters)"
