"""What the events of a session are to an ACP client: updates of the session and of the sessions of its sub-agents."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from friday_cli.core.protocol import events
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.format import how_it_ended
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall
from friday_cli.core.protocol.run_result import StopReason
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, TASK_RESULT
from friday_cli.core.text.sanitize import code_block, sanitize_line
from friday_cli.core.tool_catalog import DELEGATE_TASKS
from friday_cli.jsonrpc.connection import INTERNAL_ERROR
from friday_cli.view import AgentView, SessionView
from friday_cli.view.items import ToolRun

from .content import call_content, call_fields, text_block

OUTPUT_EVERY_S = 0.5
"""Seconds between two updates with the output of one running command."""
OUTPUT_CHARS = 8_000
"""Characters of it, from its end."""
PLAN = "todo"
DELEGATIONS = (DELEGATE_TASK, DELEGATE_TASKS)
_STATUS = {"ok": "completed", "error": "failed", "denied": "failed", "cancelled": "failed"}
_PLAN = {"pending": "pending", "active": "in_progress", "done": "completed"}

Update = tuple[str, dict[str, Any]]
"""The id of a session and an update of it."""


class ClientAbilities(msgspec.Struct, frozen=True):
    """What the client said that it understands."""

    subagents: bool = False
    notices: bool = False
    compaction: bool = False
    forms: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ClientAbilities:
        """From `clientCapabilities`. What is not an object counts as not understood."""

        def has(*path: str) -> bool:
            at: Any = given
            for name in path:
                at = at.get(name) if isinstance(at, dict) else None
            return isinstance(at, dict)

        return cls(
            has("subagents"), has("session", "notices"), has("session", "compaction"), has("elicitation", "form")
        )


def stop_reason(reason: StopReason, status: str) -> str:
    """How a run ended, as one of ACP's reasons."""
    if status in ("cancelled", "interrupted") or reason in ("cancelled", "aborted", "parent"):
        return "cancelled"
    return {"iterations": "max_turn_requests", "tokens": "max_tokens", "refusal": "refusal"}.get(reason, "end_turn")


