"""The sessions on disk, as commands ask for them: by a prefix of their id, dead ones ended first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from friday_cli.core.protocol.errors import Unwritable, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.paths import kept_store_path, working_folder
from friday_cli.store import Store
from friday_cli.view import SessionView


class Record(msgspec.Struct, frozen=True):
    """A session with its events; `agent` is the path that was named with it, "" for none."""

    id: str
    title: str
    agent: str
    envelopes: list[Envelope]
    state: SessionView

    def __repr__(self) -> str:
        """Short: asyncio.run looks at the repr of what it gives back, and all events of a session would take a second."""
        return f"Record({self.id!r}, {len(self.envelopes)} events)"


@asynccontextmanager
async def opened() -> AsyncIterator[Store | None]:
    """The store; None where no session was ever kept, so that looking makes no files."""
    path = kept_store_path()
    if path is None:
        yield None
        return
    async with Store(path) as store:
        yield store


async def reconcile() -> bool:
    """End what dead processes left open. False where nothing can be written: all can be read nevertheless."""
    async with opened() as store:
        return store is not None and await _ended(store)


async def _ended(store: Store) -> bool:
    try:
        await store.reconcile()
    except Unwritable:
        return False
    return True


async def find(store: Store | None, name: str, *, last: bool = False) -> tuple[str, str]:
    """The session and agent that `ID` or `ID:PATH` names; with `last`, where no ID is given, the session of this folder
    that was used last. Raises UsageError."""
    prefix, colon, agent = name.partition(":")
    if colon and not agent:
        raise UsageError(f"{name!r} names no agent.", hint="Write ID:PATH, such as 7f3a:a.2.")
    if last and not prefix:
        newest = await store.last_session(working_folder()) if store is not None else None
        if newest is None:
            raise UsageError("There is no session of this folder yet.", hint="`friday sessions list --all` has all.")
        return newest, agent
    if store is None:
        raise UsageError(f"There is no session {prefix!r}: none was kept yet.", hint='`friday ask "..."` starts one.')
    return await store.find(prefix), agent


@asynccontextmanager
async def whole_session(name: str, whole: str) -> AsyncIterator[tuple[Store, str]]:
    """The store and the session that `ID` names. Raises UsageError, with `whole` where one of its agents is named."""
    async with opened() as store:
        session, agent = await find(store, name)
        refuse_agent(session, agent, whole)
        assert store is not None
        yield store, session


def refuse_agent(session: str, agent: str, whole: str) -> None:
    """Raise UsageError, which says `whole`, where an agent is named and only its session can be."""
    if agent:
        raise UsageError(whole, hint=f"Write {session[:8]}.")


def named(name: str, path: str, agent: str | None) -> str:
    """The agent that is meant by `path`, which stood in `name`, or by the option `--agent`. Raises UsageError."""
    if agent and path and agent != path:
        raise UsageError(f"{name} names agent {path}, --agent {agent}.", hint="Name one of them.")
    return agent or path


async def read(name: str, *, agent: str | None = None, last: bool = False) -> Record:
    """A session with everything in it. `agent` is a path given beside the name, `last` as for `find`. Raises
    UsageError, StoreError."""
    async with opened() as store:
        session, path = await find(store, name, last=last)
        assert store is not None
        await _ended(store)
        envelopes = await store.events(session)
        state = SessionView.of(envelopes)
        title = await store.title(session)
    path = named(name, path, agent)
    if path and path not in state.agents:
        raise UsageError(
            f"Session {session[:8]} has no agent {path!r}.", hint=f"It has: {', '.join(state.agents) or 'none'}."
        )
    return Record(session, title, path, envelopes, state)
