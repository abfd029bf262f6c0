"""A session as Friday's JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from friday_cli.core.text.sanitize import clean

from ..items import AgentView
from ..state import SessionView
from .recorded_session import RecordedSession


def dump(document: dict[str, Any]) -> str:
    """A document as JSON that ends with a newline; all strings in it are sanitized and masked."""
    return json.dumps(clean(msgspec.to_builtins(document)), ensure_ascii=False, indent=2) + "\n"


def as_json(session: RecordedSession) -> str:
    """All agents and all events."""
    state = SessionView.of(session.envelopes)
    return dump(
        {
            "schema": 1,
            "session_id": state.session,
            "cwd": state.cwd,
            "friday_version": session.version,
            "agents": [agent_json(state, agent) for agent in state.agents.values() if agent.run],
            "events": session.envelopes,
        }
    )


def agent_json(state: SessionView, agent: AgentView) -> dict[str, Any]:
    """An agent and its usage as JSON. The strings are not sanitized or masked."""
    return {
        **{name: getattr(agent, name) for name in ("path", "parent", "profile", "task", "model", "status")},
        **end_json(agent),
        "runs": agent.run,
        "turns": agent.turns,
        "context_tokens": agent.context,
        "window_tokens": agent.window or None,
        "usage": msgspec.structs.asdict(agent.usage),
        "tree_usage": msgspec.structs.asdict(state.usage_of(agent.path)),
        "duration_s": agent.active_s(state.at),
        "receipt": agent.receipt,
    }


def end_json(agent: AgentView) -> dict[str, Any]:
    """How the newest run of an agent ended, as JSON. The strings are not sanitized or masked."""
    end = agent.end
    return {
        "stop_reason": end.stop_reason if end else None,
        "result": agent.result,
        "error": end.error if end else "",
        "partial": end is not None and end.partial,
        "findings": end.findings if end else (),
        "earlier_result": agent.earlier.text if agent.earlier else None,
    }
