"""The tool `map_tasks`: one task for each of many items. What runs them is given, so that nothing of it is loaded before a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.format import short_cost
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import MAP_TASKS
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import TOOLS

Dollars = Annotated[float, Meta(gt=0)]


class MapArguments(ToolArguments, frozen=True, kw_only=True):
    """The items come from exactly one of `items`, `glob` and `file`."""

    profile: Annotated[str, Meta(min_length=1, description="Profile of the sub-agents.")]
    task: Annotated[
        str,
        Meta(
            min_length=1,
            description="Complete task with fields of an item: {item}, {path} of a file, {key} of an object.",
        ),
    ]
    max_cost: Annotated[Dollars, Meta(description="US dollars for all items.")]
    items: Annotated[list[Any] | None, Meta(description="Texts or objects.")] = None
    glob: Annotated[str, Meta(description="Or files, such as src/**/*.py.")] = ""
    file: Annotated[str, Meta(description="Or the lines of a JSONL file.")] = ""
    schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of each result.")] = None
    per_item_cost: Annotated[Dollars | None, Meta(description="US dollars for one item.")] = None


def map_tool(run: Callable[[ToolContext, MapArguments], Awaitable[Output]]) -> Tool:
    """The tool, whose calls `run` does."""
    return Tool(
        run,
        TOOLS[MAP_TASKS],
        args=MapArguments,
        description=(
            "Run one sub-agent for each of many items (more than about ten) under one cost cap. The user is asked once. "
            "Returns counts, the first results and the file with all. Work of earlier calls is not paid again."
        ),
        title=_title,
    )


def _title(args: MapArguments) -> str:
    items = f"{len(args.items):,} items" if args.items else args.glob or args.file
    return sanitize_line(
        f"{args.profile}: {items}, at most {short_cost(Usage(cost_usd=args.max_cost))}: {args.task}", 120
    )
