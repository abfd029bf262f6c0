"""Answers a replayed session from its recording, and finds where it asks something else."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Never

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import PermissionDenied, ProviderError, ToolError
from friday_cli.core.protocol.events import Envelope, WorkspaceFound
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.provider import ReplyDone, Request
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import ASK_USER, DELEGATION_RESULT, MAP_TASKS, SKILL, TASK_RESULT
from friday_cli.core.tool_catalog import BASH, CANCEL_SUB_AGENT, LIST_SUB_AGENTS, MESSAGE_SUB_AGENT, SEARCH_PROFILES
from friday_cli.extensions.profiles import Profile
from friday_cli.llm.providers.recorded import ModelFacts, RecordedError

from .compare import Divergence, Kind, canonical, differences, first_line
from .recording import RecordedCall, RecordedProcess, RecordedRequest, Recording

REFUSED = ": bad arguments: "
"""Is in what a tool answers to arguments that it does not take."""
REALLY_RUN = frozenset(
    (
        TASK_RESULT,
        ASK_USER,
        SKILL,
        SEARCH_PROFILES,
        DELEGATION_RESULT,
        LIST_SUB_AGENTS,
        MESSAGE_SUB_AGENT,
        CANCEL_SUB_AGENT,
    )
)
"""Tools of the engine itself, which run in a replay, beside those that start sub-agents."""


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a replay. `folder`: where the files that steer agents are read. `go_on`: after a divergence, too.
    `runs_hooks`: the hooks of today run. `runs_tools`: so do tools for files and commands, in the sandbox, and `folder` is a copy of the
    recorded one as it was at the start. `watch` gets every event of the replay."""

    folder: Path
    go_on: bool = False
    runs_hooks: bool = False
    runs_tools: bool = False
    watch: Callable[[Envelope], object] = lambda envelope: None
    env: Mapping[str, str] | None = None
    map_tool: Any = None


