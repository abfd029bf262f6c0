"""What the store answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from friday_cli.core.protocol.messages import Usage
    from friday_cli.core.protocol.run_result import Status


class SessionRow(msgspec.Struct, frozen=True):
    """A session in a list. `status` and `stop_reason` are its root's, `tokens` and `cost_usd` those of its whole tree;
    `agents` counts the children at every depth. Times in Unix seconds."""

    id: str
    cwd: str
    title: str
    model: str
    created: float
    updated: float
    status: str
    stop_reason: str
    agents: int
    tokens: int
    cost_usd: float | None


class AgentRow(msgspec.Struct, frozen=True):
    """An agent of a session. `usage` is its own over its life, `active_s` that of all its ended runs."""

    path: str
    parent: str
    profile: str
    task: str
    model: str
    call_id: str
    background: bool
    run: int
    status: Status
    stop_reason: str
    usage: Usage
    started: float
    finished: float | None
    active_s: float


class StatRow(msgspec.Struct, frozen=True):
    """How one profile did with one model. Times are active seconds of the ended runs, `stop_reasons` counts why they
    ended; `success_rate` is None without any."""

    profile: str
    model: str
    agents: int
    runs: int
    succeeded: int
    success_rate: float | None
    tokens: int
    cost_usd: float | None
    p50_s: float
    p95_s: float
    stop_reasons: dict[str, int] = {}


class MemoryItem(msgspec.Struct, frozen=True):
    """Something kept for later sessions. `agent` is `SESSION:PATH` of who saved it, `at` Unix seconds, `project` the
    folder it is about ("" where `scope` is user). Until it is `promoted` only the agent that saved it sees it."""

    id: str
    text: str
    scope: str
    tags: tuple[str, ...]
    agent: str
    at: float
    project: str = ""
    promoted: bool = True
