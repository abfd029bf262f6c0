"""The tool `todo`: the agent's own list of steps."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.tool import Output, Tool, ToolContext, tool
from friday_cli.tool_catalog import TOOLS

State = Literal["pending", "active", "done"]
_MARKS: dict[State, str] = {"pending": "[ ]", "active": "[>]", "done": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a list."""

    text: Annotated[str, Meta(min_length=1, max_length=300, description="What is to be done, in a few words.")]
    status: Annotated[State, Meta(description="pending, active (being done now) or done.")] = "pending"


class TodoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `todo`."""

    items: Annotated[
        list[TodoItem], Meta(max_length=50, description="The whole list in order; it replaces the one before.")
    ]


async def _todo(ctx: ToolContext, args: TodoArguments) -> Output:
    if not args.items:
        return Output("The list is empty now.", TextDisplay("empty list"))
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in args.items]
    rows = tuple((item.status, " ".join(item.text.split())) for item in args.items)
    return Output("\n".join([_progress(args.items), *lines]), TableDisplay(("status", "item"), rows))


def _progress(items: list[TodoItem]) -> str:
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done"


TODO = tool(
    _todo,
    TOOLS["todo"],
    args=TodoArguments,
    title=lambda args: _progress(args.items),
    description=(
        "Write down your plan as a list and keep it current. Use it for work of three or more steps, and again each "
        "time a step begins (active) or ends (done); keep one item active. Not for a single simple step. Send the "
        "whole list each time. Returns the list as it now stands."
    ),
)
"""An agent's own list. It lives in the agent's history and nowhere else."""


def tools() -> list[Tool]:
    """The tools of this group."""
    return [TODO]
