"""The records that the store returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from friday_cli.core.protocol.forecast import Forecast
    from friday_cli.core.protocol.messages import Usage
    from friday_cli.core.protocol.run_result import Status


class SessionRow(msgspec.Struct, frozen=True):
    """A session in a list. `status` and `stop_reason` are those of the root agent, `tokens` and `cost_usd` those of all
    agents; `agents` is the number of sub-agents at every depth. Times are Unix seconds."""

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


class StoredAgent(msgspec.Struct, frozen=True):
    """An agent of a session. `usage` is its own over all its runs, `active_s` the active seconds of its ended runs."""

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
    """Statistics of one profile with one model. `p50_s` and `p95_s` are percentiles of the active seconds of its ended
    runs, `stop_reasons` counts how they ended; `success_rate` is None without ended runs. `cache_share` is the part of
    the input that was read from a cache, 0 to 1. `forecast` is for a task of any size, None for a main agent."""

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
    cache_share: float | None = None
    forecast: Forecast | None = None


class MemoryItem(msgspec.Struct, frozen=True):
    """A note for later sessions. `agent` is the `SESSION:PATH` that saved it, `at` is in Unix seconds, `project` is its
    folder ("" if `scope` is user). Until a note is `promoted`, only the agent that saved it sees it."""

    id: str
    text: str
    scope: str
    tags: tuple[str, ...]
    agent: str
    at: float
    project: str = ""
    promoted: bool = True