class SessionUpdates:
    """Folds the events of one session, and says what each is to the client. `id`: the session's id for the client, to which the
    paths of sub-agents are appended. `cwd`: its folder."""

    def __init__(self, session_id: str, cwd: str, client: ClientAbilities) -> None:
        self.id, self.cwd, self.client = session_id, cwd, client
        self.view = SessionView()
        self._announced: set[str] = set()
        self._streamed: dict[str, tuple[int, int]] = {}
        self._cards: dict[tuple[str, str], ToolRun] = {}
        """The calls whose cards have no end yet, by agent and call."""
        self._refused: set[tuple[str, str]] = set()
        self._printed: dict[tuple[str, str], float] = {}

    def session_of(self, path: str) -> str:
        """The id of an agent's session. Without sub-agents in the client everything is about one session."""
        return self.id if path == "a" or not self.client.subagents else self.child_id(path)

    def child_id(self, path: str) -> str:
        """The id of a sub-agent."""
        return f"{self.id}.{path}"

    def path_of(self, session_id: str) -> str | None:
        """The agent whose session this is, None if it is not of this session."""
        if session_id == self.id:
            return "a"
        path = session_id.removeprefix(f"{self.id}.")
        return path if path != session_id and path in self.view.agents else None

    def apply(self, envelope: Envelope, *, replayed: bool = False) -> list[Update]:
        """The updates that an event is. `replayed`: the client does not know the messages of the person either."""
        self.view.apply(envelope)
        agent = self.view.agents.get(envelope.agent)
        if agent is None:
            return []
        return list(self._updates(agent, envelope.event, replayed))

    def _updates(self, agent: AgentView, event: events.Event, replayed: bool) -> Iterator[Update]:
        here = self.session_of(agent.path)
        speaks = agent.path == "a" or self.client.subagents
        match event:
            case events.AgentStarted() if agent.parent:
                yield from self._child_started(agent, event)
            case events.AgentFinished() if agent.parent:
                yield from self._child_ended(agent, event)
            case events.TextDelta(turn=turn, attempt=attempt, text=text) if speaks and text:
                self._streamed[agent.path] = turn, attempt
                yield here, _chunk("agent_message_chunk", text, f"{agent.path}:{agent.run}.{turn}.{attempt}")
            case events.ThinkingDelta(turn=turn, attempt=attempt, text=text) if speaks and text:
                yield here, _chunk("agent_thought_chunk", text, f"{agent.path}:{agent.run}.{turn}.{attempt}:thought")
            case events.MessageAdded(message=message):
                yield from self._message(agent, message, replayed, speaks=speaks)
            case (
                events.ToolStarted(call_id=call_id)
                | events.Denied(call_id=call_id)
                | events.ToolFinished(call_id=call_id)
            ):
                yield from self._call(agent, call_id, event)
            case events.ToolOutput(call_id=call_id):
                yield from self._output(agent, call_id)
            case events.PermissionAsked() | events.QuestionAsked():
                run = agent.calls.get(event.call_id)
                if run is not None and (agent.path, run.call_id) not in self._cards:
                    yield self._open_card(agent, run)
                yield from self._state(agent, {"state": "requires_action"})
            case events.PermissionAnswered() | events.QuestionAnswered() | events.AskWithdrawn():
                if not any(ask.agent == agent.path for ask in self.view.asks.values()) and not agent.ended:
                    yield from self._state(agent, {"state": "running"})
            case events.TurnFinished():
                yield from self._usage(agent)
            case events.WorktreeChanged(state="opened", folder=folder) if self.client.subagents and agent.parent:
                yield self._above(agent), {"sessionUpdate": "subagent_update", "sessionId": here, "cwd": folder}
            case events.Compacted() if self.client.compaction and speaks:
                number = f"{agent.path}:{self.view.seq}"
                yield here, {"sessionUpdate": "compaction_update", "compactionId": number, "status": "completed"}
            case events.Notice(text=text, level=level):
                yield from self._notice(here, text, level)

    # ---- sub-agents ------------------------------------------------------------------

    def _above(self, agent: AgentView) -> str:
        return self.session_of(agent.parent)

    def _child_started(self, agent: AgentView, event: events.AgentStarted) -> Iterator[Update]:
        title = f"{sanitize_line(agent.profile, 40)}: {sanitize_line(agent.task, 80)}"
        if not self.client.subagents:
            card = {"toolCallId": _card_id(agent), "title": title, "kind": "think", "status": "in_progress"}
            yield self.id, {"sessionUpdate": "tool_call", **card, "_meta": _zed(self.child_id(agent.path))}
            return
        child, above = self.child_id(agent.path), self._above(agent)
        update: dict[str, Any] = {"sessionUpdate": "subagent_update", "sessionId": child}
        if agent.path not in self._announced:
            self._announced.add(agent.path)
            update |= {"title": title, "description": sanitize_line(agent.profile, 80), "capabilities": {"cancel": {}}}
        yield above, {**update, "state": {"state": "running"}}
        if event.parent and (event.run == 1 or event.call_id):
            yield from _between(f"{agent.path}:{event.run}:task", above, child, event.task)

    def _child_ended(self, agent: AgentView, event: events.AgentFinished) -> Iterator[Update]:
        text = event.result or event.error or how_it_ended(event.status, event.stop_reason)
        receipt = "\n".join(event.receipt.lines())
        if not self.client.subagents:
            shown = [text_block(text), *([text_block(receipt)] if receipt else [])]
            card = {"toolCallId": _card_id(agent), "status": "completed" if event.success else "failed"}
            content = [{"type": "content", "content": block} for block in shown]
            more = {"content": content, "_meta": _zed(self.child_id(agent.path))}
            yield self.id, {"sessionUpdate": "tool_call_update", **card, **more}
            return
        child, above = self.child_id(agent.path), self._above(agent)
        yield from self._usage(agent)
        if event.result:  # what it returned by its last call is in no message of its own
            meta = {"friday": {"receipt": msgspec.to_builtins(event.receipt), "status": event.status}}
            yield from _between(f"{agent.path}:{event.run}:result", child, above, text, receipt, meta=meta)
        if event.status == "failed":
            yield child, _chunk("agent_message_chunk", f"[failed: {text}]", f"{agent.path}:{event.run}:failed")
        yield above, {"sessionUpdate": "subagent_update", "sessionId": child, "state": _idle(event)}

    def _state(self, agent: AgentView, state: dict[str, Any]) -> Iterator[Update]:
        if agent.parent and self.client.subagents:
            update = {"sessionUpdate": "subagent_update", "sessionId": self.child_id(agent.path), "state": state}
            yield self._above(agent), update

    # ---- messages and calls ----------------------------------------------------------

    def _message(self, agent: AgentView, message: Message, replayed: bool, *, speaks: bool) -> Iterator[Update]:
        here = self.session_of(agent.path)
        for result in message.results:  # a call that did not run has no event for its end
            if (run := self._cards.pop((agent.path, result.call_id), None)) is not None:
                yield here, self._call_update(agent, run, status="failed", content=_content(result.text))
            elif result.status != "ok" and (run := agent.calls.get(result.call_id)) is not None:
                yield from self._refused_delegation(agent, run, result.text)
        if message.role == "user":
            if replayed and agent.path == "a" and message.source == "person" and message.text:
                yield here, _chunk("user_message_chunk", message.text, f"a:{self.view.seq}:person")
            elif agent.parent and self.client.subagents and message.source == "person" and message.text:
                yield here, _chunk("user_message_chunk", message.text, f"{agent.path}:{self.view.seq}:person")
            return
        if speaks and agent.path not in self._streamed:
            for part in message.parts:
                if isinstance(part, Thinking) and part.text:
                    yield here, _chunk("agent_thought_chunk", part.text, f"{agent.path}:{self.view.seq}:thought")
                elif isinstance(part, Text) and part.text:
                    yield here, _chunk("agent_message_chunk", part.text, f"{agent.path}:{self.view.seq}")
        self._streamed.pop(agent.path, None)
        for part in message.parts:
            if isinstance(part, ToolCall) and (run := agent.calls.get(part.id)) is not None:
                yield from self._card(agent, run)

    def _card(self, agent: AgentView, run: ToolRun) -> Iterator[Update]:
        """The card of a call; none for delegations, which are the cards of the sub-agents, for the plan and for a result."""
        if run.tool in (PLAN, TASK_RESULT, *DELEGATIONS) or (agent.parent and not self.client.subagents):
            return
        yield self._open_card(agent, run)

    def _open_card(self, agent: AgentView, run: ToolRun) -> Update:
        """The card of a call. A call without one gets it with a question about it, which a client shows until the call has ended."""
        self._cards[agent.path, run.call_id] = run
        fields = call_fields(run, self.cwd)
        if agent.parent:
            fields["_meta"] = {**fields["_meta"], "claudeCode": {"parentToolUseId": _card_id(agent)}}
        card = {"sessionUpdate": "tool_call", **self._own(agent, fields), "status": "pending"}
        return self.session_of(agent.path), card

    def _own(self, agent: AgentView, fields: dict[str, Any]) -> dict[str, Any]:
        """Models count calls from 1 in each agent; a client may compare ids over all sessions."""
        return {**fields, "toolCallId": self.call_id(agent.path, fields["toolCallId"])}

    def call_id(self, path: str, call_id: str) -> str:
        """The id of a call of an agent for the client."""
        return call_id if path == "a" else f"{path}:{call_id}"

    def _call(self, agent: AgentView, call_id: str, event: events.Event) -> Iterator[Update]:
        run = agent.calls.get(call_id)
        if run is None:
            return
        if run.tool == PLAN and isinstance(event, events.ToolFinished) and (not agent.parent or self.client.subagents):
            yield self.session_of(agent.path), _plan(run)
        yield from self._progress(agent, run, event)
        key = agent.path, call_id
        if key not in self._cards:
            if isinstance(event, events.Denied):
                yield from self._refused_delegation(agent, run, event.reason)
            return
        update = self._call_update(agent, run)
        match event:
            case events.ToolStarted():
                update["status"] = "in_progress"
            case events.Denied(reason=reason):
                update |= {"status": "failed", "content": _content(f"Not permitted: {reason}")}
            case events.ToolFinished(display=display, text=text, status=status):
                shown = call_content(display, text or "", self.cwd)
                update |= {"status": _STATUS.get(status, "failed"), "content": shown, "rawOutput": {"text": text or ""}}
                if found := [path for change in event.facts.files if (path := change.path)]:
                    update["_meta"] = {**update["_meta"], "friday": {"files": found}}
        if not isinstance(event, events.ToolStarted):
            del self._cards[key]
        yield self.session_of(agent.path), update

    def _call_update(self, agent: AgentView, run: ToolRun, **more: Any) -> dict[str, Any]:
        fields = self._own(agent, call_fields(run, self.cwd))
        return {"sessionUpdate": "tool_call_update", **fields, **more}

    def _refused_delegation(self, agent: AgentView, run: ToolRun, why: str) -> Iterator[Update]:
        """A delegation that started nothing has a card of its own, as no sub-agent has one for it."""
        key, hidden = (agent.path, run.call_id), agent.parent and not self.client.subagents
        if run.tool not in DELEGATIONS or run.agents or key in self._refused or hidden:
            return
        self._refused.add(key)
        card = {**self._own(agent, call_fields(run, self.cwd)), "status": "failed", "content": _content(why)}
        yield self.session_of(agent.path), {"sessionUpdate": "tool_call", **card}

    def _progress(self, agent: AgentView, run: ToolRun, event: events.Event) -> Iterator[Update]:
        """The call of a sub-agent, as a line in its card, for a client without sub-agents."""
        if agent.parent and not self.client.subagents and isinstance(event, events.ToolStarted):
            lines = [f"{one.label} {sanitize_line(one.title, 100)}".rstrip() for one in list(agent.calls.values())[-5:]]
            card = {"toolCallId": _card_id(agent), "status": "in_progress", "content": _content("\n".join(lines))}
            yield self.id, {"sessionUpdate": "tool_call_update", **card}

    def _output(self, agent: AgentView, call_id: str) -> Iterator[Update]:
        key, now = (agent.path, call_id), time.monotonic()
        run = self._cards.get(key)
        if run is None or run.output is None or now - self._printed.get(key, 0.0) < OUTPUT_EVERY_S:
            return
        self._printed[key] = now
        shown = code_block(run.output.text[-OUTPUT_CHARS:], "console")
        update = {"toolCallId": self.call_id(*key), "status": "in_progress", "content": _content(shown)}
        yield self.session_of(agent.path), {"sessionUpdate": "tool_call_update", **update}

    # ---- the rest --------------------------------------------------------------------

    def _usage(self, agent: AgentView) -> Iterator[Update]:
        """The context of an agent, and the cost of it and all below it."""
        if not agent.window or (agent.parent and not self.client.subagents):
            return
        spent = self.view.usage_of(agent.path).cost_usd
        cost = {} if spent is None else {"cost": {"amount": round(spent, 6), "currency": "USD"}}
        yield (
            self.session_of(agent.path),
            {"sessionUpdate": "usage_update", "used": agent.context, "size": agent.window, **cost},
        )

    def _notice(self, here: str, text: str, level: str) -> Iterator[Update]:
        if self.client.notices:
            yield here, {"sessionUpdate": "notice", "severity": level, "title": sanitize_line(text, 2_000) or level}
        elif level != "info":
            yield (
                here,
                _chunk("agent_message_chunk", f"[{level}: {sanitize_line(text, 2_000)}]\n", f"notice:{self.view.seq}"),
            )


