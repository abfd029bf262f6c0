"""The review of what agents changed: a row by agent and file, its difference beside it, accepted or put back by a key.

Interface: `Review(rows, renderer, desk)`; the `Desk` knows the rows after a change, and does what the person wants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.format import diffstat, pluralize
from friday_cli.core.text.sanitize import sanitize_line

from .diff import draw_diff
from .styles import TextRenderer

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

LINES = 5_000
"""Lines of a difference that are shown."""
_MARKS = {"made": "+", "changed": "~", "deleted": "-"}
_HOW = {"tool": "by its tools", "command": "seen after a command", "person": "by you"}


class ReviewActions(Protocol):
    """Where the rows come from, and what becomes of them. Nothing is raised: what cannot be done is said."""

    async def changed_files(self) -> list[FileDiff]:
        """What waits for a review."""

    async def accept(self, key: str) -> None:
        """Leave what was done to a file so far out of the list."""

    async def put_back(self, key: str, agent: str | None) -> None:
        """Take back what an agent did to a file, or all agents."""

    def name_of(self, path: str) -> str:
        """An agent in a line."""


class Review(ModalScreen[None]):
    """See the module."""

    # all of them with priority: without it, a key would act later than those with it that were typed behind it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", priority=True, id="review.close"),
        Binding("down,j", "move(1)", "File below", priority=True, id="review.down"),
        Binding("up,k", "move(-1)", "File above", priority=True, id="review.up"),
        Binding(
            "a", "accept", "Accept what was done to the file: it leaves the list", priority=True, id="review.accept"
        ),
        Binding(
            "p", "put_back(False)", "Put back what this agent did to the file", priority=True, id="review.put_back"
        ),
        Binding(
            "P",
            "put_back(True)",
            "Put the file back: what all agents did to it",
            priority=True,
            id="review.put_back_all",
        ),
        Binding("pagedown,space", "page(1)", "Scroll the difference", priority=True, id="review.page_down"),
        Binding("pageup", "page(-1)", "Scroll the difference up", priority=True, id="review.page_up"),
        Binding("r", "again", "Look again", priority=True, id="review.again"),
    ]

    def __init__(self, rows: Sequence[FileDiff], renderer: TextRenderer, desk: ReviewActions) -> None:
        super().__init__()
        self._rows, self._renderer, self._desk = list(rows), renderer, desk

    def compose(self) -> ComposeResult:
        yield Static(id="review-head")
        with Container(id="review-body"):
            yield OptionList(id="review-files")
            with Container(id="review-right"):
                yield Static(id="review-file")
                yield DiffSheet(id="review-diff")
        yield Static(id="review-keys")

    def on_mount(self) -> None:
        keys = "a accept · p put back · P all agents · Space scroll · Esc"
        self.query_one("#review-keys", Static).update(Text(keys, style=self._renderer.styles.dim))
        self._offer(0)
        self.query_one(OptionList).focus()

    # ---- the list ---------------------------------------------------------------------

    def _offer(self, index: int) -> None:
        """Show the rows, the cursor on that with this index or the last."""
        rows = self._rows
        agents = dict.fromkeys(row.agent for row in rows)
        files = len({row.key for row in rows})
        count = f"{pluralize(files, 'file')} by {pluralize(len(agents), 'agent')}"
        self.query_one("#review-head", Static).update(Text(f"Changes: {count} · {diffstat(rows)}"))
        options = self.query_one(OptionList)
        options.clear_options()
        agent = ""
        for number, row in enumerate(rows):
            if row.agent != agent:
                agent = row.agent
                options.add_option(Option(Content(self._desk.name_of(agent)), disabled=True))
            options.add_option(Option(Content(_listed(row)), id=str(number)))
        if rows:
            options.highlighted = options.get_option_index(str(min(index, len(rows) - 1)))

    @property
    def _row(self) -> FileDiff | None:
        option = self.query_one(OptionList).highlighted_option
        return self._rows[int(option.id)] if option is not None and option.id else None

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        row = self._row
        if row is None:
            return
        text = Text(f"{row.agent} {row.kind} ")
        text.append(sanitize_line(row.path, 300), style="bold")
        text.append(
            f" +{row.added} -{row.removed} · " + ", ".join(_HOW[by] for by in row.by), style=self._renderer.styles.dim
        )
        if row.yours:
            text.append(" · changed by you since", style=self._renderer.styles.warn)
        if not row.newest:
            text.append(" · another agent changed it after this one", style=self._renderer.styles.dim)
        self.query_one("#review-file", Static).update(text)
        self.query_one(DiffSheet).show(lambda width: _drawn(row, self._renderer, width))

    def action_page(self, by: int) -> None:
        sheet = self.query_one(DiffSheet)
        (sheet.action_page_down if by > 0 else sheet.action_page_up)()

    # ---- what becomes of a file ---------------------------------------------------------

    def action_accept(self) -> None:
        self._settle(self._row, None)

    def action_put_back(self, everybody: bool) -> None:
        self._settle(self._row, everybody)

    def action_again(self) -> None:
        self._look()

    @work(exclusive=True)
    async def _settle(self, row: FileDiff | None, everybody: bool | None) -> None:
        """Accept the file where `everybody` is None, else put it back. `row` is that of the moment when it was asked for."""
        if row is None:
            return
        if everybody is None:
            await self._desk.accept(row.key)
        else:
            await self._desk.put_back(row.key, None if everybody else row.agent)
        await self._renew()

    @work(exclusive=True)
    async def _look(self) -> None:
        await self._renew()

    async def _renew(self) -> None:
        rows = await self._desk.changed_files()
        here, index = self._row, 0
        if here is not None:  # where the person went meanwhile
            of = {(row.key, row.agent): number for number, row in enumerate(rows)}
            index = of.get((here.key, here.agent), self._rows.index(here))
        self._rows = rows
        if rows:
            self._offer(index)
        else:
            self.dismiss(None)


class DiffSheet(ScrollView, can_focus=False):
    """Lines that are drawn for a width."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], list[Strip]] = lambda width: []
        self._strips: list[Strip] = []

    def show(self, draw: Callable[[int], list[Strip]]) -> None:
        """Show what `draw` makes, from its first line."""
        self._draw = draw
        self._lay()
        self.scroll_home(animate=False)

    def on_resize(self, event: events.Resize) -> None:
        self._lay()

    def _lay(self) -> None:
        width = self.scrollable_content_region.width
        self._strips = self._draw(width) if width > 0 else []
        self.virtual_size = Size(width, len(self._strips))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at = int(self.scroll_y) + y
        strip = self._strips[at] if at < len(self._strips) else Strip.blank(0)
        return strip.extend_cell_length(self.size.width).apply_style(self.rich_style)


def _listed(row: FileDiff) -> str:
    figures = row.remark or f"+{row.added} -{row.removed}"
    return f"{_MARKS[row.kind]} {sanitize_line(row.path, 200)} {figures}{' · yours since' if row.yours else ''}"


def _drawn(row: FileDiff, renderer: TextRenderer, width: int) -> list[Strip]:
    if row.diff:
        return draw_diff(row.diff, renderer, width, most=LINES)
    return renderer.wrap(Text(row.remark or "It holds what it held before.", style=renderer.styles.dim), width)
