"""The parts that an open session is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from friday_cli.agents.agent_factory import AgentFactory
from friday_cli.agents.caller import Caller
from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.agents.skills import SessionSkills
from friday_cli.agents.sub_agents import SubAgentChoice
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.agent.agent import Services
from friday_cli.core.eventlog.log import Log
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.store.ledger import SessionLedger
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import SandboxChoice

from .permissions import SessionPermissions

if TYPE_CHECKING:
    from friday_cli.mcp.pool import ServerPool
    from friday_cli.telemetry.session import SessionTelemetry


class SessionParts(msgspec.Struct, eq=False):
    """The parts of an open session. `notes` are for the model with the next prompt. `since`: number of the last event before
    this opening. `profiles`: names of all profiles. `changes` are
    the worktrees' changes as a person applies or discards them. `caller`: the program that makes calls of the main agent."""

    id: str
    store: Store
    ownership: Ownership
    log: Log
    services: Services
    tree: SubagentTree
    rules: Rules
    permissions: SessionPermissions
    notes: list[str]
    since: int
    profiles: tuple[str, ...]
    sub_agents: SubAgentChoice
    isolation: WorktreeIsolation
    changes: WorktreeChanges
    workspace: LocalWorkspace
    sandbox: SandboxChoice
    servers: ServerPool | None
    telemetry: SessionTelemetry | None
    skills: SessionSkills
    caller: Caller | None
    factory: AgentFactory
    ledger: SessionLedger
