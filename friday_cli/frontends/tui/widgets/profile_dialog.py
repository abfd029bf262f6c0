"""The dialog of profiles: one row per profile with its facts below; keys choose it as a sub-agent and open its file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.system.paths import with_tilde

from .choice_dialog import ListDialog

if TYPE_CHECKING:
    from friday_cli.agents.sub_agents import SubAgentRow

HEAD = "Sub-agents of the main agent: {chosen} of {all} profiles."
KEYS = "Enter chooses or removes · e edits · PgUp PgDn · Esc"


Editor = Callable[[str], Awaitable[str | None]]
"""A text as the user leaves it in an editor; None when the editor failed, which is reported."""


class ProfileActions(Protocol):
    """Reads the profiles, and acts on them. Errors are shown to the user, not raised."""

    def rows(self) -> list[SubAgentRow]:
        """All profiles by name."""

    async def toggle(self, name: str) -> None:
        """Choose a profile as a sub-agent of the main agent, or remove it."""

    async def edit(self, name: str, editor: Editor) -> None:
        """Change the file of a profile with `editor`."""


class ProfileDialog(ListDialog[None]):
    """The dialog that shows profiles, chooses them as sub-agents and opens their files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", priority=True, id="profiles.close"),
        Binding("down,j", "move(1)", "Profile below", priority=True, id="profiles.down"),
        Binding("up,k", "move(-1)", "Profile above", priority=True, id="profiles.up"),
        Binding("enter,space", "choose", "Choose as a sub-agent of the main agent, or remove", priority=True, id="profiles.toggle"),
        Binding("pageup", "page(-1)", "Scroll its description up", priority=True, id="profiles.page_up"),
        Binding("pagedown", "page(1)", "Scroll its description down", priority=True, id="profiles.page_down"),
        Binding("e", "edit", "Edit its file in $VISUAL or $EDITOR", priority=True, id="profiles.edit"),
    ]  # fmt: skip

    def __init__(self, actions: ProfileActions) -> None:
        super().__init__()
        self._actions = actions
        self._rows = actions.rows()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(id="profiles-head")
            yield OptionList(compact=True)
            with VerticalScroll(id="profiles-about", can_focus=False):
                yield Static()
            yield Static(Text(KEYS), id="profiles-keys")

    def on_mount(self) -> None:
        self._show()
        self.query_one(OptionList).focus()

    def _show(self) -> None:
        """Show the rows; the cursor stays where it is."""
        self._rows = self._actions.rows()
        chosen = sum(row.chosen for row in self._rows)
        self.query_one("#profiles-head", Static).update(Text(HEAD.format(chosen=chosen, all=len(self._rows))))
        options = self.query_one(OptionList)
        index = options.highlighted or 0
        options.clear_options()
        options.add_options([Option(Content(_label(row))) for row in self._rows])
        options.highlighted = index if index < len(self._rows) else None

    @property
    def _row(self) -> SubAgentRow | None:
        index = self.query_one(OptionList).highlighted
        return self._rows[index] if index is not None and index < len(self._rows) else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if (row := self._row) is not None:
            self.query_one("#profiles-about Static", Static).update(_facts(row))
            self.query_one("#profiles-about").scroll_home(animate=False)

    def action_page(self, by: int) -> None:
        about = self.query_one("#profiles-about")
        about.scroll_relative(y=by * max(about.size.height - 1, 1), animate=False)

    async def action_choose(self) -> None:
        if (row := self._row) is not None:
            await self._actions.toggle(row.name)
            self._show()

    @work(exclusive=True)
    async def action_edit(self) -> None:
        if (row := self._row) is not None:
            from ..terminal import external_editor

            await self._actions.edit(row.name, partial(external_editor.edited, self.app))
            self._show()


def _label(row: SubAgentRow) -> str:
    mark = "[-]" if row.refusal else "[x]" if row.chosen else "[ ]"
    return f"{mark} {sanitize_line(row.name, 64)}  {sanitize_line(row.description, 200)}"


def _facts(row: SubAgentRow) -> Text:
    facts = [
        ("limits", row.limits),
        ("model", row.model),
        ("delegates to", row.delegates_to),
        ("depth", row.depth),
        ("tools", row.tools),
        ("file", f"{with_tilde(row.path)} ({row.origin})"),
    ]
    lines = [f"{name}: {sanitize_line(value, 1_000)}" for name, value in facts]
    refusal = [f"Not possible: {row.refusal}."] if row.refusal else []
    return Text(sanitize("\n".join([*refusal, sanitize_line(row.description, 400), *lines])))
