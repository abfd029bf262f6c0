"""The tools `apply_delegation` and `discard_delegation`: apply or discard the worktree changes of a sub-agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ID_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import DiffsDisplay
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.text.untrusted import neutralize_line
from friday_cli.core.tool_catalog import TOOLS

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees.apply import Applied

MAX_LISTED = 60
"""Files named in a result."""


class ApplyArguments(ToolArguments, frozen=True):
    aliases: ClassVar = ID_ALIASES
    id: str


class DiscardArguments(ApplyArguments, frozen=True):
    keep_branch: Annotated[bool, Meta(description="Commit them on its branch, which stays.")] = False


class WorktreeHost(Protocol):
    """The part of the session that the worktree tools of one agent need. All methods raise ToolError."""

    def touched(self, path: str, workspace: Workspace) -> Sequence[str]:
        """Every path that applying the changes of the agent `path` would change, as rules name it."""
        ...

    async def apply(self, ctx: ToolContext, path: str) -> Applied:
        """Apply the changes of a descendant of the caller to the caller's files."""
        ...

    async def discard(self, ctx: ToolContext, path: str, *, keep_branch: bool) -> str:
        """Remove the worktree of a descendant of the caller; returns what happened to its changes."""
        ...


def worktree_tools(host: WorktreeHost) -> list[Tool]:
    """The two tools for the worktrees of sub-agents."""

    async def apply(ctx: ToolContext, args: ApplyArguments) -> Output:
        applied = await host.apply(ctx, args.id)
        lines = [f"Applied the changes of {args.id} to your files; its worktree and branch are removed."]
        lines += [f"- {neutralize_line(row.path)} +{row.added} -{row.removed}" for row in applied.files[:MAX_LISTED]]
        if len(applied.files) > MAX_LISTED:
            lines.append(f"- and {len(applied.files) - MAX_LISTED} more")
        if applied.merged:
            merged = ", ".join(map(neutralize_line, applied.merged[:MAX_LISTED]))
            lines.append(f"Merged with newer changes, check them: {merged}")
        return Output("\n".join(lines), DiffsDisplay(applied.diffs), ToolFacts(files=applied.files))

    async def discard(ctx: ToolContext, args: DiscardArguments) -> Output:
        return Output(await host.discard(ctx, args.id, keep_branch=args.keep_branch))

    return [
        Tool(
            apply,
            TOOLS["apply_delegation"],
            args=ApplyArguments,
            subjects=lambda args, workspace: host.touched(args.id, workspace),
            title=lambda args: args.id,
            description=(
                "Apply the changes in a sub-agent's worktree: all, or none if files conflict with newer changes here; "
                "lists the conflicts."
            ),
        ),
        Tool(
            discard,
            TOOLS["discard_delegation"],
            args=DiscardArguments,
            title=lambda args: args.id + (" (branch kept)" if args.keep_branch else ""),
            description="Discard the worktree of a sub-agent, and its changes unless keep_branch.",
        ),
    ]
