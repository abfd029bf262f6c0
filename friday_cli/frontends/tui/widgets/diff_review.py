"""The review of what agents changed: one row per agent and file with its diff; a key accepts or restores the file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.format import diffstat, pluralize
from friday_cli.core.text.sanitize import sanitize_line

from .choice_dialog import ListDialog
from .diff import draw_diff
from .styles import TextRenderer

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

MAX_LINES = 5_000
"""Lines of a diff that are shown."""
_MARKS = {"made": "+", "changed": "~", "deleted": "-"}
_SOURCES = {"tool": "by its tools", "command": "seen after a command", "person": "by you"}


class ReviewActions(Protocol):
    """Reads the rows of a review, and acts on them. Errors are shown to the user, not raised."""

    async def changed_files(self) -> list[FileDiff]:
        """The changes that are not reviewed yet."""

    async def accept(self, key: str) -> None:
        """Remove the changes that a file has so far from the review."""

    async def restore(self, key: str, agent: str | None) -> None:
        """Undo what an agent did to a file; None for all agents."""

    def name_of(self, path: str) -> str:
        """An agent on one line."""


class Review(ListDialog[None]):
    """The review of the changes of agents: one row per agent and file, with its diff. It closes when no row is left."""

    # All with priority: a key without it would act later than keys with priority that were typed after it.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", priority=True, id="review.close"),
        Binding("down,j", "move(1)", "File below", priority=True, id="review.down"),
        Binding("up,k", "move(-1)", "File above", priority=True, id="review.up"),
        Binding("a", "accept", "Accept the changes of the file: it leaves the list", priority=True, id="review.accept"),
        Binding("p", "restore(False)", "Put back what this agent did to the file", priority=True, id="review.put_back"),
        Binding(
            "P", "restore(True)", "Put back what all agents did to the file", priority=True, id="review.put_back_all"
        ),
        Binding("pagedown,space", "page(1)", "Scroll the diff", priority=True, id="review.page_down"),
        Binding("pageup", "page(-1)", "Scroll the diff up", priority=True, id="review.page_up"),
        Binding("r", "reload", "Reload the list", priority=True, id="review.again"),
    ]

    def __init__(self, rows: Sequence[FileDiff], renderer: TextRenderer, actions: ReviewActions) -> None:
        super().__init__()
        self._rows, self._renderer, self._actions = list(rows), renderer, actions

    def compose(self) -> ComposeResult:
        yield Static(id="review-head")
        with Container(id="review-body"):
            yield OptionList(id="review-files")
            with Container(id="review-right"):
                yield Static(id="review-file")
                yield DiffView(id="review-diff")
        yield Static(id="review-keys")

    def on_mount(self) -> None:
        keys = "a accept · p put back · P all agents · Space scroll · Esc"
        self.query_one("#review-keys", Static).update(Text(keys, style=self._renderer.styles.dim))
        self._show_rows(0)
        self.query_one(OptionList).focus()

    def _show_rows(self, index: int) -> None:
        """Show the rows with the cursor on the one at `index`, or on the last."""
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
                options.add_option(Option(Content(self._actions.name_of(agent)), disabled=True))
            options.add_option(Option(Content(_label(row)), id=str(number)))
        if rows:
            options.highlighted = options.get_option_index(str(min(index, len(rows) - 1)))

    @property
    def _row(self) -> FileDiff | None:
        option = self.query_one(OptionList).highlighted_option
        return self._rows[int(option.id)] if option is not None and option.id else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        row = self._row
        if row is None:
            return
        text = Text(f"{row.agent} {row.kind} ")
        text.append(sanitize_line(row.path, 300), style="bold")
        sources = ", ".join(_SOURCES[by] for by in row.by)
        text.append(f" +{row.added} -{row.removed} · {sources}", style=self._renderer.styles.dim)
        if row.yours:
            text.append(" · changed by you since", style=self._renderer.styles.warn)
        if not row.newest:
            text.append(" · another agent changed it after this one", style=self._renderer.styles.dim)
        self.query_one("#review-file", Static).update(text)
        self.query_one(DiffView).show(lambda width: _draw_row(row, self._renderer, width))

    def action_page(self, by: int) -> None:
        view = self.query_one(DiffView)
        (view.action_page_down if by > 0 else view.action_page_up)()

    def action_accept(self) -> None:
        if (row := self._row) is not None:
            self._run(self._actions.accept(row.key))

    def action_restore(self, all_agents: bool) -> None:
        if (row := self._row) is not None:
            self._run(self._actions.restore(row.key, None if all_agents else row.agent))

    def action_reload(self) -> None:
        self._run(None)

    @work(exclusive=True)
    async def _run(self, action: Awaitable[None] | None) -> None:
        """Wait for an action on a row, and show the rows that are left."""
        if action is not None:
            await action
        rows = await self._actions.changed_files()
        current, index = self._row, 0
        if current is not None:  # the user may have moved the cursor meanwhile
            indexes = {(row.key, row.agent): index for index, row in enumerate(rows)}
            index = indexes.get((current.key, current.agent), self._rows.index(current))
        self._rows = rows
        if rows:
            self._show_rows(index)
        else:
            self.dismiss(None)


class DiffView(ScrollView, can_focus=False):
    """A scrolled diff, drawn again for each width."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], list[Strip]] = lambda width: []
        self._strips: list[Strip] = []

    def show(self, draw: Callable[[int], list[Strip]]) -> None:
        """Show the strips that `draw` returns for a width in cells, from the first."""
        self._draw = draw
        self._layout_strips()
        self.scroll_home(animate=False)

    def on_resize(self, event: events.Resize) -> None:
        self._layout_strips()

    def _layout_strips(self) -> None:
        width = self.scrollable_content_region.width
        self._strips = self._draw(width) if width > 0 else []
        self.virtual_size = Size(width, len(self._strips))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at = int(self.scroll_y) + y
        strip = self._strips[at] if at < len(self._strips) else Strip.blank(0)
        return strip.extend_cell_length(self.size.width).apply_style(self.rich_style)


def _label(row: FileDiff) -> str:
    change = row.remark or f"+{row.added} -{row.removed}"
    return f"{_MARKS[row.kind]} {sanitize_line(row.path, 200)} {change}{' · yours since' if row.yours else ''}"


def _draw_row(row: FileDiff, renderer: TextRenderer, width: int) -> list[Strip]:
    if row.diff:
        return draw_diff(row.diff, renderer, width, most=MAX_LINES, path=row.path)
    same = "The file has its old content back." if row.kind == "changed" or row.yours else "An empty file."
    return renderer.wrap(Text(row.remark or same, style=renderer.styles.dim), width)
