"""The blocks of a transcript: one per item of an agent, drawn for a width and cached.

A block is drawn again when its `version()` changes. `estimate(width)` is its height before it was drawn. `text()` and
`folded_text()` are what a search reads. There is no gap between two `compact` blocks. `RenderContext` is what blocks draw with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.server_calls import tool_label
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, SERVER_PREFIX
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.view import AgentView, Item, MessageItem, NoteItem, SessionView

from .styles import TextRenderer, filled, indented

if TYPE_CHECKING:
    from .markdown import GrowingMarkdown

FOLDED_LINES = 14
"""Lines shown of a folded message of the user."""

CACHED_LINES, MIN_PASSES = 400, 16
"""Drawn lines that are kept. A block that was visible in one of the last `MIN_PASSES` layouts is kept in any case."""


class RenderCache:
    """The blocks that hold drawn lines. The blocks that were not visible for longest drop theirs, to save memory."""

    def __init__(self) -> None:
        self.lines = 0
        """How many drawn lines are kept."""
        self._blocks: dict[Block, tuple[int, int]] = {}
        self._passes = 0

    def begin_pass(self) -> None:
        """A layout of the screen begins."""
        self._passes += 1

    def touch(self, block: Block, lines: int) -> None:
        """A block with `lines` drawn lines is visible."""
        self.remove(block)
        self._blocks[block] = lines, self._passes
        self.lines += lines
        while self.lines > CACHED_LINES:
            oldest, (_, last_pass) = next(iter(self._blocks.items()))
            if last_pass > self._passes - MIN_PASSES:
                break
            self.remove(oldest)
            oldest.discard_drawing()

    def remove(self, block: Block) -> None:
        """Stop counting a block."""
        self.lines -= self._blocks.pop(block, (0, 0))[0]


@dataclass
class RenderContext:
    """What blocks draw with. `now` is the clock (Unix seconds), `make_block` makes the block of an item."""

    state: SessionView
    renderer: TextRenderer
    now: Callable[[], float]
    make_block: Callable[[RenderContext, Item], Block]
    cache: RenderCache = field(default_factory=RenderCache)


class Block:
    """One item. Subclasses draw in `_draw`; the strips are kept until `version()` or the width changes."""

    compact: ClassVar[bool] = False

    def __init__(self, context: RenderContext) -> None:
        self.context = context
        self.open = False
        self.stops = [0]
        """The lines of the block, as it was last drawn, at which the keys that move between entries stop."""
        self._key: tuple[int, int, object] | None = None
        self._strips: list[Strip] = []
        self._estimate: tuple[int, int] = (0, 0)

    def version(self) -> object:
        """Equal as long as the block looks the same."""
        return self.open

    def strips(self, width: int, *, redraw: bool = True) -> list[Strip]:
        """The lines of the block; without `redraw` as they were last drawn: the screen changes only when it follows the
        session."""
        if not redraw and self._key is not None and self._key[0] == width:
            return self._strips
        key = (width, id(self.context.renderer), self.version())
        if key != self._key:
            self._strips, self._key = self._draw(self.context.renderer, width), key
        return self._strips

    def discard_drawing(self) -> None:
        """Drop the drawn lines. `strips` draws them again."""
        self._strips, self._key = [], None

    @property
    def done(self) -> bool:
        """Whether only folding can change the block from now on."""
        return True

    def folded_text(self) -> str:
        """What a search finds in the folded part."""
        return ""

    def estimate(self, width: int) -> int:
        """A quick estimate of the number of lines at a width in cells."""
        if self._estimate[0] != width:
            lines = sum(1 + len(part) // width for part in self.text()[:50_000].split("\n"))
            self._estimate = (width, max(1, lines))
        return self._estimate[1]

    def text(self) -> str:
        return ""

    def toggle(self, at: int) -> bool:
        """Fold or unfold at the line `at` of the block. False if nothing folds there."""
        if folds := self._folds_at(at):
            self.open = not self.open
        return folds

    def _folds_at(self, at: int) -> bool:
        return False

    def fold(self, open_: bool) -> None:
        """Show the whole block, or its short form."""
        self.open = open_

    def agent_at(self, at: int) -> str:
        """The path of the agent that line `at` is about, "" for none."""
        return ""

    def matches(self, what: str) -> bool:
        """Whether a jump to `what` finds the block: "error", "agent", "question", "user" (a message to the agent) or
        "own" (a message that the user wrote)."""
        return False

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        raise NotImplementedError


class UserBlock(Block):
    """A message to the agent: from the user, its parent, or the harness."""

    def __init__(self, context: RenderContext, item: MessageItem) -> None:
        super().__init__(context)
        self._item = item

    def text(self) -> str:
        return self._item.text

    def matches(self, what: str) -> bool:
        return what == "user" or (what == "own" and self._item.source == "person")

    def _folds_at(self, at: int) -> bool:
        text, attached = _split_attachments(self._item.text)
        return bool(attached) or text.count("\n") + len(text) // 200 >= FOLDED_LINES

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        styles, item = renderer.styles, self._item
        if item.source == "harness":
            text = sanitize(item.text) if self.open else sanitize_line(item.text, 200)
            return renderer.wrap(Text(f"· To the agent: {text}", style=styles.dim), width)
        message, attached = (item.text, []) if self.open else _split_attachments(item.text)
        text = sanitize(message).strip("\n")
        if item.images > text.count("[Image #"):
            text += f"\n[{pluralize(item.images, 'picture')}]"
        most = None if self.open else FOLDED_LINES + 1
        body = [piece for part in text.split("\n")[:most] for piece in renderer.wrap(Text(part[:20_000]), width - 3)]
        left = len(text.split("\n")) - FOLDED_LINES
        if not self.open and (left > 0 or len(body) > FOLDED_LINES):
            more = f"… {pluralize(max(left, len(body) - FOLDED_LINES), 'more line')}"
            body = [*body[:FOLDED_LINES], *renderer.wrap(Text(more, style=styles.dim), width - 3)]
        names = [f"+ {sanitize_line(name, 200)} · {pluralize(count, 'line')}" for name, count in attached]
        body += [renderer.line(Text(name, style=styles.dim), width - 3) for name in names]
        mark = "› " if item.source == "person" else "» "
        return filled(indented(body, mark, "  ", styles.accent), width, styles.user)


_ATTACHMENT = pattern(r'\n\n(?:<(file|folder) path="([^"\n]*)">|\[I ran this command: ([^\n]*))\n')


def _split_attachments(text: str) -> tuple[str, list[tuple[str, int]]]:
    """The text that the user typed, and its attachments: each file or command with its number of lines."""
    own, attached, at = [], [], 0
    for found in _ATTACHMENT().finditer(text):
        kind, path, command = found.groups()
        close = f"\n</{kind}>" if kind else "]"
        end = text.find(close + "\n\n", found.end() - 1)
        if end < 0 and text.endswith(close):
            end = len(text) - len(close)
        if found.start() < at or end < 0:
            continue
        lines = text[found.end() : end].rstrip("\n").count("\n")
        attached.append((_attachment_label(path), lines + 1) if kind else (f"! {command}", lines))
        own.append(text[at : found.start()])
        at = end + len(close)
    return "".join([*own, text[at:]]), attached


def _attachment_label(path: str) -> str:
    """The name of an attachment: a file, a resource of a server as `SERVER:URI`, or a prompt of one as `SERVER·PROMPT`."""
    return path.removeprefix(SERVER_PREFIX) if ":" in path else tool_label(path)


class ReplyBlock(Block):
    """A reply of the model: its thinking, which folds, and its text."""

    def __init__(self, context: RenderContext, item: MessageItem) -> None:
        super().__init__(context)
        self._item = item
        self._drawn_before: GrowingMarkdown | None = None

    def reuse_drawing(self, writing: WritingBlock) -> None:
        """Reuse what was drawn while this reply was being written."""
        self._drawn_before = writing.growing

    def text(self) -> str:
        return f"{self._item.thinking if self.open else ''}\n{self._item.text}".strip("\n")

    def _folds_at(self, at: int) -> bool:
        return bool(self._item.thinking) and (at == 0 or self.open)

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        thoughts = draw_thinking(self._item.thinking, renderer, width, self.open) if self._item.thinking else []
        from . import markdown  # takes 30 ms; the first screen does not need it

        reply = markdown.draw(self._item.text, renderer, width, self._drawn_before)
        self._drawn_before = None
        return [*thoughts, *([Strip.blank(0)] if thoughts and reply and self.open else []), *reply]


def draw_thinking(text: str, renderer: TextRenderer, width: int, open_: bool, *, live: bool = False) -> list[Strip]:
    """The thinking of a model: one dimmed line, or all of it. `live`: the model is still thinking."""
    text = sanitize(text).strip()
    count = text.count("\n") + 1
    verb = "thinking" if live else "thought"
    head = Text(f"{'▾' if open_ else '▸'} {verb} · {pluralize(count, 'line')}", style=renderer.styles.dim)
    lines = text.split("\n")
    if not open_:
        head.append(f" · {sanitize_line(lines[-1 if live else 0], 200)}", style="italic")
        return [renderer.line(head, width)]
    texts = [Text(line[:20_000], style=renderer.styles.dim) for line in lines]
    body = [strip for text in texts for strip in renderer.wrap(text, width - 2)]
    return [renderer.line(head, width), *indented(body, "│ ", "│ ", renderer.styles.dim)]


class NoteBlock(Block):
    """A note of the harness."""

    compact = True

    def __init__(self, context: RenderContext, item: NoteItem) -> None:
        super().__init__(context)
        self._item = item

    def version(self) -> object:
        return self.open, self._item.failures

    @property
    def done(self) -> bool:
        return not self._item.failures  # more requests may fail

    def text(self) -> str:
        return f"{self._item.text}\n{self._item.more if self.open else ''}".strip("\n")

    def folded_text(self) -> str:
        return self._item.more

    def _folds_at(self, at: int) -> bool:
        return bool(self._item.more) and (at == 0 or self.open)

    def matches(self, what: str) -> bool:
        return what == "error" and self._item.level != "info"

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        styles = renderer.styles
        style = {"info": styles.dim, "warning": styles.warn, "error": styles.error}[self._item.level]
        mark = {"info": "· ", "warning": "! ", "error": "✗ "}[self._item.level]
        if self._item.more:
            mark = "▾ " if self.open else "▸ "
        lines = renderer.wrap(Text(sanitize(self._item.text)[:10_000], style=style), width - 2)
        body = indented(lines, mark, "  ", style)
        if not self.open or not self._item.more:
            return body
        from . import markdown

        return [*body, *indented(markdown.draw(self._item.more, renderer, width - 2), "│ ", "│ ", styles.dim)]


class CardBlock(Block):
    """The output of a slash command: Markdown of Friday itself, not part of the session. It is folded to its first line when
    the conversation goes on."""

    def __init__(self, context: RenderContext, text: str) -> None:
        super().__init__(context)
        self._text = text
        self.open = True

    def text(self) -> str:
        return self._text

    def estimate(self, width: int) -> int:
        return super().estimate(width) if self.open else 1

    def _folds_at(self, at: int) -> bool:
        return at == 0

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        from . import markdown

        style = renderer.styles.accent
        if self.open:
            return indented(markdown.draw(self._text, renderer, width - 2), "│ ", "│ ", style)
        first = markdown.draw(self._text.partition("\n")[0], renderer, width - 2)
        return indented(first[:1], "▸ ", "▸ ", style)


class WritingBlock(Block):
    """The reply that is being written. It is removed when the reply has become a message."""

    done = False

    def __init__(self, context: RenderContext, agent: AgentView) -> None:
        super().__init__(context)
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

    def _folds_at(self, at: int) -> bool:
        return bool(self._agent.reply and self._agent.reply.thinking.size)

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        reply = self._agent.reply
        if reply is None:
            return [renderer.line(Text("…", style=renderer.styles.dim), width)] if self._agent.writing else []
        out: list[Strip] = []
        if reply.thinking.size:
            live = not reply.text.size
            out += draw_thinking(reply.thinking.text, renderer, width, self.open, live=live)
        if reply.text.size:
            from . import markdown

            self.growing = self.growing or markdown.GrowingMarkdown()
            out += self.growing.strips(reply.text.text, renderer, width)
        for tool, chars in reply.calls.values():
            out.append(renderer.line(Text(_preparing(tool, chars), style=renderer.styles.dim), width))
        return out or [renderer.line(Text("…", style=renderer.styles.dim), width)]


def _preparing(tool: str, chars: int) -> str:
    if tool.startswith(DELEGATE_TASK):
        return f"◇ Preparing to delegate… ({chars} characters)"
    return f"○ {sanitize_line(tool, 40)} … ({chars} characters)"
