"""The tool `skill`: loads the instructions of a skill, or finds skills that are not listed in its description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.messages import CHARS_PER_TOKEN
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import SKILL, CallEffect
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.untrusted import neutralize_line
from friday_cli.core.text.word_search import MOST, Described, find_by_words
from friday_cli.core.tool_catalog import TOOLS

SHARE = 0.02
"""The part of the context window that the list of skills may take."""
MAX_LISTED = 60
"""Skills in the list."""
MAX_DESCRIPTION = 250
"""Characters of each description in the list."""

_ABOUT = (
    "Load the instructions of a skill by its name, before you do what it describes. They come with the skill's folder, whose files "
    "you can read. args: what the skill should work on, if it takes arguments."
)


class SkillHost(Protocol):
    """The part of the session that the tool needs."""

    def visible(self, path: str) -> Sequence[Described]:
        """The skills that the agent `path` may load."""
        ...

    def starts(self, name: str) -> str:
        """The profile of the sub-agent that a skill runs as, "" for one that does not."""
        ...

    async def load(self, ctx: ToolContext, name: str, args: str) -> Output:
        """The instructions of a skill, or its result if it runs as a sub-agent. Raises ToolError."""
        ...


class SkillArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {
        "skill": "name", "skill_name": "name", "command": "name", "arguments": "args", "q": "query", "search": "query",
    }  # fmt: skip
    name: Annotated[str, Meta(max_length=200, description="Name of the skill.")] = ""
    args: Annotated[str, Meta(max_length=20_000, description="Its arguments.")] = ""
    query: Annotated[str, Meta(max_length=400, description="Instead of a name: words to find skills by.")] = ""

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """A name may be written as a person does: `/name`."""
        for key in ("name", "skill", "skill_name", "command"):
            if isinstance(name := sent.get(key), str):
                sent[key] = name.strip().removeprefix("/")


def skill_tool(host: SkillHost, skills: Sequence[Described], window: int) -> Tool:
    """The tool of an agent that may load `skills`, sorted, with a model that reads `window` tokens (0: unknown)."""

    async def run(ctx: ToolContext, args: SkillArguments) -> Output:
        if args.name:
            return await host.load(ctx, args.name, args.args)
        if not args.query.strip():
            raise ToolError(f"{SKILL}: the name is missing.", hint="Give a name, or a query to find skills.")
        found = find_by_words(host.visible(ctx.agent), args.query)
        rows = tuple((one.name, neutralize_line(sanitize_line(one.description, 400))) for one in found)
        text = "\n".join(f"- {name}: {description}" for name, description in rows)
        return Output(text or "No skill matches. Try other words.", TableDisplay(("name", "description"), rows))

    def also(args: SkillArguments, workspace: Workspace) -> tuple[CallEffect, ...]:
        profile = host.starts(args.name)
        return (CallEffect("spawn", (profile,)),) if profile else ()

    return Tool(
        run,
        TOOLS[SKILL],
        args=SkillArguments,
        also=also,
        title=lambda args: f"{args.name} {sanitize_line(args.args, 60)}".strip() or sanitize_line(args.query, 60),
        description=catalog(skills, window),
    )


def catalog(skills: Sequence[Described], window: int) -> str:
    """The description of the tool, with as many skills as their share of the window allows."""
    most = int(window * SHARE * CHARS_PER_TOKEN) if window else MAX_LISTED * MAX_DESCRIPTION
    lines: list[str] = []
    for one in skills[:MAX_LISTED]:
        text = neutralize_line(sanitize_line(one.description, MAX_DESCRIPTION))
        line = f"- {one.name}: {text}"
        most -= len(line) + 1
        if most < 0:
            break
        lines.append(line)
    hidden = len(skills) - len(lines)
    more = f"\n{hidden:,} more are not listed: `query` finds them by words ({MOST} best matches)." if hidden else ""
    return f"{_ABOUT}\nSkills:\n" + "\n".join(lines) + more
