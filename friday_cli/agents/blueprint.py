"""What an agent is made of, complete before it is made. Only a run changes it afterwards (`core/subagents/run.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from friday_cli.core.agent.agent import Agent, Conversation, Supervision
from friday_cli.core.agent.inbox import Inbox
from friday_cli.core.eventlog.log import Log
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.events import AnyEvent
from friday_cli.core.protocol.profile_rights import ProfileRights
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.run_result import RESULT_CHARS
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.resume import EarlierRuns
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.profiles import Profile


class NewAgent(msgspec.Struct, frozen=True):
    """An agent that is being made, as the sources of its tools see it."""

    tree: SubagentTree
    path: str
    profile: Profile | None
    """None for a main agent without one."""
    provider: Provider
    rules_above: Rules
    """The rights of the agent that starts it; those of the session for the main agent."""
    targets: tuple[Profile, ...]
    """The profiles that it may delegate to."""
    inherited: Mapping[str, Tool] | None = None
    """What the agent that starts it may call; None for the main agent, which gets what the session has."""
    check: Callable[[str], str] | None = None
    """Says what is wrong with its result, "" for nothing; None if the result may be any text."""

    @property
    def model(self) -> str:
        return f"{self.provider.name}/{self.provider.model}"


def profile_of(new: NewAgent) -> Profile:
    """The profile of a sub-agent."""
    assert new.profile is not None, "a sub-agent has one"
    return new.profile


class AgentBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an agent starts with."""

    new: NewAgent
    """Who it is: its tree, path, profile and model."""
    profile: str
    """The name of its profile, which the main agent has without one too."""
    conversation: Conversation
    """Empty for a new agent; a fork has that of its parent, a resumed agent its own."""
    earlier: EarlierRuns = msgspec.field(default_factory=EarlierRuns)
    rules: Rules
    budget: Budget
    workspace: Workspace
    parent: Agent | None = None
    """The agent that starts it; None for the main agent."""
    max_depth: int
    """How deep the agents below it may be nested."""
    max_turns: int
    """Turns of one run."""
    time_s: float
    """Active seconds of one run; 0: no limit."""
    result_chars: int = RESULT_CHARS
    """Characters of its result that its parent reads at once."""
    supervision: Supervision
    """Who checks its result."""
    profile_rights: ProfileRights | None
    """What its profile lets it do; None for a main agent without one."""
    start_events: tuple[AnyEvent, ...]
    """Logged right after its first start."""


def make_agent(blueprint: AgentBlueprint, log: Log, notes: Callable[[str], list[str]]) -> Agent:
    """The agent. `notes` lists the worktrees of an agent for its compacted history."""
    new, earlier = blueprint.new, blueprint.earlier
    tree, path = new.tree, new.path
    return Agent(
        path=path,
        profile=blueprint.profile,
        conversation=blueprint.conversation,
        rules=blueprint.rules,
        budget=blueprint.budget,
        slot=RunSlot(path, log=log, slots=tree.slots if blueprint.parent else None),
        inbox=Inbox(path, log, earlier.unread),
        workspace=blueprint.workspace,
        max_turns=blueprint.max_turns,
        time_s=blueprint.time_s,
        max_depth=blueprint.max_depth,
        supervision=blueprint.supervision,
        profile_rights=blueprint.profile_rights,
        accept=new.check or (lambda text: ""),
        parent=blueprint.parent,
        subagent_notes=lambda: "\n".join([*tree.notes(path), *notes(path)]),
        usage=earlier.usage,
        below=earlier.below,
        receipt_builder=earlier.receipt_builder,
        run=earlier.run,
        start_events=list(blueprint.start_events),
        result_chars=blueprint.result_chars,
    )
