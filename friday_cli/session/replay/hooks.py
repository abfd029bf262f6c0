"""What the hooks of a recorded session said, for its replay: no program runs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from friday_cli.core.agent.agent import Agent, HookedCall, HookOutcome
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol.events import Denied, Envelope, HookRan, MessageAdded
from friday_cli.core.protocol.messages import ToolCall, ToolResult
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool import Output, Tool
from friday_cli.extensions.hooks.answer import said_by
from friday_cli.extensions.hooks.hook import EVENTS

AFTER_CALLS = ("PostToolUse", "PostToolUseFailure", "PostToolBatch")
"""The events of hooks that see what calls did."""


class RecordedHooks:
    """Implements `Hooks` from the events of hooks and from the messages that they added. What a hook changed in a call or its result
    is in the recorded result. `only`: the events of hooks that count."""

    def __init__(self, envelopes: Sequence[Envelope], only: Collection[str] = EVENTS) -> None:
        self._left: dict[tuple[str, str, str], deque[HookRan]] = defaultdict(deque)
        """By agent, event and call."""
        self._texts: dict[str, deque[str]] = defaultdict(deque)
        """What hooks added to the conversations, by agent."""
        self._denied = {(e.agent, e.event.call_id): e.event.reason for e in envelopes if isinstance(e.event, Denied)}
        """Why calls were denied: their hooks' events have the beginnings of these reasons."""
        waiting = set[str]()
        for envelope in envelopes:
            path, event = envelope.agent, envelope.event
            if isinstance(event, HookRan) and event.event in only:
                self._left[path, event.event, event.call_id].append(event)
                if event.decision == "context" and event.event not in ("PreToolUse", "PostToolUse", "SessionStart"):
                    waiting.add(path)
            elif path in waiting and isinstance(event, MessageAdded) and event.message.source == "harness":
                self._texts[path].append(event.message.text)
                waiting.discard(path)

    def _take(self, agent: Agent, *names: str, call: str = "") -> HookOutcome:
        """What the hooks of these events said together."""
        decision, reason, stop, context = "", "", "", ""
        for name in names:
            left = self._left[agent.path, name, call]
            while left:
                ran = left.popleft()
                if ran.decision in ("deny", "block"):
                    words = said_by("deny", ran.hook, ran.reason)
                    decision, reason = "deny", self._denied.get((agent.path, call), words)
                elif ran.decision in ("ask", "allow") and not decision:
                    decision, reason = ran.decision, said_by(ran.decision, ran.hook, ran.reason)
                elif ran.decision == "stop":
                    stop = f"A hook stopped the run: {ran.reason}"
                elif ran.decision == "context" and self._texts[agent.path]:
                    context = self._texts[agent.path].popleft()
                if not call:
                    break
        return HookOutcome(decision, reason, None, context, stop)  # type: ignore[arg-type]

    async def before_call(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        return self._granting(self._take(agent, "PreToolUse", call=seen.call.id), seen.tool)

    async def permission(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        return self._granting(self._take(agent, "PermissionRequest", call=seen.call.id), seen.tool)

    def _granting(self, outcome: HookOutcome, tool: Tool) -> HookOutcome:
        if outcome.decision != "allow":
            return outcome
        grant = Rule(tool.name, "", "allow", reason=outcome.reason, source="hook")
        return HookOutcome("allow", outcome.reason, grant, outcome.context, outcome.stop)

    async def after_call(self, agent: Agent, seen: HookedCall, output: Output, took_s: float) -> HookOutcome:
        taken = self._take(agent, "PostToolUse", "PostToolUseFailure", call=seen.call.id)
        return HookOutcome(stop=taken.stop)  # the rest is in the recorded result

    async def after_batch(
        self, agent: Agent, calls: Mapping[str, ToolCall], results: tuple[ToolResult, ...]
    ) -> HookOutcome:
        return self._take(agent, "PostToolBatch")

    async def run_started(self, agent: Agent, task: str, *, background: bool) -> HookOutcome:
        return self._take(agent, "UserPromptSubmit" if agent.parent is None else "SubagentStart")

    async def run_ended(self, agent: Agent, end: RunResult, *, sent_back: int) -> HookOutcome:
        return self._take(agent, *(("Stop", "StopFailure") if agent.parent is None else ("SubagentStop",)))

    async def message(self, agent: Agent, text: str) -> HookOutcome:
        return self._take(agent, "UserPromptSubmit")

    async def compaction(self, agent: Agent, *, requested: bool, instructions: str) -> HookOutcome:
        return self._take(agent, "PreCompact")

    async def compacted(self, agent: Agent, *, requested: bool, summary: str) -> HookOutcome:
        return self._take(agent, "PostCompact")

    async def session_started(self, agent: Agent, source: Literal["startup", "resume", "fork", "compact"]) -> str:
        return ""  # it is in the recorded message

    async def worktree(
        self, event: Literal["WorktreeCreate", "WorktreeRemove"], agent: Agent, name: str, path: str
    ) -> None:
        """Their answers never count."""

    async def close(self, agent: Agent) -> None:
        """Nothing runs."""
