"""The tool `search_profiles`: finds sub-agents where there are too many to list in the prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.tool_catalog import SEARCH_PROFILES, TOOLS

MOST = 20
"""Profiles in a result."""
_IN_NAME = 3
"""Weight of a word in the name, against one in the description."""


class NamedProfile(Protocol):
    """A profile as the search reads it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


class SearchArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"q": "query", "search": "query", "task": "query"}
    query: Annotated[
        str, Meta(min_length=1, max_length=400, description="Words for what the sub-agent must know or do.")
    ]


def search_tool(profiles: Sequence[NamedProfile]) -> Tool:
    """The search in `profiles`."""

    async def search(ctx: ToolContext, args: SearchArguments) -> Output:
        rows = tuple((p.name, sanitize_line(p.description, 400)) for p in find_profiles(profiles, args.query))
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


def find_profiles(profiles: Sequence[NamedProfile], query: str) -> list[NamedProfile]:
    """The profiles with the most words of `query` at the beginning of a word, the best first."""
    words = set(re.findall(r"\w+", query.casefold()))

    def score(profile: NamedProfile) -> int:
        name, about = (re.findall(r"[^\W_]+", text.casefold()) for text in (profile.name, profile.description))
        return sum(
            _IN_NAME * any(part.startswith(word) for part in name) + any(part.startswith(word) for part in about)
            for word in words
        )

    scores = {profile.name: score(profile) for profile in profiles}
    found = sorted((p for p in profiles if scores[p.name]), key=lambda p: (-scores[p.name], p.name))
    return found[:MOST]
