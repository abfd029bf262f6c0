"""The tool `search_profiles`: finds sub-agents where there are too many to list in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.word_search import MOST, Described, find_by_words
from friday_cli.core.tool_catalog import SEARCH_PROFILES, TOOLS


class SearchArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"q": "query", "search": "query", "task": "query"}
    query: Annotated[
        str, Meta(min_length=1, max_length=400, description="Words for what the sub-agent must know or do.")
    ]


def search_tool(profiles: Sequence[Described]) -> Tool:
    """The search in `profiles`."""

    async def search(ctx: ToolContext, args: SearchArguments) -> Output:
        rows = tuple((p.name, sanitize_line(p.description, 400)) for p in find_by_words(profiles, args.query))
        text = "\n".join(f"- `{name}`: {description}" for name, description in rows)
        return Output(text or "No sub-agent matches. Try other words.", TableDisplay(("name", "description"), rows))

    return Tool(
        search,
        TOOLS[SEARCH_PROFILES],
        args=SearchArguments,
        title=lambda args: args.query,
        description="Find sub-agents for delegate_task that are not listed in your instructions, by words of their names and "
        f"descriptions. Returns the {MOST} best matches.",
    )
