"""Folds the events of a session into spans: of runs, requests to models and tool calls. A live session and an export of its
log give the same ids, because they are made of the session, the path of the agent and the number of the event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from friday_cli.core.protocol import events
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.tool_info import ASK_USER

from . import attributes as names
from .span import Span, SpanContext, SpanEvent, hashed, remote


class _Agent(msgspec.Struct, eq=False):
    """What is open of one agent. `last_run` is the newest run, also after its end. `calls` are the ids of all its calls.
    `used` and `tree` are its usage up to the end of its last run; `own` is that of the log's events so far. `at` is the
    time of its newest event. When content is captured, `unsent` are the messages since its last request and `arguments`
    those of the calls that have not begun."""

    run: Span | None = None
    last_run: SpanContext | None = None
    chat: Span | None = None
    failed: events.AttemptFailed | None = None
    tools: dict[str, Span] = {}
    calls: dict[str, SpanContext] = {}
    arguments: dict[str, dict[str, Any]] = {}
    model: str = ""
    used: Usage = Usage()
    tree: Usage = Usage()
    own: Usage = Usage()
    at: float = 0.0
    unsent: list[Message] = []


class SpanFold:
    """Takes all durable events of a session, in order, and gives each span that has ended to `ended`. `content`: spans have
    prompts, arguments and results."""

    def __init__(self, ended: Callable[[Span], object], *, session: str = "", content: bool = False) -> None:
        self._ended, self._content, self._session = ended, content, session
        self._origin, self._copied = session, 0
        self._agents: dict[str, _Agent] = {}
        self._asks: dict[str, Span] = {}
        """The spans of calls that wait for a person, by the id of the question."""

    def traceparent(self, path: str, call_id: str = "") -> str:
        """The `traceparent` of a call of an agent, without one that of its request or run; "" before its first run."""
        agent = self._agents.get(path)
        if agent is None:
            return ""
        found = agent.calls.get(call_id) or (agent.chat.context if agent.chat else agent.last_run)
        return found.traceparent if found else ""

    def apply(self, envelope: Envelope) -> None:
        """Take the next event."""
        event, path, at = envelope.event, envelope.agent, envelope.at
        agent = self._agents.setdefault(path, _Agent())
        match event:
            case events.SessionStarted():
                self._session = event.session
                self._origin, self._copied = (event.forked or event.session), event.taken
            case events.AgentStarted():
                self._run_started(agent, envelope, event)
            case events.Prefix(model=model):
                agent.model = model
                if agent.run and self._content and event.system:
                    system = [{"type": "text", "content": event.system}]
                    agent.run.attributes[names.SYSTEM] = names.as_json(system)
            case events.TurnStarted():
                self._chat_ended(agent, at)
                agent.chat = self._chat(agent, envelope, at)
            case events.AttemptFailed():
                self._attempt_failed(agent, event, at)
            case events.TurnFinished():
                self._turn_finished(agent, event, at)
            case events.MessageAdded(message=message):
                self._message(agent, envelope, message)
            case events.Compacted() | events.CacheRefreshed() | events.IntentStated() | events.Verdict() if (
                event.usage != Usage()
            ):
                self._other_request(agent, envelope, event)
            case events.AgentFinished():
                self._run_finished(agent, event, at)
            case _:
                self._tool_event(agent, envelope)
        if isinstance(event, events.WITH_USAGE):
            agent.own += event.usage
        agent.at = at

    def _context(self, agent: _Agent, envelope: Envelope, *more: str) -> SpanContext:
        """The ids of a span below the agent's run that begins with this event."""
        run = agent.last_run
        span = hashed(64, self._session_of(envelope), envelope.agent, envelope.seq, *more)
        if run is None:
            return SpanContext(hashed(128, self._session_of(envelope), envelope.agent, "no run"), span)
        return SpanContext(run.trace, span, run.sampled)

    def _session_of(self, envelope: Envelope) -> str:
        """The session whose event it was first: a fork has copies."""
        return self._origin if (envelope.seq or 0) <= self._copied else self._session

    # ---- runs ------------------------------------------------------------------------

    def _run_started(self, agent: _Agent, envelope: Envelope, event: events.AgentStarted) -> None:
        above = self._agents.get(event.parent)
        parent = (above.calls.get(event.call_id) or above.last_run) if above else None
        if parent is None and event.traceparent:
            parent = remote(event.traceparent)
        key = self._session_of(envelope), envelope.agent, envelope.seq
        trace, sampled = (parent.trace, parent.sampled) if parent else (hashed(128, *key, "trace"), True)
        agent.last_run = SpanContext(trace, hashed(64, *key), sampled)
        about = names.of_agent(self._session, envelope.agent, event)
        name = f"invoke_agent {event.profile}"
        agent.run = Span(name, agent.last_run, parent, "internal", envelope.at, about)
        agent.model = event.model
        agent.unsent.clear()

    def _run_finished(self, agent: _Agent, event: events.AgentFinished, at: float) -> None:
        self._chat_ended(agent, at)
        for call_id in list(agent.tools):
            self._tool_ended(agent, call_id, at, "interrupted")
        run, agent.run = agent.run, None
        total = event.usage if event.usage != Usage() else agent.own
        if run is not None:
            used = _difference(total, agent.used)
            run.attributes |= {
                **names.of_usage(used),
                "friday.agent.status": event.status,
                "friday.agent.reason": event.stop_reason,
            }
            if used.cost_usd is not None:
                run.attributes[names.AGENT_COST] = used.cost_usd
            if event.tree_usage != Usage() and (cost := _difference(event.tree_usage, agent.tree).cost_usd) is not None:
                run.attributes[names.SUBTREE_COST] = cost
            self._finish(run, at, "" if event.status == "completed" else event.stop_reason)
        agent.used = agent.own = total
        agent.tree = event.tree_usage if event.tree_usage != Usage() else agent.tree

    # ---- requests --------------------------------------------------------------------

    def _chat(self, agent: _Agent, envelope: Envelope, start: float, *, model: bool = True) -> Span:
        about = {names.OPERATION: "chat", names.PATH: envelope.agent, **(names.of_model(agent.model) if model else {})}
        name = f"chat {about[names.REQUEST_MODEL]}" if model else "chat"
        return Span(name, self._context(agent, envelope), agent.last_run, "client", start, about)

    def _turn_finished(self, agent: _Agent, event: events.TurnFinished, at: float) -> None:
        if (chat := agent.chat) is None:
            return
        used = names.of_model(agent.model)  # a fallback model may have answered
        chat.attributes |= {**names.of_usage(event.usage), names.RESPONSE_MODEL: used[names.REQUEST_MODEL]}
        chat.attributes |= {names.PROVIDER: used[names.PROVIDER]}
        self._add_cost(chat, event.usage)
        if event.stop:
            chat.attributes[names.FINISH_REASONS] = (event.stop,)
        agent.chat = agent.failed = None
        self._finish(chat, at)

    def _attempt_failed(self, agent: _Agent, event: events.AttemptFailed, at: float) -> None:
        if (chat := agent.chat) is None:
            return
        about: dict[str, Any] = {names.ERROR_TYPE: event.error, "friday.attempt": event.attempt}
        if event.retry_s is not None:
            about["friday.retry_s"] = event.retry_s
        chat.events.append(SpanEvent("attempt_failed", at, about))
        self._add_cost(chat, event.usage)
        agent.failed = event

    def _chat_ended(self, agent: _Agent, at: float) -> None:
        """End a request without a reply."""
        chat, failed = agent.chat, agent.failed
        agent.chat = agent.failed = None
        if chat is not None:
            self._finish(chat, chat.events[-1].at if failed else at, failed.error if failed else "cancelled")

    def _other_request(
        self,
        agent: _Agent,
        envelope: Envelope,
        event: events.Compacted | events.CacheRefreshed | events.IntentStated | events.Verdict,
    ) -> None:
        """A request outside of turns. When it began is not logged: the time of the agent's event before it counts."""
        chat = self._chat(agent, envelope, agent.at or envelope.at, model=not isinstance(event, events.Verdict))
        chat.attributes |= {**names.of_usage(event.usage), "friday.request": events.kind(event)}
        self._add_cost(chat, event.usage)
        self._finish(chat, envelope.at)

    def _add_cost(self, span: Span, usage: Usage) -> None:
        for name, cost in names.of_cost(usage).items():
            span.attributes[name] = span.attributes.get(name, 0.0) + cost

    # ---- calls -----------------------------------------------------------------------

    def _message(self, agent: _Agent, envelope: Envelope, message: Message) -> None:
        for call in message.calls:
            agent.calls[call.id] = self._context(agent, envelope, call.id)
            if self._content:
                agent.arguments[call.id] = call.arguments
        if not self._content:
            return
        if message.role == "assistant" and agent.chat is not None:
            agent.chat.attributes[names.INPUT] = names.of_messages(agent.unsent)
            agent.chat.attributes[names.OUTPUT] = names.of_messages([message])
            agent.unsent.clear()
        elif message.role != "assistant":
            agent.unsent.append(message)

    def _tool_event(self, agent: _Agent, envelope: Envelope) -> None:
        at = envelope.at
        match envelope.event:
            case events.ToolStarted(call_id=call_id, tool=name) | events.Denied(call_id=call_id, tool=name):
                self._tool(agent, envelope, call_id, name)
            case events.PermissionAsked(id=ask, call_id=call_id, tool=name):
                self._asks[ask] = tool = self._tool(agent, envelope, call_id, name)
                tool.events.append(SpanEvent("permission_asked", at, {}))
            case events.QuestionAsked(id=ask, call_id=call_id):
                self._asks[ask] = tool = self._tool(agent, envelope, call_id, ASK_USER)
                tool.events.append(SpanEvent("question_asked", at, {}))
            case events.PermissionAnswered(id=ask, decision=decision, by=by):
                self._answered(ask, SpanEvent("permission_answered", at, {"decision": decision, "by": by}))
            case events.QuestionAnswered(id=ask):
                self._answered(ask, SpanEvent("question_answered", at, {}))
            case events.AskWithdrawn(id=ask):
                self._answered(ask, SpanEvent("ask_withdrawn", at, {}))
            case events.ToolFinished() as done:
                tool = self._tool(agent, envelope, done.call_id, done.tool)
                if done.usage != Usage():
                    self._add_cost(tool, done.usage)
                if self._content and done.text is not None:
                    tool.attributes[names.RESULT] = names.as_json(done.text)
                self._tool_ended(agent, done.call_id, at, "" if done.status == "ok" else done.status)

    def _tool(self, agent: _Agent, envelope: Envelope, call_id: str, name: str) -> Span:
        """The span of a call, which begins with the first event that names it."""
        if call_id not in agent.tools:
            context = agent.calls.get(call_id) or self._context(agent, envelope, call_id)
            about = names.of_tool(name, call_id) | {names.PATH: envelope.agent}
            if self._content and call_id in agent.arguments:
                about[names.ARGUMENTS] = names.as_json(agent.arguments.pop(call_id))
            tool = Span(f"execute_tool {name}", context, agent.last_run, "internal", envelope.at, about)
            agent.calls[call_id], agent.tools[call_id] = context, tool
        return agent.tools[call_id]

    def _answered(self, ask: str, event: SpanEvent) -> None:
        if tool := self._asks.pop(ask, None):
            tool.events.append(event)

    def _tool_ended(self, agent: _Agent, call_id: str, at: float, error: str) -> None:
        self._finish(agent.tools.pop(call_id), at, error)

    def _finish(self, span: Span, at: float, error: str = "") -> None:
        span.end, span.error = max(at, span.start), error
        if error:
            span.attributes[names.ERROR_TYPE] = error
        self._ended(span)


def _difference(total: Usage, before: Usage) -> Usage:
    """The usage between two totals; the cost is None if one of them is."""
    known = total.cost_usd is not None and before.cost_usd is not None
    cost = max(0.0, (total.cost_usd or 0.0) - (before.cost_usd or 0.0)) if known else None
    return Usage(
        input=max(0, total.input - before.input),
        cache_read=max(0, total.cache_read - before.cache_read),
        cache_write=max(0, total.cache_write - before.cache_write),
        output=max(0, total.output - before.output),
        cost_usd=cost,
    )
