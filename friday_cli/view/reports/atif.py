"""A session as ATIF v1.7, Harbor's Agent Trajectory Interchange Format (RFC 0001 of harbor-framework/harbor)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from friday_cli.core.protocol import events
from friday_cli.core.protocol.events import Compacted, Envelope, Prefix
from friday_cli.core.protocol.messages import Image, Message, Thinking, ToolCall, ToolResult, Usage

from ..items import AgentView
from ..state import SessionView
from .json_report import dump, end_json
from .recorded_session import RecordedSession

ATIF = "ATIF-v1.7"


def as_atif(session: RecordedSession) -> str:
    """The trajectory of the main agent, with those of its sub-agents inside."""
    state = SessionView.of(session.envelopes)
    by_agent: dict[str, list[Envelope]] = {}
    for envelope in session.envelopes:
        by_agent.setdefault(envelope.agent, []).append(envelope)

    def trajectory(agent: AgentView) -> dict[str, Any]:
        document = _AgentSteps(state, agent, session.version).build(by_agent.get(agent.path, []))
        children = [trajectory(state.agents[path]) for path in agent.children]
        if children:
            document["subagent_trajectories"] = children
        return document

    return dump(trajectory(state.root or AgentView("a")))


class _AgentSteps:
    """Computes the ATIF steps of one agent from its events."""

    def __init__(self, state: SessionView, agent: AgentView, version: str) -> None:
        self._state, self._agent, self._version = state, agent, version
        self._steps: list[dict[str, Any]] = []
        self._reply: dict[str, Any] | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._durations: dict[str, float] = {}
        self._model = self._system = ""
        self._tools: list[dict[str, Any]] = []

    def build(self, envelopes: Sequence[Envelope]) -> dict[str, Any]:
        """The agent's trajectory as JSON, without those of its children."""
        for envelope in envelopes:
            match envelope.event:
                case events.AgentStarted(model=model):
                    self._model = model
                case Prefix() as prefix:
                    self._prefix(prefix, envelope.at)
                case events.MessageAdded(message=message):
                    self._message(message, envelope.at)
                case events.ToolFinished(call_id=call_id, duration_s=duration):
                    self._durations[call_id] = duration
                case events.TurnFinished(usage=usage) if self._reply is not None:
                    self._reply["metrics"] = _metrics(usage)
                case Compacted() as compacted:
                    self._compacted(compacted, envelope.at)
        if not self._steps:
            self._add("user", self._agent.task, self._agent.started)
        return self._document()

    def _document(self) -> dict[str, Any]:
        agent, state = self._agent, self._state
        software: dict[str, Any] = {"name": "friday", "version": self._version}
        if agent.model:
            software["model_name"] = agent.model
        if self._tools:
            software["tool_definitions"] = self._tools
        software["extra"] = {"profile": agent.profile, "path": agent.path}
        usage, tree = agent.usage, state.usage_of(agent.path) if agent.path in state.agents else agent.usage
        final = _metrics(usage)
        return {
            "schema_version": ATIF,
            "session_id": state.session,
            "trajectory_id": self._name(agent.path),
            "agent": software,
            "steps": self._steps,
            "final_metrics": {
                **{f"total_{name}": final[name] for name in _TOTALS if name in final},
                "total_steps": len(self._steps),
                "extra": {"tree": _metrics(tree), "duration_s": agent.active_s(state.at), "turns": agent.turns},
            },
            "extra": {"task": agent.task, "status": agent.status, **end_json(agent), "receipt": agent.receipt},
        }

    def _name(self, path: str) -> str:
        return f"{self._state.session}:{path}"

    def _add(self, source: str, message: str, at: float, **more: Any) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        step = {"step_id": len(self._steps) + 1, "timestamp": stamp, "source": source, "message": message, **more}
        self._steps.append(step)
        return step

    def _prefix(self, prefix: Prefix, at: float) -> None:
        self._model = prefix.model
        self._tools = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in prefix.tools
        ]
        if prefix.system != self._system:
            self._system = prefix.system
            self._add("system", prefix.system, at)

    def _compacted(self, event: Compacted, at: float) -> None:
        self._reply = None
        text = "\n\n".join(message.text for message in event.messages if message.text)
        change = {"type": "compaction", "tokens_before": event.before, "tokens_after": event.after}
        self._add("system", text, at, extra={"context_management": change})

    def _message(self, message: Message, at: float) -> None:
        if message.role == "tool":
            for result in message.results:
                self._result(result)
        elif message.role == "user":
            self._reply = None
            more = {} if message.source == "person" else {"extra": {"from": message.source}}
            self._add("user", _message_text(message), at, **more)
        else:
            self._reply = step = self._add("agent", message.text, at, model_name=self._model or self._agent.model)
            thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
            if thinking:
                step["reasoning_content"] = thinking
            if message.calls:
                step["tool_calls"] = [_call(call) for call in message.calls]
            self._calls = {call.id: step for call in message.calls}

    def _result(self, result: ToolResult) -> None:
        step = self._calls.get(result.call_id)
        if step is None:
            return
        entry: dict[str, Any] = {"source_call_id": result.call_id, "content": _with_images(result.text, result.images)}
        run = self._agent.calls.get(result.call_id)
        if run is not None and run.agents:
            entry["subagent_trajectory_ref"] = [
                {"trajectory_id": self._name(path), "session_id": self._state.session} for path in run.agents
            ]
        entry["extra"] = {"status": result.status, "duration_s": self._durations.get(result.call_id, 0.0)}
        step.setdefault("observation", {"results": []})["results"].append(entry)


_TOTALS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


def _metrics(usage: Usage) -> dict[str, Any]:
    """ATIF metrics: prompt tokens include cache reads and writes; an unknown cost is left out."""
    found: dict[str, Any] = {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
    }
    if usage.cost_usd is not None:
        found["cost_usd"] = usage.cost_usd
    extra = {"reasoning_tokens": usage.reasoning, "cache_write_tokens": usage.cache_write, "estimated": usage.estimated}
    return found | {"extra": extra}


def _call(call: ToolCall) -> dict[str, Any]:
    found: dict[str, Any] = {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
    if call.error:
        found["extra"] = {"error": call.error, "raw": call.raw}
    return found


def _message_text(message: Message) -> str:
    return _with_images(message.text, [part for part in message.parts if isinstance(part, Image)])


def _with_images(text: str, images: Sequence[Image]) -> str:
    """`text` with a placeholder for each image: ATIF refers to images by path, but Friday stores them in the log."""
    placeholders = [f"[{image.media_type}, {len(image.data) * 3 // 4} bytes, omitted]" for image in images]
    return "\n".join([text, *placeholders] if text else placeholders)
