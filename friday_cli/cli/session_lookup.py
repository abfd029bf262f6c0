"""The sessions on disk, as commands ask for them: by a prefix of their id, dead ones ended first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from friday_cli.core.protocol.errors import Unwritable, UsageError
from friday_cli.paths import store_path

if TYPE_CHECKING:
    from friday_cli.core.protocol.events import Envelope
    from friday_cli.store import SessionRow, Store
    from friday_cli.view import SessionView

T = TypeVar("T")


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


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to, waited for in a loop of its own; asyncio takes 20 ms, and a list of sessions needs none."""
    import asyncio

    return asyncio.run(work)


@asynccontextmanager
async def opened() -> AsyncIterator[Store | None]:
    """The store; None where no session was ever kept, so that looking makes no files."""
    path = _kept()
    if path is None:
        yield None
        return
    from friday_cli.store import Store

    async with Store(path) as store:
        yield store


def _kept() -> Path | None:
    """Where sessions are kept; None where none ever was."""
    path = store_path()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass  # the store says what is wrong
    return path


def listed(cwd: str | None) -> list[SessionRow]:
    """The sessions of a folder, or all; what dead processes left open is ended first."""
    from friday_cli.store.listing import at_work, glance, list_sessions

    path = _kept()
    if path is None:
        return []
    rows, open_ = glance(path, lambda db: (list_sessions(db, cwd, None), at_work(db)))
    ended = bool(open_) and awaited(_reconcile())
    if ended:
        rows = glance(path, lambda db: list_sessions(db, cwd, None))
    return rows


async def _reconcile() -> bool:
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
        from friday_cli.paths import working_folder

        newest = await store.last_session(working_folder()) if store is not None else None
        if newest is None:
            raise UsageError("There is no session of this folder yet.", hint="`friday sessions list --all` has all.")
        return newest, agent
    if store is None:
        raise UsageError(f"There is no session {prefix!r}: none was kept yet.", hint='`friday ask "..."` starts one.')
    return await store.find(prefix), agent


def named(name: str, path: str, agent: str | None) -> str:
    """The agent that is meant by `path`, which stood in `name`, or by the option `--agent`. Raises UsageError."""
    if agent and path and agent != path:
        raise UsageError(f"{name} names agent {path}, --agent {agent}.", hint="Name one of them.")
    return agent or path


async def read(name: str, *, agent: str | None = None, last: bool = False) -> Record:
    """A session with everything in it. `agent` is a path given beside the name, `last` as for `find`. Raises
    UsageError, StoreError."""
    from friday_cli.view import SessionView

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
