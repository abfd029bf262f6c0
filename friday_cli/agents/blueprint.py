"""What an agent is made of, complete before it is made: nothing is set from outside afterwards."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from friday_cli.core.agent.agent import Agent, Conversation, Inbox, Supervision
from friday_cli.core.eventlog.log import Log
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.events import AnyEvent, ToolSpec
from friday_cli.core.protocol.provider import Effort, Provider
from friday_cli.core.protocol.run_result import RESULT_CHARS
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.workspace import Workspace

from .caller import Caller, CallerProvider
from .tool_sources import NewAgent


class AgentBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an agent starts with."""

    new: NewAgent
    """Who it is: its tree, path, profile and model."""
    profile: str
    """The name of its profile, which the main agent has without one too."""
    system: str
    specs: tuple[ToolSpec, ...]
    """The tools that its prompt describes."""
    tools: dict[str, Tool]
    """The tools that it may call."""
    rules: Rules
    budget: Budget
    workspace: Workspace
    parent: Agent | None = None
    """The agent that starts it; None for the main agent."""
    caller: Caller | None = None
    """The program that makes its calls instead of the model; None: the model does."""
    max_depth: int
    """How deep the agents below it may be nested."""
    max_turns: int
    """Turns of one run."""
    time_s: float
    """Active seconds of one run; 0: no limit."""
    result_chars: int = RESULT_CHARS
    """Characters of its result that its parent reads at once."""
    effort: Effort | None
    temperature: float | None
    fallback: Provider | None
    """The model that answers if the first one does not."""
    supervision: Supervision
    """Who checks its result."""
    start_events: tuple[AnyEvent, ...]
    """Logged right after its first start."""


def make_agent(blueprint: AgentBlueprint, log: Log, notes: Callable[[str], list[str]]) -> Agent:
    """The agent. `notes` lists the worktrees of an agent for its compacted history."""
    new = blueprint.new
    tree, path = new.tree, new.path
    caller = blueprint.caller
    sends_nothing = caller is not None and caller.alone
    conversation = Conversation(
        CallerProvider(caller, new.provider) if caller else new.provider,
        "" if sends_nothing else blueprint.system,
        blueprint.specs,
        blueprint.tools,
        blueprint.profile,
        effort=blueprint.effort,
        temperature=blueprint.temperature,
        fallback=None if sends_nothing else blueprint.fallback,
    )
    return Agent(
        path=path,
        profile=blueprint.profile,
        conversation=conversation,
        rules=blueprint.rules,
        budget=blueprint.budget,
        slot=RunSlot(path, log=log, slots=tree.slots if blueprint.parent else None),
        inbox=Inbox(path, log),
        workspace=blueprint.workspace,
        max_turns=blueprint.max_turns,
        time_s=blueprint.time_s,
        max_depth=blueprint.max_depth,
        supervision=blueprint.supervision,
        accept=new.check or (lambda text: ""),
        parent=blueprint.parent,
        subagent_notes=lambda: "\n".join([*tree.notes(path), *notes(path)]),
        start_events=list(blueprint.start_events),
        result_chars=blueprint.result_chars,
    )
