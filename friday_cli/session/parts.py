"""The parts that an open session is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from friday_cli.agents.agent_factory import AgentFactory
from friday_cli.agents.caller import Caller
from friday_cli.agents.shared_resources import SharedResources
from friday_cli.agents.sub_agents import SubAgentChoice
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import PromptNotes
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.store.ledger import SessionLedger
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import SandboxChoice

from .permissions import SessionPermissions

if TYPE_CHECKING:
    from friday_cli.telemetry.session import SessionTelemetry


class SessionStorage(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The storage of an open session."""

    id: str
    store: Store
    ownership: Ownership
    """The right to write to the session."""
    log: Log
    ledger: SessionLedger
    since: int
    """The number of the last event before this opening."""
    taint: TaintTracker
    """What the agents have read so far."""
    telemetry: SessionTelemetry | None
    """Sends the spans of the session; None if the environment asks for none."""


class SessionParts(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The parts of an open session."""

    storage: SessionStorage
    shared: SharedResources
    workspace: LocalWorkspace
    sandbox: SandboxChoice
    tree: SubagentTree
    factory: AgentFactory
    rules: Rules
    permissions: SessionPermissions
    notes: PromptNotes
    problems: list[str]
    """What was wrong while the parts were made, for the person."""
    sub_agents: SubAgentChoice
    changes: WorktreeChanges
    """The changes of worktrees, as a person applies or discards them."""
    caller: Caller | None
    """The program that makes calls of the main agent."""
