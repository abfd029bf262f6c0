"""What a hook reads on its standard input: the fields of Claude Code, and those of Friday below the key `friday`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from friday_cli import __version__
from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.agent_path import depth_of, parent_of
from friday_cli.core.protocol.messages import Message
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.tool_catalog import BASH, EDIT_FILE, GLOB, GREP, LIST_DIR, READ_FILE, WRITE_FILE

MODES = {"ask": "default", "edits": "acceptEdits", "plan": "plan", "auto": "auto", "yolo": "bypassPermissions"}
"""Our permission modes in `permission_mode`."""
_WITHOUT_MODE = frozenset(("SessionStart", "SubagentStart", "SessionEnd"))
_WITHOUT_EFFORT = frozenset(("SessionStart", "UserPromptSubmit", "SubagentStart", "SessionEnd"))


class HookInputs:
    """Makes the inputs of a session's hooks. `folder` returns the folder for the transcripts."""

    def __init__(self, session: str, folder: Callable[[], Path]) -> None:
        self.tasks: dict[str, str] = {}
        """The task of each agent's newest run."""
        self._session = session
        self._folder = folder
        self._written: dict[str, tuple[int, int]] = {}
        self._prompts = 0

    def new_prompt(self) -> None:
        """A prompt of the person begins."""
        self._prompts += 1

    def build(self, event: str, agent: Agent, fields: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        """The input for `event` of `agent`. Blocks shortly: the newest messages are added to the transcript."""
        main = agent
        while main.parent is not None:
            main = main.parent
        out: dict[str, Any] = {
            "session_id": self._session,
            "transcript_path": self.transcript(main),
            "cwd": str(agent.workspace.root),
            "hook_event_name": event,
        }
        if event != "SessionStart":
            out["prompt_id"] = str(uuid5(NAMESPACE_URL, f"{self._session}/{self._prompts}"))
        if event not in _WITHOUT_MODE:
            out["permission_mode"] = MODES[agent.rules.effective_mode]
        if event not in _WITHOUT_EFFORT:
            out["effort"] = {"level": agent.conversation.effort or "medium"}
        if agent.parent is not None:
            out |= {"agent_id": agent.path, "agent_type": agent.profile}
        tokens, cost = agent.budget.left("tokens"), agent.budget.left("cost")
        own = {
            "version": __version__,
            "agent": agent.path,
            "parent": parent_of(agent.path),
            "depth": depth_of(agent.path),
            "profile": agent.profile,
            "task": self.tasks.get(agent.path, ""),
            "model": agent.model,
            "budget": {
                "tokens_left": None if tokens == float("inf") else int(tokens),
                "cost_left": None if cost == float("inf") else cost,
            },
        }
        return {**out, **fields, "friday": {**own, **ours}}

    def transcript(self, agent: Agent) -> str:
        """The path of the transcript of `agent` as JSON lines, with its messages so far; "" if it cannot be written."""
        conversation = agent.conversation
        try:
            top = self._folder()
            path = top / "transcript.jsonl" if agent.parent is None else top / "subagents" / f"agent-{agent.path}.jsonl"
            known, count = self._written.get(agent.path, (0, 0))
            new = known != id(conversation.history) or count > len(conversation.history)
            rows = conversation.history[0 if new else count :]
            if rows or new:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if new else os.O_APPEND)
                with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                    file.write(b"".join(self._row(agent, message) for message in rows))
            self._written[agent.path] = id(conversation.history), len(conversation.history)
        except OSError:
            return ""
        return str(path)

    def _row(self, agent: Agent, message: Message) -> bytes:
        content: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        content += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.calls]
        content += [
            {"type": "tool_result", "tool_use_id": r.call_id, "content": r.text, "is_error": r.status != "ok"}
            for r in message.results
        ]
        role = "assistant" if message.role == "assistant" else "user"
        row = {
            "type": role,
            "message": {"role": role, "content": content},
            "sessionId": self._session,
            "cwd": str(agent.workspace.root),
            "isSidechain": agent.parent is not None,
        }
        return msgspec.json.encode(row) + b"\n"


def delegation_response(prompt: str, summary: Any, text: str) -> dict[str, Any]:
    """`tool_response` of a delegation: what the harness saw of the sub-agent `summary` (an `AgentSummary`)."""
    usage, receipt = summary.usage, summary.receipt
    return {
        "status": summary.status,
        "prompt": prompt,
        "agentId": summary.path,
        "agentType": summary.profile,
        "toolsUsed": list(receipt.tools),
        "content": [{"type": "text", "text": summary.end.text if summary.end else text}],
        "resolvedModel": summary.model,
        "totalDurationMs": int(summary.duration_s * 1000),
        "totalTokens": usage.input + usage.output + usage.cache_read + usage.cache_write,
        "totalToolUseCount": sum(receipt.tools.values()),
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        },
        "toolStats": _tool_stats(receipt),
        "canContinueAgent": True,
    }


def _tool_stats(receipt: Receipt) -> dict[str, int]:
    kinds = {
        "readCount": (READ_FILE, LIST_DIR),
        "searchCount": (GREP, GLOB),
        "bashCount": (BASH,),
        "editFileCount": (EDIT_FILE, WRITE_FILE),
    }
    found = {name: sum(receipt.tools.get(tool, 0) for tool in tools) for name, tools in kinds.items()}
    return {
        **found,
        "linesAdded": sum(change.added for change in receipt.files),
        "linesRemoved": sum(change.removed for change in receipt.files),
        "otherToolCount": sum(receipt.tools.values()) - sum(found.values()),
    }
