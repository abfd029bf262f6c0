"""What a dead process left: its tries are charged, and what they returned before it died is kept."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from friday_cli.agents.output_schema import unfenced
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, WorktreeChanged
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.tool_info import OF_ITEM
from friday_cli.store.records import AgentRow
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path

from .engine import Engine
from .job import MapJob
from .store import ItemRow, MapStore


async def recover(store: MapStore, engine: Engine, job: MapJob, env: Mapping[str, str]) -> None:
    """End the tries of dead processes in the folder. The log of their session has what was paid, with an estimate of a request
    whose reply was lost, and the result of an agent that had ended."""
    left = [row for row in await store.running() if row.batch == job.id or not store.runs(row.batch)]
    if not left:
        return
    async with Store(store_path(env)) as sessions:
        await sessions.reconcile()
        for session in {row.session for row in left}:
            try:
                agents: list[AgentRow] | None = await sessions.agents(await sessions.find(session))
            except UsageError:
                agents = None
            for row in (row for row in left if row.session == session):
                await store.finish(row.key, row.batch, await _ended(sessions, session, agents, row, job))


async def _ended(sessions: Store, session: str, agents: list[AgentRow] | None, row: ItemRow, job: MapJob) -> ItemRow:
    """How a try ended, by the log of its session. Without the log it is charged with all that it may have cost."""
    if agents is None:
        return ItemRow(row.key, "waiting", cost=row.reserved, error="the log of its session is gone")
    tries = (agent for agent in agents if agent.call_id.rpartition(OF_ITEM)[2] == row.key[:32])
    mine = max(tries, key=lambda agent: agent.started, default=None)
    if mine is None:
        return ItemRow(row.key, "waiting", error="its process ended before it began")
    used = sum((agent.usage for agent in agents if is_under(agent.path, mine.path)), Usage())
    known = ItemRow(
        row.key, "waiting", agent=f"{session}:{mine.path}", cost=used.cost_usd or 0.0, tokens=used.billed,
        active_s=mine.active_s, error="its process ended while it ran",
    )  # fmt: skip
    if mine.status == "completed" and mine.stop_reason in ("", "done"):
        events = await sessions.events(session, agent=mine.path)
        end = next((e.event for e in reversed(events) if isinstance(e.event, AgentFinished)), None)
        if end is not None and end.stop_reason == "done":
            text = unfenced(end.result).strip() if row.batch == job.id and job.schema is not None else end.result
            worktree = next((e.event for e in reversed(events) if isinstance(e.event, WorktreeChanged)), None)
            branch = worktree.branch if worktree is not None and worktree.state in ("opened", "changed") else ""
            facts = "; ".join(end.receipt.facts())
            return replace(known, state="done", result=text, error="", receipt=facts, branch=branch)
    return known