def _idle(event: events.AgentFinished) -> dict[str, Any]:
    """The state of a sub-agent whose run ended so."""
    reason = stop_reason(event.stop_reason, event.status)
    if reason != "end_turn" or event.status == "completed":
        return {"state": "idle", "stopReason": reason}
    why = event.error or how_it_ended(event.status, event.stop_reason)
    return {
        "state": "idle",
        "stopReason": "error",
        "error": {"code": INTERNAL_ERROR, "message": sanitize_line(why, 500)},
    }


def _card_id(agent: AgentView) -> str:
    """The card of a sub-agent's run for a client without sub-agents."""
    return f"agent:{agent.path}" if agent.run <= 1 else f"agent:{agent.path}:{agent.run}"


def _chunk(kind: str, text: str, message: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": message, "content": text_block(text)}


def _content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": text_block(text)}]


def _plan(run: ToolRun) -> dict[str, Any]:
    items = run.arguments.get("items")
    entries = [
        {
            "content": sanitize_line(str(item.get("text", "")), 300),
            "priority": "medium",
            "status": _PLAN.get(str(item.get("status")), "pending"),
        }
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict)
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def _between(
    message: str, sender: str, recipient: str, *texts: str, meta: dict[str, Any] | None = None
) -> Iterator[Update]:
    """A message from one session to another, in both transcripts."""
    content = [text_block(text) for text in texts if text]
    both: dict[str, Any] = {
        "sessionUpdate": "session_message",
        "messageId": message,
        "senderSessionId": sender,
        "recipientSessionId": recipient,
        "content": content,
        **({"_meta": meta} if meta else {}),
    }
    yield sender, {**both, "recipientMessageId": message}
    yield recipient, {**both, "senderMessageId": message}


def _zed(session_id: str) -> dict[str, Any]:
    """Where Zed, without sub-agents of the protocol, looks for one."""
    return {"subagent_session_info": {"session_id": session_id, "message_start_index": 0, "message_end_index": None}}
