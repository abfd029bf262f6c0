"""Live events in the view. Their effect is replaced by the next durable event."""

from __future__ import annotations

from friday_cli.core.protocol.events import CallDelta, TextDelta, ThinkingDelta, ToolOutput

from .items import OUTPUT_KEPT, AgentView, ReplyItem, TextStream


def close_reply(agent: AgentView) -> None:
    """Discard the streamed reply: it is in the transcript, or failed. Later deltas of it are ignored."""
    agent.writing, agent.reply = False, None


def _reply(agent: AgentView, event: TextDelta | ThinkingDelta | CallDelta) -> ReplyItem | None:
    """The reply that a delta belongs to; None if the delta is too late."""
    if not agent.writing or event.turn != agent.turn or event.attempt < agent.attempt:
        return None
    if agent.reply is None or agent.reply.attempt < event.attempt:
        agent.reply = ReplyItem(event.turn, event.attempt)
    return agent.reply if agent.reply.attempt == event.attempt else None


def text(state: object, agent: AgentView, event: TextDelta, at: float) -> None:
    """Add text to the reply."""
    if (reply := _reply(agent, event)) is not None:
        reply.text.put(event.offset, event.text)


def thinking(state: object, agent: AgentView, event: ThinkingDelta, at: float) -> None:
    """Add thinking to the reply."""
    if (reply := _reply(agent, event)) is not None:
        reply.thinking.put(event.offset, event.text)


def call(state: object, agent: AgentView, event: CallDelta, at: float) -> None:
    """Update the number of characters of a call's arguments."""
    if (reply := _reply(agent, event)) is not None:
        reply.calls[event.index] = (event.tool, event.chars)


def output(state: object, agent: AgentView, event: ToolOutput, at: float) -> None:
    """Add output of a running tool."""
    run = agent.open.get(event.call_id)
    if run is not None and run.status == "running":
        run.output = run.output or TextStream(limit=OUTPUT_KEPT)
        run.output.put(event.offset, event.text)
