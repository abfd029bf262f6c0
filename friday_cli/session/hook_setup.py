"""Makes the hooks of a session from the files of the person and of a trusted project."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.hooks import Hooks
from friday_cli.core.protocol.events import Envelope, SessionStarted
from friday_cli.core.subagents.node import SpawnEstimate
from friday_cli.extensions.hooks import hook_files, read_hooks
from friday_cli.extensions.trust import Trust
from friday_cli.workspace.local import LocalWorkspace

from .agent_tools import AgentTools
from .hook_input import HookInputs
from .hook_process import HookProcesses
from .session_hooks import SessionHooks


def make_hooks(
    trust: Trust,
    settings: Settings,
    env: Mapping[str, str],
    services: Services,
    session: str,
    tools: AgentTools,
    workspace: LocalWorkspace,
) -> tuple[SessionHooks | None, list[str]]:
    """The hooks of a session, None if there are none, and lines for the person about those that cannot be used."""
    files = hook_files(env, trust.root if trust.ok else None, trust.files, claude=settings.hooks.claude)
    hooks, problems = read_hooks(files)
    unconfined = settings.sandbox.kind == "none"
    if any(hook.source == "project" for hook in hooks) and not unconfined and not workspace.sandbox_access(""):
        problems.append("No sandbox works here, so the project's hooks do not run.")
        hooks = [hook for hook in hooks if hook.source == "user" or hook.blocks]
    if not hooks:
        return None, problems

    def estimate(agent: Agent, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The sub-agents that a call starts, and the most that they may cost in US dollars; None if a price is unknown."""
        tasks = arguments.get("tasks", [arguments])
        prices = [
            tools.highest_cost(SpawnEstimate(agent.provider, str(task.get("profile", "")), _tokens(task)))
            for task in tasks if isinstance(task, dict)
        ]  # fmt: skip
        cost = None if None in prices else sum(price for price in prices if price is not None)
        return {"agents": len(prices), "max_cost": cost}

    def folder() -> Path:
        return workspace.overflow.folder() / "hooks"

    processes = HookProcesses(env, Path(os.path.realpath(trust.root)), unconfined=unconfined)
    inputs = HookInputs(session, folder)
    return SessionHooks(hooks, processes, inputs, services, estimate=estimate), problems


async def announce(hooks: Hooks, main: Agent, history: Sequence[Envelope]) -> list[str]:
    """Run the hooks of SessionStart. `history`: the events before this opening. Returns context for the model."""
    first = next((e.event for e in history if isinstance(e.event, SessionStarted)), None)
    source: Literal["startup", "resume", "fork"] = "startup" if first is None else "fork" if first.forked else "resume"
    return list(filter(None, [await hooks.session_started(main, source)]))


def _tokens(task: Mapping[str, Any]) -> int | None:
    tokens = task.get("max_tokens")
    return tokens if isinstance(tokens, int) else None
