"""The parts that an open session is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack
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
from friday_cli.llm import transport
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

    async def sync(self) -> None:
        """Have the disk keep all that was written."""
        if self.log.failure is None:  # otherwise it was reported that nothing is saved
            await self.ledger.close()
            await self.store.sync()


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

    async def close(self, *, last: bool) -> None:
        """Close every part, also where one of them fails: `last` as in `Session.close`. Raises the last error."""
        shared, storage = self.shared, self.storage
        async with AsyncExitStack() as ends:  # in the opposite order
            ends.push_async_callback(storage.store.close)
            ends.callback(storage.ownership.release)
            ends.push_async_callback(storage.sync)
            if last:
                ends.push_async_callback(transport.aclose_all)
            if storage.telemetry is not None:
                ends.push_async_callback(storage.telemetry.close)
            ends.push_async_callback(storage.log.close)
            ends.push_async_callback(shared.services.workspace.close)
            ends.push_async_callback(shared.isolation.close)
            if shared.services.code is not None:
                ends.push_async_callback(shared.services.code.close)
            if shared.servers is not None:
                ends.push_async_callback(shared.servers.close)
            if shared.services.hooks is not None:
                ends.push_async_callback(shared.services.hooks.close, self.tree.root)
