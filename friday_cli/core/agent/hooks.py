"""What the engine asks of hooks: programs of the person or of a project that see events and may decide about them.

`Services.hooks` is None where none are configured: then this module is not loaded. Every agent of a session has the same
hooks. A hook can make a decision stricter; its permission counts as a rule of the session does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from ..permissions.rule import Rule, RuleInput
from ..protocol.messages import ToolCall, ToolResult
from ..protocol.run_result import RunResult
from ..protocol.tool import Output, Tool
from .agent import Agent


class HookOutcome(msgspec.Struct, frozen=True):
    """What the hooks of one event decided together. `reason` is for the model and the person, with the hook's name. `grant`
    is the rule that an `allow` counts as. `context` is text for the model, marked with its origin. `stop` is why the run
    ends, "" if it continues.

    `arguments` replace those of the call, understood as its tool does; `rewritten` names the change for the receipt and
    `note` for the model. `output` replaces the text of the result."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    grant: Rule | None = None
    context: str = ""
    stop: str = ""
    arguments: dict[str, Any] | None = None
    rewritten: str = ""
    note: str = ""
    output: str | None = None
    limits: Mapping[str, float] = {}


class Hooks(Protocol):
    """Runs the hooks of a session. No method raises anything but CancelledError."""

    async def before_call(
        self, agent: Agent, call: ToolCall, tool: Tool, arguments: dict[str, Any], wanted: RuleInput
    ) -> HookOutcome:
        """PreToolUse: a call was understood and is not judged yet."""

    async def permission(
        self, agent: Agent, call: ToolCall, tool: Tool, arguments: dict[str, Any], wanted: RuleInput
    ) -> HookOutcome:
        """PermissionRequest: a person would be asked about the call."""

    async def after_call(
        self,
        agent: Agent,
        call: ToolCall,
        tool: Tool,
        arguments: dict[str, Any],
        wanted: RuleInput,
        ran: tuple[Output, float],
    ) -> HookOutcome:
        """PostToolUse, or PostToolUseFailure if the output is an error; with the seconds that it took."""

    async def after_batch(self, agent: Agent, calls: Mapping[str, ToolCall], results: tuple[ToolResult, ...]) -> str:
        """PostToolBatch: all calls of a reply have results. Returns context for the model."""

    async def run_started(self, agent: Agent, task: str, *, background: bool) -> HookOutcome:
        """SubagentStart, or UserPromptSubmit for the main agent: a run begins on `task`. `limits` can lower those of the
        run: `max_turns`, `timeout_s`, `max_tokens`. `background`: nobody waits
        for its result."""

    async def run_ended(self, agent: Agent, end: RunResult, *, sent_back: int) -> HookOutcome:
        """SubagentStop, or Stop for the main agent, StopFailure if its run failed. With `deny` the agent continues to work
        on `reason`; `sent_back` counts how often it did."""

    async def message(self, agent: Agent, text: str) -> HookOutcome:
        """UserPromptSubmit: a running agent is about to read a message of the person."""

    async def compaction(self, agent: Agent, *, requested: bool, instructions: str) -> HookOutcome:
        """PreCompact: the history is about to be replaced by a summary."""

    async def compacted(self, agent: Agent, *, requested: bool, summary: str) -> HookOutcome:
        """PostCompact, and SessionStart with the source `compact` for the main agent."""

    async def session_started(self, agent: Agent, source: Literal["startup", "resume", "fork", "compact"]) -> str:
        """SessionStart: returns context for the main agent's model."""

    async def worktree(
        self, event: Literal["WorktreeCreate", "WorktreeRemove"], agent: Agent, name: str, path: str
    ) -> None:
        """A sub-agent's worktree was created or removed."""

    async def close(self, agent: Agent) -> None:
        """SessionEnd. Nothing of a hook runs when this returns."""
