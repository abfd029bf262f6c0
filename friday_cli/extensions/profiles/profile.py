"""What a profile is: a prompt with an allowlist and limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from friday_cli.core.protocol.provider import Effort
from friday_cli.tool_catalog import MEMORY_LOAD, MEMORY_SAVE, TOOLS

Origin = Literal["user", "project", "claude", "shipped"]
Memory = Literal["none", "read", "tagged"]
MEMORIES: tuple[Memory, ...] = get_args(Memory)
Mode = Literal["ask", "edits", "plan", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)
Supervision = Literal["unsupervised", "supervised", "supervised-human"]
SUPERVISION: tuple[Supervision, ...] = get_args(Supervision)

TURNS, TURNS_HARD = 20, 100
"""Turns of a child whose profile names none, and the most that any gets."""
TOKENS_HARD = 200_000
"""The most tokens a profile may ask for where the settings name no other cap."""
TOKENS_USEFUL = 10_000
"""With fewer tokens than this a child seldom gets to a result."""


class Profile(msgspec.Struct, frozen=True):
    """A kind of sub-agent.

    `allowed_tools`: None = not set (`TOOLS.by_default`), () = none, "*" = whatever the parent has. `only` and `deny` are
    rules such as `bash(git *)`: a tool named in `only` runs for these alone. `timeout` is in active seconds, `max_cost`
    in US dollars; None = the settings' default. `model`, `effort` and `mode` empty = the parent's. `supervision` can
    only be stricter than the parent's; `isolation` is "worktree" for a git worktree of its own. `sub_agents` names whom
    it may delegate to, "*" = anyone. `project_context` puts AGENTS.md into its prompt. `imported` marks a file written
    for another tool. `notices` are remarks.
    """

    name: str
    description: str
    prompt: str
    max_token_budget: int | None = None
    allowed_tools: tuple[str, ...] | Literal["*"] | None = None
    disallowed_tools: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_iterations: int | None = None
    timeout: float | None = None
    max_cost: float | None = None
    model: str = ""
    effort: Effort | Literal[""] = ""
    sub_agents: tuple[str, ...] | Literal["*"] = ()
    memory: Memory = "read"
    mode: Mode | Literal[""] = ""
    supervision: Supervision | Literal[""] = ""
    isolation: Literal["", "worktree"] = ""
    project_context: bool = False
    path: str = ""
    origin: Origin = "user"
    imported: bool = False
    notices: tuple[str, ...] = ()

    def select(self, parent: Iterable[str]) -> tuple[str, ...]:
        """The tools of an agent with this profile, out of its parent's, in their order.

        Delegation tools are in exactly when `sub_agents` names someone; that the depth allows it is for the caller to
        see to. `task_result`, which a parent's set need not have, is the harness's to add.
        """
        return tuple(name for name in parent if self._has(name))

    def _has(self, name: str) -> bool:
        if name in self.disallowed_tools:
            return False
        if name in TOOLS.granted_by("sub_agents"):
            return bool(self.sub_agents)
        if name == MEMORY_SAVE and self.memory != "tagged":
            return False
        if name == MEMORY_LOAD and self.memory == "none":
            return False
        if self.allowed_tools == "*":
            return True
        return name in (TOOLS.by_default if self.allowed_tools is None else self.allowed_tools)

    def may_delegate_to(self, name: str) -> bool:
        """Whether an agent with this profile may start one with profile `name`."""
        return self.sub_agents == "*" or name in self.sub_agents
