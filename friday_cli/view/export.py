"""Exports a session as Markdown, Friday's JSON or ATIF v1.7.

ATIF is Harbor's Agent Trajectory Interchange Format (RFC 0001 of harbor-framework/harbor). In all formats control
characters are removed, and text that looks like a secret is masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from friday_cli.core.protocol import events
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.events import Compacted, Envelope, Prefix
from friday_cli.core.protocol.messages import Image, Message, Thinking, ToolCall, ToolResult, Usage
from friday_cli.core.text.sanitize import code_block, mask, sanitize, sanitize_line

from .items import AgentView, Item, MessageItem, NoteItem, ResultItem, finding_text
from .state import SessionView
from .tree import render_tree

Format = Literal["md", "json", "atif"]
FORMS: tuple[Format, ...] = get_args(Format)
ATIF = "ATIF-v1.7"


def export(envelopes: Sequence[Envelope], form: Format, *, version: str, title: str = "") -> str:
    """The session of `envelopes` (durable, in order) as text that ends with a newline. `version` is Friday's version.
    `title` heads the Markdown, by default the first prompt."""
    if form == "md":
        return _markdown(envelopes, version, title)
    return (_json if form == "json" else _atif)(envelopes, version)


def clean(value: Any) -> Any:
    """`value` with all strings in it, including the keys of objects, sanitized and masked."""
    if isinstance(value, str):
        return mask(sanitize(value))
    if isinstance(value, dict):
        return {clean(name): clean(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(clean(msgspec.to_builtins(document)), ensure_ascii=False, indent=2) + "\n"


# ---- Friday's JSON ----------------------------------------------------------------------------------------------


def _json(envelopes: Sequence[Envelope], version: str) -> str:
    state = SessionView.of(envelopes)
    return _dump(
        {
            "schema": 1,
            "session_id": state.session,
            "cwd": state.cwd,
            "friday_version": version,
            "agents": [agent_json(state, agent) for agent in state.agents.values() if agent.run],
            "events": envelopes,
        }
    )


def agent_json(state: SessionView, agent: AgentView) -> dict[str, Any]:
    """An agent and its usage as JSON. The strings are not sanitized or masked."""
    return {
        **{name: getattr(agent, name) for name in ("path", "parent", "profile", "task", "model", "status")},
        **_end_json(agent),
        "runs": agent.run,
        "turns": agent.turns,
        "context_tokens": agent.context,
        "window_tokens": agent.window or None,
        "usage": msgspec.structs.asdict(agent.usage),
        "tree_usage": msgspec.structs.asdict(state.usage_of(agent.path)),
        "duration_s": agent.active_s(state.at),
        "receipt": agent.receipt,
    }


def _end_json(agent: AgentView) -> dict[str, Any]:
    end = agent.end
    return {
        "stop_reason": end.stop_reason if end else None,
        "result": agent.result,
        "error": end.error if end else "",
        "partial": end is not None and end.partial,
        "findings": end.findings if end else (),
        "earlier_result": agent.earlier.text if agent.earlier else None,
    }


# ---- Markdown ---------------------------------------------------------------------------------------------------


def _markdown(envelopes: Sequence[Envelope], version: str, title: str) -> str:
    state = SessionView.of(envelopes)
    tasks = (e.event.task for e in envelopes if isinstance(e.event, events.AgentStarted) and not e.event.parent)
    title = sanitize_line(title or next(tasks, ""), 100)
    out = [f"# {_inline(title) or 'A session without a task'}", ""]
    out += [f"Session {_code(state.session)} in {_code(state.cwd)}, written by Friday {version}.", ""]
    out.append(code_block("\n".join(render_tree(state))))
    for agent in state.agents.values():
        if agent.run:
            out += ["", *_transcript(agent)]
    return mask("\n".join(out).rstrip() + "\n")


def agent_markdown(agent: AgentView) -> str:
    """The conversation of one agent as Markdown that ends with a newline."""
    return mask("\n".join(_transcript(agent)).rstrip() + "\n")


def _transcript(agent: AgentView) -> list[str]:
    out = [f"## {agent.path} {_inline(sanitize_line(agent.profile, 40))}", ""]
    for item in agent.transcript:
        out += _item(item)
    return out


def _item(item: Item) -> list[str]:
    if isinstance(item, MessageItem):
        who = "Friday" if item.role == "assistant" else {"person": "You"}.get(item.source, item.source.capitalize())
        images = f" ({item.images} images omitted)" if item.images else ""
        body = _quote(f"{item.text}{images}") if item.text or images else []
        return [f"### {who}", "", *_details("Thinking", item.thinking), *body, ""]
    if isinstance(item, ResultItem):
        receipt = [_inline(sanitize_line(row, 400)) for row in item.receipt.lines()]
        findings = [_inline(sanitize_line(finding_text(finding), 1000)) for finding in item.findings]
        return ["### Result", "", *_quote(item.text), "", *(f"- {row}" for row in (*findings, *receipt)), ""]
    if isinstance(item, NoteItem):
        return [f"*{item.level}: {_inline(sanitize_line(item.text, 400))}*", ""]
    head = f"**{_inline(sanitize_line(item.label, 60))}** {_code(sanitize_line(item.title, 200)) if item.title else ''}".rstrip()
    children = f", started {', '.join(item.agents)}" if item.agents else ""
    arguments = json.dumps(clean(item.arguments), ensure_ascii=False)
    shown = item.display.diff if isinstance(item.display, DiffDisplay) else item.text
    language = "diff" if isinstance(item.display, DiffDisplay) else ""
    blocks = [f"{head} ({item.status}{children})", code_block(arguments, "json"), code_block(shown, language)]
    return [row for block in blocks for row in (block, "")]


def _inline(text: str) -> str:
    """One line of untrusted text with all Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>#|!~&$])", r"\\\1", text)


def _code(text: str) -> str:
    text = sanitize(text, keep="")
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`" if text else "-"


def _quote(text: str) -> list[str]:
    """Untrusted Markdown as a quote, so that it cannot imitate a heading of the transcript."""
    return [f"> {row}".rstrip() for row in sanitize(text).split("\n")]


def _details(title: str, text: str) -> list[str]:
    return [f"{title}:", "", code_block(text), ""] if text.strip() else []


# ---- ATIF -------------------------------------------------------------------------------------------------------


def _atif(envelopes: Sequence[Envelope], version: str) -> str:
    state = SessionView.of(envelopes)
    by_agent: dict[str, list[Envelope]] = {}
    for envelope in envelopes:
        by_agent.setdefault(envelope.agent, []).append(envelope)

    def trajectory(agent: AgentView) -> dict[str, Any]:
        document = _AgentSteps(state, agent, version).build(by_agent.get(agent.path, []))
        children = [trajectory(state.agents[path]) for path in agent.children]
        if children:
            document["subagent_trajectories"] = children
        return document

    return _dump(trajectory(state.root or AgentView("a")))


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
            "extra": {"task": agent.task, "status": agent.status, **_end_json(agent), "receipt": agent.receipt},
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
