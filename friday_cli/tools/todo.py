"""The tool `todo`: the agent's own list of steps. The list exists only in the conversation."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.tool_catalog import TOOLS

TodoState = Literal["pending", "active", "done"]
_STATES = {"in_progress": "active", "completed": "done"}
"""Names of states in other programs."""
_MARKS: dict[TodoState, str] = {"pending": "[ ]", "active": "[>]", "done": "[x]"}


class TodoItem(ToolArguments, frozen=True):
    """One item of the list."""

    aliases: ClassVar = {"content": "text", "step": "text", "description": "text", "title": "text"}

    text: Annotated[str, Meta(min_length=1, max_length=300)]
    status: TodoState = "pending"

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        if isinstance(status := sent.get("status"), str):
            sent["status"] = _STATES.get(status, status)


class TodoArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"todos": "items", "plan": "items"}
    items: Annotated[list[TodoItem], Meta(max_length=50)]


async def _todo(ctx: ToolContext, args: TodoArguments) -> Output:
    if not args.items:
        return Output("The list is empty.", TextDisplay("empty list"))
    rows = tuple((item.status, " ".join(item.text.split())) for item in args.items)
    lines = [f"{_MARKS[status]} {text}" for status, text in rows]
    return Output("\n".join([_progress(args.items), *lines]), TableDisplay(("status", "item"), rows))


def _progress(items: list[TodoItem]) -> str:
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done"


TODO_TOOL = Tool(
    _todo,
    TOOLS["todo"],
    args=TodoArguments,
    title=lambda args: _progress(args.items),
    description=(
        "Keep your plan as a list, for work of three or more steps. Send the whole list when a step "
        "starts (active; one at a time) or ends (done)."
    ),
)


def tools() -> list[Tool]:
    """The tools of this family."""
    return [TODO_TOOL]