class ReplayAnswers:
    """Implements `Replies` for one recorded process. A request is compared with the next one that the recording has of its agent; where they differ, that is a divergence, after which the replay ends unless `go_on`."""

    def __init__(self, recording: Recording, process: RecordedProcess, options: ReplayOptions) -> None:
        self.history: Sequence[Envelope] = process.history
        self.divergences: list[Divergence] = []
        self.stopped = asyncio.Event()
        """Set by the first divergence, unless the replay goes on."""
        self.requests = self.calls = 0
        self.same: Callable[[str], str] = canonical((recording.cwd, str(options.folder)))
        self._begun = asyncio.get_running_loop().time()
        """When the replay of the process began."""
        self.now: WorkspaceFound | None = None
        """What the folder has today."""
        self._recording, self._process, self._options = recording, process, options
        self._left = {
            path: deque(request for request in requests if process.first <= request.seq <= process.last)
            for path, requests in recording.requests.items()
        }
        self._checks: dict[str, deque[events.Checked]] = defaultdict(deque)
        """How the checks of ladders ended, by agent."""
        for envelope in recording.envelopes:
            if isinstance(envelope.event, events.Checked) and process.first <= (envelope.seq or 0) <= process.last:
                self._checks[envelope.agent].append(envelope.event)
        self._calls = {
            key: deque(call for call in calls if process.first <= call.seq <= process.last)
            for key, calls in recording.calls.items()
        }
        self._facts = _facts(recording.envelopes)

    # ---- divergences ------------------------------------------------------------------------------

    def report(self, found: Divergence) -> None:
        """A difference from the recording."""
        if self.stopped.is_set():
            return
        self.divergences.append(msgspec.structs.replace(found, cause=found.cause or self._cause(found)))
        if not self._options.go_on:
            self.stopped.set()

    def differs(self, kind: Kind, path: str, what: str) -> None:
        """What an agent does in its turn is not what it did then."""
        self.report(Divergence(kind, path, self.turn_of(path), what))

    def _cause(self, found: Divergence) -> str:
        """What changed since the recording that can explain a difference."""
        if found.kind not in ("prefix", "permission", "hook") or self.now is None:
            return ""
        before, after = self._process.found.steering, self.now.steering
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        if found.kind == "prefix" or len(changed) > 1:  # they have a lot that explains nothing
            changed = [name for name in changed if name != "settings"]
        own = f"profile {self._recording.profiles.get(found.agent, '')}"
        names = [own] if own in changed else changed[:2]
        if names:
            return f"{', '.join(names)} changed since"
        return "a text of Friday changed since" if found.kind == "prefix" else ""

    def turn_of(self, path: str) -> int:
        """The turn that an agent is in, by the recording."""
        left, all_ = self._left.get(path), self._recording.requests.get(path, ())
        index = len(all_) - len(left or ()) - 1
        return all_[index].turn if 0 <= index < len(all_) else 0

    def missing(self) -> list[RecordedRequest]:
        """The next recorded request of each agent that was never made."""
        return [left[0] for left in self._left.values() if left and left[0].event is not None]

    # ---- models -----------------------------------------------------------------------------------

    def facts(self, model: str) -> ModelFacts:
        return self._facts.get(model, ModelFacts())

    async def reply(self, request: Request, model: str) -> ReplyDone | RecordedError | None:
        path, left = request.agent, self._left.get(request.agent)
        if not left:
            if not self._process.killed:
                self.report(Divergence("extra", path, self.turn_of(path) + 1, "a request that was not recorded"))
            return await self._never() if self._process.killed or not self._options.go_on else None
        found = left.popleft()
        if found.event is None and request.text_only and left:  # what was interrupted then was not sent now
            found = left.popleft()
        self.requests += 1
        if model != found.model:
            self.report(Divergence("parameter", path, found.turn, "model", before=found.model, after=model))
        if found.request is not None:
            for different in differences(found.request, request, self.same, turn=found.turn):
                self.report(different)
        if found.event is None or self.stopped.is_set():
            return await self._never()
        await self.until(found.at)
        if found.failure is not None:
            return _failed(found.failure)
        if found.reply is None and not found.stop:
            return await self._never()  # its process died
        return ReplyDone(found.reply or Message("assistant", ()), _unpriced(found.usage), found.stop or "end_turn")  # type: ignore[arg-type]

    async def until(self, at: float) -> None:
        """Wait for a time of the recording, in Unix seconds."""
        await asyncio.sleep(max(0.0, at - self._process.began - asyncio.get_running_loop().time() + self._begun))

    async def _never(self) -> Never:
        """Wait until the request or the call is stopped."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing ends this wait")

    # ---- tools ------------------------------------------------------------------------------------

    def tools(self, tools: dict[str, Tool]) -> dict[str, Tool]:
        return {name: self._recorded(tool) for name, tool in tools.items()}

    def _recorded(self, tool: Tool) -> Tool:
        if isinstance(tool.run, partial) and tool.run.func == self._run:  # a sub-agent inherits its parent's
            return tool
        change = tool.change if self._options.runs_tools else None
        return msgspec.structs.replace(tool, run=partial(self._run, tool), change=change)

    async def _run(self, tool: Tool, ctx: ToolContext, args: Any) -> Output:
        left = self._calls.get((ctx.agent, ctx.call_id))
        found = left.popleft() if left else None
        self.calls += 1
        if found is None:
            if not self._process.killed:
                self._runs_now(tool, ctx)
            return (
                await self._never()
                if self._process.killed or not self._options.go_on
                else Output("Not recorded.", error=True)
            )
        if tool.name in REALLY_RUN or (tool.effect == "spawn" and tool.name != MAP_TASKS):
            return self._compared(await tool.run(ctx, args), found, ctx)
        if found.finished is None:
            await self._never()
        assert found.finished is not None
        ended = found.finished
        if self._options.runs_tools and ended.status in ("ok", "error") and _runs_again(tool, args):
            try:
                output = await tool.run(ctx, args)
            except ToolError as error:
                output = Output(str(error), error=True)
            await self.until(found.ended)
            return self._compared(output, found, ctx)
        await self.until(found.ended)
        output = Output(
            ended.text or "", ended.display, ended.facts, ended.images, error=ended.status == "error", usage=ended.usage
        )
        if ended.status == "denied":
            raise PermissionDenied(ended.text or "")
        if ended.status == "cancelled":
            try:
                await self._never()
            except asyncio.CancelledError:
                return output
        return output

    async def check(self, agent: Agent, profile: Profile) -> events.Checked:
        """The recorded end of the check of a ladder."""
        if left := self._checks[agent.path]:
            return left.popleft()
        if not self._process.killed:
            self.differs("extra", agent.path, f"the check `{profile.check}` runs now; it was not recorded")
        return (
            await self._never()
            if self._process.killed or not self._options.go_on
            else events.Checked(True, "was not run")
        )

    def _runs_now(self, tool: Tool, ctx: ToolContext) -> None:
        hooks = self._recording.hooks.get(ctx.agent, ())
        denied = next((h for h in hooks if h.call_id == ctx.call_id and h.decision in ("deny", "ask", "stop")), None)
        what = f"{tool.name} ({ctx.call_id}) runs now"
        if denied is not None:
            self.differs("hook", ctx.agent, f"{what}; the hook {denied.hook} said {denied.decision} then")
        else:
            self.differs("permission", ctx.agent, f"{what}; it did not run then")

    def _compared(self, output: Output, found: RecordedCall, ctx: ToolContext) -> Output:
        """The output of a call that ran in the replay, with the recorded text if it says the same."""
        if found.finished is None or found.finished.text is None or found.finished.status == "cancelled":
            return output
        old, new = found.finished.text, output.text
        if self.same(old).startswith(self.same(new) + "\n"):
            return output  # what hooks or a person added comes after it again
        name = f"result of {found.started.tool} ({ctx.call_id})"
        kind: Kind = "arguments" if REFUSED in new[:200] and REFUSED not in old[:200] else "result"
        for different in first_line(kind, ctx.agent, self.turn_of(ctx.agent), name, self.same(old), self.same(new)):
            self.report(different)
        return msgspec.structs.replace(output, text=old)


def _runs_again(tool: Tool, args: Any) -> bool:
    """Whether a call can be made again in a sandbox: one of a file, a search, or a command that ended and asked for nothing beyond it."""
    if tool.name == BASH:
        return not args.access and not args.background
    return tool.info.group in ("files", "search")


def _failed(failure: events.AttemptFailed) -> RecordedError:
    usage = None if failure.usage == Usage() else _unpriced(failure.usage)
    error = ProviderError(failure.error, failure.message, retry_after=failure.retry_s, usage=usage)  # type: ignore[arg-type]
    return RecordedError(error, failure.partial)


def _unpriced(usage: Usage) -> Usage:
    """The usage as the service reported it: the engine counts what was sent before, and keeps the recorded cost."""
    again = 0 if usage.cached else usage.cache_read
    return msgspec.structs.replace(usage, input=usage.input + again, cache_read=usage.cache_read - again, charged=True)


def _facts(envelopes: Sequence[Envelope]) -> dict[str, ModelFacts]:
    """What the log says of each model."""
    models: dict[str, str] = {}
    found: dict[str, ModelFacts] = {}
    for envelope in envelopes:
        event = envelope.event
        if isinstance(event, events.Prefix):
            models[envelope.agent] = event.model
        elif isinstance(event, events.TurnStarted) and event.window:
            sent, model = event.request, models.get(envelope.agent, "")
            price = (
                sent.cost_usd / sent.input if sent.cost_usd is not None and sent.input and not sent.cache_read else None
            )
            if model not in found or found[model].input_usd is None:
                price = 0.0 if sent.cost_usd == 0 else price
                found[model] = ModelFacts(event.window, 32_000, price, event.output_usd)
    return found
