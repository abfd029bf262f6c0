"""The tools `memory_save` and `memory_load`: notes for later sessions, for one project or for the user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta, field

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.text.untrusted import visible, wrap_untrusted
from friday_cli.core.tool_catalog import TOOLS

if TYPE_CHECKING:
    from friday_cli.store.memory import StoredMemory
    from friday_cli.store.records import MemoryItem

Scope = Literal["project", "user"]


Tag = Annotated[str, Meta(min_length=1, max_length=40)]


class SaveMemoryArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"fact": "text", "content": "text", "memory": "text", "note": "text"}
    text: Annotated[str, Meta(min_length=1, max_length=4_000, description="One fact, with its reason.")]
    tags: Annotated[list[Tag], Meta(max_length=8)] = field(default_factory=list)
    scope: Annotated[Scope, Meta(description="This project, or the user in all.")] = "project"


class LoadMemoryArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"q": "query"}
    query: Annotated[str, Meta(max_length=400, description="Words; empty: the newest.")] = ""
    tags: Annotated[list[Tag], Meta(max_length=8, description="Only with all of these.")] = field(default_factory=list)
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


def tools(memory: StoredMemory) -> list[Tool]:
    """The tools of this family."""

    async def save(ctx: ToolContext, args: SaveMemoryArguments) -> Output:
        text = visible(args.text).strip()
        if not text:
            raise ToolError("memory_save: the text is empty.")
        saved = await memory.save(text, scope=args.scope, tags=_tags(args.tags), agent=ctx.agent)
        if saved.promoted:
            return Output(f"Saved for the {args.scope} as {saved.id}.", TextDisplay(f"{args.scope}: {text}"))
        return Output(
            f"Saved for the {args.scope} as {saved.id}. Only you see it until the user promotes it.",
            TextDisplay(f"{args.scope}: {text}\nOnly {ctx.agent} sees it until `friday memory promote {saved.id}`."),
        )

    async def load(ctx: ToolContext, args: LoadMemoryArguments) -> Output:
        found = await memory.load(args.query.strip(), tags=_tags(args.tags), limit=args.limit, agent=ctx.agent)
        if not found:
            return Output(
                "No notes found. Try other words, or an empty query for the newest ones.", TextDisplay("nothing")
            )
        rows = tuple((_day(item.at), item.scope, " ".join(item.tags), item.text) for item in found)
        listed = "\n\n".join(map(_format_note, found))
        text = f"{pluralize(len(found), 'note')}; check whether they are still true:\n{wrap_untrusted(listed, source='memory')}"
        return Output(text, TableDisplay(("saved", "scope", "tags", "text"), rows))

    return [
        Tool(
            save,
            TOOLS["memory_save"],
            args=SaveMemoryArguments,
            title=lambda args: f"{args.scope}: {args.text}",
            description=(
                "Save a note for later sessions: decisions with reasons, preferences of the user, pitfalls. Not "
                "the state of the task (todo), not what files say, never secrets."
            ),
        ),
        Tool(
            load,
            TOOLS["memory_load"],
            args=LoadMemoryArguments,
            title=lambda args: " ".join([args.query, *(f"#{tag}" for tag in args.tags)]).strip(),
            description=(
                "Search notes of earlier sessions, at the start of work that may have a history. They may be "
                "outdated: check before you rely on one."
            ),
        ),
    ]


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Normalized tags: lower case, hyphens for blanks, no duplicates."""
    return tuple(dict.fromkeys(tag for raw in tags if (tag := "-".join(visible(raw).lower().lstrip("#").split()))))


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _format_note(item: MemoryItem) -> str:
    tags = "".join(f" #{tag}" for tag in item.tags)
    return f"[{item.id}] {_day(item.at)} {item.scope}{tags} (by {item.agent})\n{item.text}"
