"""The hooks of a session: runs them on events of every agent, composes their answers, records each run, tells the person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from friday_cli.core.agent.agent import Agent, HookedCall, HookOutcome, Hooks
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol.displays import DelegationDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import AnyEvent, Notice
from friday_cli.core.protocol.limits import Limits, least
from friday_cli.core.protocol.messages import ToolCall, ToolResult
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.server_calls import tool_label
from friday_cli.core.protocol.tool import Output, Tool
from friday_cli.core.subagents.node import AgentSummary
from friday_cli.core.subagents.run import SENT_BACK
from friday_cli.core.text.sanitize import mask, masked_line, sanitize_line
from friday_cli.core.text.untrusted import neutralize_line, visible, wrap_untrusted
from friday_cli.extensions.hooks.answer import LIMIT_NAMES, Answer, failed, strictest
from friday_cli.extensions.hooks.claude_names import (
    claude_input,
    claude_name,
    claude_response,
    matched_names,
    rewritten_arguments,
)

from ..program import CanUse, refusal
from .input import delegation_response
from .runner import SHOWN, HookRunner, name_of

END_S = 5.0
"""Seconds that hooks of SessionEnd, and those that nothing waits for, have when a session is closed."""


class SessionHooks:
    """Implements `Hooks`. `known(path)` is what is known of an agent, `estimate(agent, arguments)` what the sub-agents of a
    call may cost at most and usually use. `can_use` may refuse a call after all rewrites. `after_calls` answers in place of the hooks that run after calls, where no
    call really runs: they act on what a call did."""

    def __init__(
        self,
        runner: HookRunner,
        approvals: ApprovalQueue,
        *,
        known: Callable[[str], AgentSummary | None],
        estimate: Callable[[Agent, Mapping[str, Any]], Awaitable[dict[str, Any]]],
        can_use: CanUse | None = None,
        after_calls: Hooks | None = None,
    ) -> None:
        self._can_use, self._after_calls = can_use, after_calls
        self._runner, self._approvals, self._estimate = runner, approvals, estimate
        self._has, self._fire, self._inputs, self._log = runner.has, runner.fire, runner.inputs, runner.log
        self._known = known

    # ---- calls --------------------------------------------------------------------------

    async def before_call(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        tool, arguments = seen.tool, seen.arguments
        given = claude_input(tool.name, arguments, agent.workspace.root)
        ours: dict[str, Any] = {}
        if claude_name(tool.name) == "Agent" and self._has("PreToolUse"):
            ours["estimate"] = await self._estimate(agent, arguments)
        answers = await self._call("PreToolUse", agent, seen, given=given, ours=ours)
        answers, changed, events = self._rewrite(agent, seen, answers, given)
        if events:
            await self._log.emit(agent.path, *events)
        outcome = _compose(answers, grant=tool.name)
        if self._can_use is not None and outcome.decision != "deny":  # what will run is what it judges
            refused = await refusal(self._can_use, agent, tool, arguments if changed is None else changed)
            if refused:
                outcome = msgspec.structs.replace(outcome, decision="deny", reason=refused)
        if changed is None:
            return outcome
        text = masked_line(msgspec.json.encode(changed).decode(), SHOWN)
        note = f"[One of the user's hooks changed this call before it ran. It ran with: {neutralize_line(text)}]"
        return msgspec.structs.replace(outcome, arguments=changed, rewritten=f"{tool.name} {text}", note=note)

    def _rewrite(
        self, agent: Agent, seen: HookedCall, answers: list[Answer], given: Mapping[str, Any]
    ) -> tuple[list[Answer], dict[str, Any] | None, list[AnyEvent]]:
        """The answers, with a problem for each rewrite that the tool does not take; the arguments after all rewrites, one after
        the other, None if they are the same; and notices."""
        tool, current, checked, events = seen.tool, seen.arguments, list[Answer](), list[AnyEvent]()
        for answer in answers:
            if answer.arguments is not None:
                try:
                    current = rewritten_arguments(tool, current, given, answer.arguments)
                    text = masked_line(msgspec.json.encode(current).decode(), SHOWN)
                    events.append(
                        Notice(
                            f"Hook {name_of(answer.hook)} changed the {tool_label(tool.name)} call of {agent.path} to {text}"
                        )
                    )
                except (ToolError, TypeError, ValueError) as error:
                    words = f"its change to the call was not applied: {sanitize_line(str(error), 200)}"
                    answer = failed(msgspec.structs.replace(answer, arguments=None, problem=words))
                    events += self._runner.problem(answer, agent, "PreToolUse", seen.call.id)
            checked.append(answer)
        return checked, None if current == seen.arguments else current, events

    async def permission(self, agent: Agent, seen: HookedCall) -> HookOutcome:
        if self._approvals.interactive:
            text = f"Friday needs your permission to use {seen.tool.name} ({agent.path})"
            self.notify(agent, "permission_prompt", text)
        more = {"permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}
        answers = await self._call("PermissionRequest", agent, seen, more=more)
        return _compose(answers, grant=seen.tool.name)

    async def after_call(self, agent: Agent, seen: HookedCall, output: Output, took_s: float) -> HookOutcome:
        if self._after_calls is not None:
            return await self._after_calls.after_call(agent, seen, output, took_s)
        event = "PostToolUseFailure" if output.error else "PostToolUse"
        if not self._has(event):
            return HookOutcome()
        given = claude_input(seen.tool.name, seen.arguments, agent.workspace.root)
        more: dict[str, Any] = {"duration_ms": round(took_s * 1000)}
        if output.error:
            more |= {"error": output.text, "is_interrupt": False}
        else:
            more["tool_response"] = self._response(seen.tool, given, output)
        answers = await self._call(event, agent, seen, given=given, more=more)
        outcome = _compose(answers)
        replaced = [answer.output for answer in answers if answer.output is not None]
        feedback = f"[{outcome.reason}]" if outcome.decision == "deny" else ""
        context = "\n".join(filter(None, (feedback, outcome.context)))
        return msgspec.structs.replace(outcome, context=context, output=replaced[-1] if replaced else None)

    def _response(self, tool: Tool, given: Mapping[str, Any], output: Output) -> Any:
        paths = output.display.agents if isinstance(output.display, DelegationDisplay) else ()
        known = self._known(paths[0]) if len(paths) == 1 else None
        if known is not None and claude_name(tool.name) == "Agent":
            return delegation_response(str(given.get("prompt", "")), known, output.text)
        return claude_response(tool.name, given, output)

    async def _call(
        self,
        event: str,
        agent: Agent,
        seen: HookedCall,
        *,
        given: dict[str, Any] | None = None,
        more: Mapping[str, Any] = {},
        ours: Mapping[str, Any] = {},
    ) -> list[Answer]:
        """The answers of the hooks of an event of a call, in the order of their files. `given`: its arguments as Claude names
        them."""
        if not self._has(event):
            return []
        tool = seen.tool
        given = claude_input(tool.name, seen.arguments, agent.workspace.root) if given is None else given
        fields = {"tool_name": claude_name(tool.name), "tool_input": given, **more}
        if event != "PermissionRequest":
            fields["tool_use_id"] = seen.call.id
        own = {"tool": tool.name, "input": seen.arguments, "call": seen.call.id, **ours}
        return await self._fire(event, agent, fields, own, subjects=matched_names(tool.name), seen=seen)

    async def after_batch(
        self, agent: Agent, calls: Mapping[str, ToolCall], results: tuple[ToolResult, ...]
    ) -> HookOutcome:
        if self._after_calls is not None:
            return await self._after_calls.after_batch(agent, calls, results)
        if not self._has("PostToolBatch"):
            return HookOutcome()
        pairs = [(calls[result.call_id], result) for result in results if result.call_id in calls]
        rows = [_row_of_batch(call, result, agent) for call, result in pairs]
        return _compose(await self._fire("PostToolBatch", agent, {"tool_calls": rows}))

    # ---- runs ---------------------------------------------------------------------------

    async def run_started(self, agent: Agent, task: str, *, background: bool) -> HookOutcome:
        self._inputs.tasks[agent.path] = task
        if agent.parent is None:
            self._inputs.new_prompt()
            return await self._prompt(agent, task)
        tokens, cost = agent.budget.tokens.limit, agent.budget.cost.limit
        limits = Limits(None if tokens is None else int(tokens), cost, agent.max_turns, agent.time_s)
        ours = {
            "limits": {name: getattr(limits, field) for name, field in LIMIT_NAMES.items()},
            "background": background,
            "run": agent.run,
        }
        answers = await self._fire("SubagentStart", agent, {}, ours, subjects=(agent.profile,))
        lowered = least(*(answer.limits for answer in answers))
        if lowered != Limits():
            set_now = ((name, getattr(lowered, field)) for name, field in LIMIT_NAMES.items())
            words = ", ".join(f"{name} {value:g}" for name, value in set_now if value is not None)
            await self._log.emit(agent.path, Notice(f"A hook lowered the limits of {agent.path}: {words}"))
        return msgspec.structs.replace(_refusal(_compose(answers)), limits=lowered)

    async def message(self, agent: Agent, text: str) -> HookOutcome:
        outcome = await self._prompt(agent, text)
        if outcome.decision == "deny":
            text = f"A message to {agent.path} was withheld: {outcome.reason}"
            await self._log.emit(agent.path, Notice(text, "warning"))
        return outcome

    async def _prompt(self, agent: Agent, text: str) -> HookOutcome:
        source = "user" if self._approvals.interactive else "sdk"
        return _refusal(_compose(await self._fire("UserPromptSubmit", agent, {"prompt": text, "source": source})))

    async def run_ended(self, agent: Agent, end: RunResult, *, sent_back: int) -> HookOutcome:
        main = agent.parent is None
        good = (end.status, end.stop_reason) == ("completed", "done")
        event = "SubagentStop" if not main else "Stop" if good else "StopFailure"
        ours = {"status": end.status, "stop_reason": end.stop_reason, "receipt": agent.receipt_builder.run.lines()}
        fields: dict[str, Any] = {"stop_hook_active": sent_back > 0, "last_assistant_message": end.text}
        if event == "StopFailure":
            fields |= {"error": end.stop_reason, "error_details": end.error}
        else:
            fields |= {"background_tasks": [], "session_crons": []}
        if not main and self._has(event):
            fields["agent_transcript_path"] = self._inputs.transcript(agent)
        subjects = () if main else (agent.profile,)
        outcome = _compose(await self._fire(event, agent, fields, ours, subjects=subjects))
        if outcome.stop:  # `continue: false` wins over a hook that sends back to work
            outcome = msgspec.structs.replace(outcome, decision="")
        if outcome.decision == "deny" and good:
            done = "was sent back to work" if sent_back < SENT_BACK else "ended anyway after it was sent back to work"
            text = f"{agent.path} {done}: {outcome.reason}"
            await self._log.emit(agent.path, Notice(sanitize_line(text, 2 * SHOWN)))
        elif main:
            self.notify(agent, "idle_prompt", "Friday is waiting for your input")
        else:
            self.notify(agent, "agent_completed", f"{agent.path} ({agent.profile}): {end.summary(agent.path)}")
        return msgspec.structs.replace(outcome, reason=_for_model(outcome.reason))

    # ---- the session --------------------------------------------------------------------

    async def compaction(self, agent: Agent, *, requested: bool, instructions: str) -> HookOutcome:
        trigger = "manual" if requested else "auto"
        fields = {"trigger": trigger, "custom_instructions": instructions or None}
        return _refusal(_compose(await self._fire("PreCompact", agent, fields, subjects=(trigger,))))

    async def compacted(self, agent: Agent, *, requested: bool, summary: str) -> HookOutcome:
        trigger = "manual" if requested else "auto"
        fields = {"trigger": trigger, "compact_summary": summary}
        after = _compose(await self._fire("PostCompact", agent, fields, subjects=(trigger,)))
        again = await self.session_started(agent, "compact") if agent.parent is None else ""
        return HookOutcome(context="\n".join(filter(None, (after.context, again))))

    async def session_started(self, agent: Agent, source: Literal["startup", "resume", "fork", "compact"]) -> str:
        """SessionStart: returns context for the model."""
        fields = {"source": source, "model": agent.model}
        return _compose(await self._fire("SessionStart", agent, fields, subjects=(source,))).context

    async def worktree(
        self, event: Literal["WorktreeCreate", "WorktreeRemove"], agent: Agent, name: str, path: str
    ) -> None:
        """A worktree of a sub-agent was created or is removed. The answers do not count."""
        fields = {"name": name} if event == "WorktreeCreate" else {"worktree_path": path}
        await self._fire(event, agent, fields, {"name": name, "folder": path})

    def notify(self, agent: Agent, kind: str, message: str) -> None:
        """Notification: nothing waits for its hooks."""
        if self._has("Notification"):
            fields = {"message": message, "title": "Friday", "notification_type": kind}
            self._runner.start(self._fire("Notification", agent, fields, subjects=(kind,)))

    async def close(self, agent: Agent) -> None:
        try:
            async with asyncio.timeout(END_S):
                await self._fire("SessionEnd", agent, {"reason": "other"}, subjects=("other",))
                await self._runner.finish()
        except TimeoutError:
            pass
        await self._runner.cancel()


def _compose(answers: Sequence[Answer], *, grant: str = "") -> HookOutcome:
    """The answers as one. `grant` is the tool that an `allow` is a rule for."""
    decision, reason = strictest(answers)
    context = "\n".join(_marked(answer) for answer in answers if answer.context)
    stop = next((f"A hook stopped the run: {answer.stop}" for answer in answers if answer.stop), "")
    rule = Rule(grant, "", "allow", reason=reason, source="hook") if decision == "allow" and grant else None
    return HookOutcome(decision, _for_model(reason), rule, context, _for_model(stop))


def _refusal(outcome: HookOutcome) -> HookOutcome:
    """The outcome of an event where something is about to begin: `continue: false` refuses it as a denial does."""
    return msgspec.structs.replace(outcome, decision="deny", reason=outcome.stop) if outcome.stop else outcome


def _marked(answer: Answer) -> str:
    """Context for the model that says where it comes from. That of a project's hook is text of others."""
    if answer.hook.source == "project":
        return wrap_untrusted(answer.context, source=f"hook of the project: {name_of(answer.hook)}")
    return f"[Added by one of the user's hooks, {answer.hook.event}: {name_of(answer.hook)}]\n{visible(answer.context)}"


def _for_model(reason: str) -> str:
    return mask(neutralize_line(reason))


def _row_of_batch(call: ToolCall, result: ToolResult, agent: Agent) -> dict[str, Any]:
    return {
        "tool_name": claude_name(call.name),
        "tool_use_id": call.id,
        "tool_response": result.text,
        "tool_input": claude_input(call.name, call.arguments, agent.workspace.root),
    }
