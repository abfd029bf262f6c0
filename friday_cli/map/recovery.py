"""What a dead process left: its tries are charged, and what they returned before it died is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from friday_cli.agents.output_schema import unfenced
from friday_cli.core.eventlog.agent_fold import AgentState, fold_event
from friday_cli.core.limits.budget import USUAL_REPLY
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import (
    AgentFinished,
    Envelope,
    RequestSent,
    TurnFinished,
    TurnStarted,
    WorktreeChanged,
)
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.tool_info import OF_ITEM
from friday_cli.store.records import StoredAgent
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path

from .charges import ItemRow
from .store import MapStore

_Began = TurnStarted | RequestSent
TURNS = 1_000
"""Events of requests in a session from which the usual reply of a batch is known."""


class UsualRequest(msgspec.Struct, frozen=True):
    """What requests of a batch usually are: `output` tokens of a reply, and the input in US dollars for each dollar of its estimate.
    `item` are tokens and US dollars of a whole one, None if none is done."""

    output: float = USUAL_REPLY
    input_ratio: float = 1.0
    item: tuple[int, float] | None = None

    def missing(self, lost: _Began) -> tuple[int, float]:
        """Tokens and US dollars of a request whose reply was lost, beside the estimate of its input."""
        sent = lost.request
        more = (sent.cost_usd or 0.0) * (self.input_ratio - 1) + self.output * (lost.output_usd or 0.0)
        return int(sent.context * (self.input_ratio - 1) + self.output), more


async def recover(store: MapStore, env: Mapping[str, str], *, own: str = "") -> None:
    """End the tries of dead processes in the folder. `own`: a batch that this process runs. The log of their session has what was
    paid and the result of an agent that had ended; a request whose reply was lost is charged with its input and a usual reply."""
    left = [row for row in await store.running() if row.batch == own or not store.runs(row.batch)]
    if not left:
        return
    jobs = {batch.id: batch.job for batch in await store.batches()}
    async with Store(store_path(env)) as sessions:
        await sessions.reconcile()
        usual = {batch: await _usual(store, sessions, batch) for batch in {row.batch for row in left}}
        for session in set(map(_session, left)):
            agents = await _agents(sessions, session)
            for row in (row for row in left if _session(row) == session):
                job = jobs.get(row.batch)
                deferred = job is not None and bool(job.deferred) and not (row.reserved or row.reserved_tokens)
                as_json = job is not None and job.schema is not None
                ended = await _ended(sessions, agents, row, usual[row.batch], as_json=as_json)
                await store.finish(_as_deferred(ended) if deferred else ended, row.batch)


def _session(row: ItemRow) -> str:
    """The session with the log of a try: its own, or that of the process."""
    return row.agent.partition(":")[0] or row.session


def _as_deferred(ended: ItemRow) -> ItemRow:
    """The end of a try whose replies were paid when they were collected; its next try reads the same ones."""
    if ended.state == "waiting":
        ended = replace(ended, cost=0.0, tokens=0)
    return replace(ended, estimated=0.0, charged=False)


async def _agents(sessions: Store, session: str) -> list[StoredAgent] | None:
    try:
        return await sessions.agents(await sessions.find(session))
    except UsageError:
        return None


async def _usual(store: MapStore, sessions: Store, batch: str) -> UsualRequest:
    """The usual request of a batch, from the replies in its newest sessions."""
    named, item = await store.usual(batch)
    found: list[tuple[_Began, Usage]] = []
    for session in named:
        if await _agents(sessions, session) is not None and len(found) < TURNS // 3:
            found += _replies(await sessions.newest(session, ("turn_started", "request_sent", "turn_finished"), TURNS))
    if not found:
        return UsualRequest(item=item)
    expected = sum(began.request.cost_usd or 0.0 for began, _ in found)
    paid = sum((usage.cost_usd or 0.0) - usage.output * (began.output_usd or 0.0) for began, usage in found)
    output = sum(usage.output for _, usage in found) / len(found)
    return UsualRequest(output, max(0.0, paid / expected) if expected else 1.0, item)


def _replies(events: Sequence[Envelope]) -> Iterable[tuple[_Began, Usage]]:
    """The requests that were answered, with what they used."""
    began: dict[str, _Began] = {}
    for envelope in events:
        if isinstance(envelope.event, _Began):
            began[envelope.agent] = envelope.event
        elif isinstance(envelope.event, TurnFinished) and envelope.agent in began:
            yield began.pop(envelope.agent), envelope.event.usage


def _lost(path: str, events: Sequence[Envelope]) -> _Began | None:
    """The request of an agent that its process did not live to see the reply of."""
    state: AgentState = AgentState(path)
    began: _Began | None = None
    for envelope in events:
        event = envelope.event
        if isinstance(event, _Began):
            began = event
        elif isinstance(event, AgentFinished) and event.stop_reason == "process":
            return began if state.status == "running" and state.sent != Usage() else None
        fold_event(state, event, envelope.at)
    return None


async def _ended(
    sessions: Store, agents: list[StoredAgent] | None, row: ItemRow, usual: UsualRequest, *, as_json: bool
) -> ItemRow:
    """How a try ended, by the log of its session. Without the log it is charged with what an item of its batch costs."""
    session, known = _session(row), ItemRow(row.key, "waiting", session=row.session)
    if agents is None:
        tokens, cost = (row.reserved_tokens, row.reserved) if usual.item is None else usual.item
        cost = min(row.reserved or cost, cost)
        return replace(known, cost=cost, estimated=cost, tokens=tokens, error="the log of its session is gone")
    tries = (agent for agent in agents if _does(agent, row))
    mine = max(tries, key=lambda agent: agent.started, default=None)
    if mine is None:
        return replace(known, error="its process ended before it began")
    tree = [agent for agent in agents if is_under(agent.path, mine.path)]
    used = sum((agent.usage for agent in tree), Usage())
    tokens, cost, estimated = used.billed, used.cost_usd or 0.0, 0.0
    for agent in tree if mine.status == "interrupted" else ():
        if (lost := _lost(agent.path, await sessions.events(session, agent=agent.path))) is not None:
            more = usual.missing(lost)
            tokens, cost = tokens + more[0], cost + more[1]
            estimated += more[1] + (lost.request.cost_usd or 0.0)
    known = replace(
        known,
        agent=f"{session}:{mine.path}",
        cost=min(cost, row.reserved or cost),
        tokens=min(tokens, row.reserved_tokens or tokens),
        active_s=mine.active_s,
        estimated=estimated,
        error="its process ended while it ran",
    )
    if mine.status == "completed" and mine.stop_reason in ("", "done") and not row.agent:
        events = await sessions.events(session, agent=mine.path)
        end = next((e.event for e in reversed(events) if isinstance(e.event, AgentFinished)), None)
        if end is not None and end.stop_reason == "done":
            text = unfenced(end.result).strip() if as_json else end.result
            worktree = next((e.event for e in reversed(events) if isinstance(e.event, WorktreeChanged)), None)
            branch = worktree.branch if worktree is not None and worktree.state in ("opened", "changed") else ""
            facts = "; ".join(end.receipt.facts())
            return replace(known, state="done", result=text, error="", receipt=facts, branch=branch)
    return known


def _does(agent: StoredAgent, row: ItemRow) -> bool:
    """Whether an agent does the work of an item."""
    if row.agent:
        return agent.path == "a"
    return agent.call_id.rpartition(OF_ITEM)[2] == row.key[:32]
