"""Finds stored sessions by a prefix of their id; sessions of dead processes are marked as ended first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import msgspec

from friday_cli.core.protocol.errors import Unwritable, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.session.lists import open_store
from friday_cli.store.store import Store
from friday_cli.system.paths import working_folder
from friday_cli.view import SessionView


class Record(msgspec.Struct, frozen=True):
    """A session with its events; `agent`: the path named with it, or ""."""

    id: str
    title: str
    agent: str
    envelopes: list[Envelope]
    state: SessionView

    def __repr__(self) -> str:
        """Short, because asyncio.run builds the repr of its result, and that of all events takes a second."""
        return f"Record({self.id!r}, {len(self.envelopes)} events)"


async def reconcile() -> bool:
    """Mark sessions of dead processes as ended. False if the store is read-only; reading still works."""
    async with open_store() as store:
        return store is not None and await _reconcile(store)


async def _reconcile(store: Store) -> bool:
    try:
        await store.reconcile()
    except Unwritable:
        return False
    return True


@asynccontextmanager
async def find(name: str, *, last: bool = False) -> AsyncIterator[tuple[Store, str, str]]:
    """Resolve `ID` or `ID:PATH` to the open store, a session and an agent path. Raises UsageError. `last`: without an
    ID, use the last session of this folder."""
    prefix, colon, agent = name.partition(":")
    if colon and not agent:
        raise UsageError(f"{name!r} has no agent path.", hint="Example: 7f3a:a.2.")
    newest = last and not prefix
    async with open_store() as store:
        session = None
        if store is not None:
            session = await store.last_session(working_folder()) if newest else await store.find(prefix)
        if newest and session is None:
            raise UsageError("There is no session in this folder.", hint="List all: `friday sessions list --all`.")
        if store is None or session is None:
            raise UsageError(f"There is no session {prefix!r}: no session was saved yet.")
        yield store, session, agent


@asynccontextmanager
async def whole_session(name: str, whole: str) -> AsyncIterator[tuple[Store, str]]:
    """Resolve `ID`. Raises UsageError, with the message `whole` if an agent is named."""
    async with find(name) as (store, session, agent):
        refuse_agent(session, agent, whole)
        yield store, session


def refuse_agent(session: str, agent: str, whole: str) -> None:
    """Raises UsageError with the message `whole` if an agent is named."""
    if agent:
        raise UsageError(whole, hint=f"Use {session[:8]}.")


def choose_agent(name: str, path: str, agent: str | None) -> str:
    """The agent that is meant by `path`, which is part of `name`, or by the option `--agent`. Raises UsageError."""
    if agent and path and agent != path:
        raise UsageError(f"{name} and --agent {agent} name different agents.")
    return agent or path


def require_agent(session: str, path: str, agents: Collection[str]) -> None:
    """Raises UsageError if a session has no agent `path` ("" is not an agent)."""
    if path and path not in agents:
        hint = f"Agents: {', '.join(agents) or 'none'}."
        raise UsageError(f"Session {session[:8]} has no agent {path!r}.", hint=hint)


async def read(name: str, *, agent: str | None = None, last: bool = False) -> Record:
    """Read a whole session. `agent`: the value of --agent; `last`: see `find`. Raises UsageError, StoreError."""
    async with find(name, last=last) as (store, session, path):
        await _reconcile(store)
        envelopes = await store.events(session)
        state = SessionView.of(envelopes)
        title = await store.title(session)
    path = choose_agent(name, path, agent)
    require_agent(session, path, state.agents)
    return Record(session, title, path, envelopes, state)
