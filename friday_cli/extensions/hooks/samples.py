"""An input for each event as a hook gets it, for `friday hooks test`."""

from __future__ import annotations

from typing import Any

_BASH = {"tool_name": "Bash", "tool_input": {"command": "git status"}}
_CALL = {**_BASH, "tool_use_id": "call_1"}
_RESPONSE = {
    "stdout": "On branch main",
    "stderr": "",
    "interrupted": False,
    "isImage": False,
    "noOutputExpected": False,
}
_ENDED = {"stop_hook_active": False, "last_assistant_message": "Done.", "background_tasks": [], "session_crons": []}

FIELDS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup", "model": "demo/demo"},
    "UserPromptSubmit": {"prompt": "What does this project do?", "source": "user"},
    "PreToolUse": _CALL,
    "PermissionRequest": {
        **_BASH, "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
    },
    "PostToolUse": {**_CALL, "tool_response": _RESPONSE, "duration_ms": 12},
    "PostToolUseFailure": {**_CALL, "error": "exit 1", "is_interrupt": False, "duration_ms": 12},
    "PostToolBatch": {"tool_calls": [{**_CALL, "tool_response": "On branch main"}]},
    "SubagentStart": {},
    "SubagentStop": {**_ENDED, "agent_transcript_path": ""},
    "Stop": _ENDED,
    "StopFailure": {"stop_hook_active": False, "last_assistant_message": "", "error": "provider", "error_details": ""},
    "Notification": {"message": "Friday is waiting for your input", "title": "Friday", "notification_type": "idle_prompt"},
    "PreCompact": {"trigger": "auto", "custom_instructions": None},
    "PostCompact": {"trigger": "auto", "compact_summary": "The user asked what the project does."},
    "SessionEnd": {"reason": "other"},
    "WorktreeCreate": {"name": "a-1"},
    "WorktreeRemove": {"worktree_path": "/home/me/worktree"},
}  # fmt: skip
_SUBJECTS = {
    "SessionStart": "source", "Notification": "notification_type", "PreCompact": "trigger", "PostCompact": "trigger",
    "SessionEnd": "reason",
}  # fmt: skip


def sample(event: str, cwd: str, agent: str, profile: str) -> dict[str, Any]:
    """The input of `event` for the agent `agent` with the profile `profile`."""
    out: dict[str, Any] = {
        "session_id": "00000000-0000-0000-0000-000000000000",
        "transcript_path": "",
        "cwd": cwd,
        "hook_event_name": event,
        "permission_mode": "default",
    }
    if agent != "a":
        out |= {"agent_id": agent, "agent_type": profile}
    budget = {"tokens_left": 50_000, "cost_left": None}
    own = {
        "version": "",
        "agent": agent,
        "parent": agent.rpartition(".")[0],
        "depth": agent.count("."),
        "profile": profile,
        "task": "look",
        "budget": budget,
    }
    return {**out, **FIELDS[event], "friday": own}


def subjects_of(event: str, given: dict[str, Any]) -> tuple[str, ...]:
    """What the matchers of an event other than a call match in its input."""
    if event in ("SubagentStart", "SubagentStop"):
        return (str(given.get("agent_type", "")),)
    return (str(given.get(_SUBJECTS[event], "")),) if event in _SUBJECTS else ()
