"""Messages to an external agent while its program answers a prompt."""

from __future__ import annotations

from typing import Any

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.loop import drain_inbox
from friday_cli.jsonrpc.connection import RpcError

from .connection import AcpConnection, ProgramFailed

METHOD = "_session/steering"
STEER_S = 10.0
"""Seconds that a program has to take a message."""


def is_offered(features: dict[str, Any]) -> bool:
    """Whether a program takes messages during a prompt: an extension of Claude Code's and Codex's adapters."""
    meta = features.get("_meta")
    steering = meta.get("steering") if isinstance(meta, dict) else None
    return isinstance(steering, dict) and steering.get("supported") is True


async def pass_on(agent: Agent, services: Services, connection: AcpConnection, session: str, left: list[str]) -> None:
    """Add the unread messages to the history, and give them to the program. What it did not take, or not before a stop, is in `left`: it
    belongs into the next prompt."""
    history = agent.conversation.history
    known = len(history)
    await drain_inbox(agent, services)
    texts = [message.text for message in history[known:] if message.role == "user" and message.text]
    if not texts:
        return
    left += texts
    params = {
        "sessionId": session,
        "prompt": [{"type": "text", "text": "\n\n".join(texts)}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},  # else it would begin a turn that nobody waits for
    }
    try:
        answer = await connection.request(METHOD, params, STEER_S)
    except (RpcError, ProgramFailed):
        return
    if isinstance(answer, dict) and answer.get("outcome") == "injected":
        del left[-len(texts) :]
