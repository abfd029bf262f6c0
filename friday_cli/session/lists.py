"""What is stored on this machine and set for a folder, as rows: the command line prints them, frontends draw them.

Every function that reads the store may raise StoreError. Settings and trust are imported where they are read: looking at a
session needs neither.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from friday_cli.core.protocol.agent_path import PERSON
from friday_cli.core.protocol.errors import UsageError
from friday_cli.store.records import MemoryItem, SessionRow
from friday_cli.system.paths import existing_store_path, store_path, with_tilde
from friday_cli.view import SessionView

if TYPE_CHECKING:
    from friday_cli.config.settings import Settings
    from friday_cli.extensions.hooks.hook import Hook
    from friday_cli.extensions.skills.lookup import Skills
    from friday_cli.llm.models.gateway_cache import Listing
    from friday_cli.llm.models.listing import ListedModel
    from friday_cli.store.memory import StoredNotes
    from friday_cli.store.store import Store

END = 1_000
"""The newest events of a long session, of which the first picture is made."""
NEWEST = 50
"""The newest sessions, among which the last conversation is looked for."""


@asynccontextmanager
async def open_store() -> AsyncIterator[Store | None]:
    """Open the store; None if it does not exist, so that reading creates no files."""
    path = existing_store_path()
    if path is None:
        yield None
        return
    from friday_cli.store.store import Store  # SQLite, which a look at the settings does not need

    async with Store(path) as store:
        yield store


# ---- sessions ------------------------------------------------------------------------------------------------------


async def sessions(cwd: str | Path | None = None, *, limit: int | None = None) -> list[SessionRow]:
    """The sessions of the folder `cwd`, or all, the newest first; at most `limit`."""
    async with open_store() as store:
        return [] if store is None else await store.list_sessions(cwd, limit=limit)


async def last_conversation(cwd: str | Path) -> SessionRow | None:
    """The session that `friday -c` resumes in the folder `cwd`, if it is among the newest ones."""
    async with open_store() as store:
        if store is None or (name := await store.last_session(cwd)) is None:
            return None
        return next((row for row in await store.list_sessions(cwd, limit=NEWEST) if row.id == name), None)


async def owners(ids: Sequence[str]) -> dict[str, int]:
    """The ids of the processes in which sessions are open, by session."""
    async with open_store() as store:
        found = {} if store is None else {name: await store.owner_pid(name) for name in ids}
    return {name: pid for name, pid in found.items() if pid is not None}


async def main_transcript(session: str) -> SessionView:
    """The stored view of a session with its main agent only."""
    async with _sessions() as store:
        return SessionView.of(await store.events(session, agent="a"))


async def end_of(session: str) -> SessionView | None:
    """A view of the end of a long session, without what its agents did before it; None for other sessions."""
    from friday_cli.store.journal import read_end
    from friday_cli.store.listing import run_query

    found = await asyncio.to_thread(run_query, store_path(), lambda db: read_end(db, session, END))
    return SessionView.of(found) if found else None


async def find_session(prefix: str) -> str:
    """The id that begins with `prefix`. Raises UsageError if there is not exactly one."""
    async with _sessions() as store:
        return await store.find(prefix)


async def session_to_resume(prefix: str, cwd: Path) -> str:
    """The id of the session with the prefix, or, for "", of the last one in the folder `cwd`. Raises UsageError."""
    async with _sessions() as store:
        return await store.choose(prefix, cwd)


async def title(session: str) -> str:
    """The title of a session, "" if it has none."""
    async with _sessions() as store:
        return await store.title(session)


async def rename(session: str, text: str) -> None:
    """Change the title of a session."""
    async with _sessions() as store:
        await store.rename(session, text)


async def delete(session: str) -> None:
    """Delete a session with its agents. Raises UsageError if it does not exist, or a process has it open."""
    async with _sessions() as store:
        await store.delete(session)


def _sessions() -> Store:
    from friday_cli.store.store import Store

    return Store(store_path())


# ---- notes ---------------------------------------------------------------------------------------------------------


async def notes(cwd: Path | None) -> list[MemoryItem]:
    """The notes of the person and of the project of a folder, or of all projects, the newest first."""
    from friday_cli.extensions import trust

    project = None if cwd is None else str(await asyncio.to_thread(trust.project_root, cwd))
    async with open_store() as store:
        return [] if store is None else await store.notes.list_notes(project)


async def save_note(text: str, cwd: Path, session: str, *, scope: Literal["project", "user"]) -> MemoryItem:
    """Save a note of the person for the project of a folder, or for all projects; every agent can find it."""
    from friday_cli.extensions import trust

    project = str(await asyncio.to_thread(trust.project_root, cwd))
    async with _sessions() as store:
        saved = await store.notes.for_session(project, session).save(text, scope=scope, tags=(), agent=PERSON)
        await store.notes.promote([saved.id])
        return saved


async def find_notes(numbers: Sequence[str]) -> list[MemoryItem]:
    """The notes with these numbers. Raises UsageError for one that does not exist."""
    async with _kept_notes() as kept:
        return [await kept.get(number) for number in numbers]


async def promote_notes(numbers: Sequence[str]) -> list[MemoryItem]:
    """Make notes visible to every agent; returns those that were not before. Raises UsageError."""
    async with _kept_notes() as kept:
        return await kept.promote(numbers)


async def forget_notes(numbers: Sequence[str]) -> list[MemoryItem]:
    """Delete notes and return them. Raises UsageError."""
    async with _kept_notes() as kept:
        return await kept.forget(numbers)


@asynccontextmanager
async def _kept_notes() -> AsyncIterator[StoredNotes]:
    async with open_store() as store:
        if store is None:
            raise UsageError("There are no notes yet.")
        yield store.notes


# ---- settings of a folder ------------------------------------------------------------------------------------------


def settings(cwd: Path) -> Settings:
    """The settings of a folder, with those of its project if it is trusted. Raises FileError."""
    from friday_cli import config
    from friday_cli.extensions import trust

    standing = trust.is_trusted(cwd)
    return config.load(project=standing.root if standing.ok else None).settings


def rule_places(cwd: Path) -> dict[tuple[str, str], str]:
    """(decision, rule) -> the file and line of a rule in the settings of a folder. Raises FileError."""
    from friday_cli.config import rule_locations
    from friday_cli.extensions import trust

    standing = trust.is_trusted(cwd)
    found = rule_locations.rule_places(standing.root if standing.ok else None)
    return {rule: with_tilde(place) for rule, place in found.items()}


def hooks(cwd: Path) -> tuple[list[Hook], list[str]]:
    """The hooks of the person and of a trusted project, and lines about those that cannot be used. Raises FileError."""
    from friday_cli.agents.hooks.setup import configured_hooks
    from friday_cli.extensions import trust

    return configured_hooks(trust.is_trusted(cwd), os.environ, claude=settings(cwd).hooks.claude)


def skills(cwd: Path) -> Skills:
    """The skills that can be used in a folder."""
    from friday_cli.extensions import trust
    from friday_cli.extensions.skills import lookup

    return lookup.load(cwd, trust.is_trusted(cwd))


async def listed_models(cwd: Path) -> AsyncGenerator[list[ListedModel], None]:
    """The models that can be used now: first what is known, then with each answer all of them again. Servers on this machine
    are asked for theirs, and once a day the services with a base_url in the settings."""
    from friday_cli.llm import models
    from friday_cli.llm.models.gateways import gateway_requests
    from friday_cli.llm.models.listing import list_models
    from friday_cli.llm.models.local_servers import probe
    from friday_cli.llm.models.presets import LocalServers

    known = await asyncio.to_thread(settings, cwd)
    found = LocalServers()
    listed: dict[str, Listing] = {}

    def rows() -> list[ListedModel]:
        return list_models(models.list_services(known, found=found, listed=listed), known, found)

    yield await asyncio.to_thread(rows)
    local = asyncio.ensure_future(probe(known.providers, os.environ))
    services = [asyncio.ensure_future(request) for request in gateway_requests(known, os.environ)]
    waiting: set[asyncio.Future[Any]] = {local, *services}
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            found = local.result() if local in done else found
            listed.update(task.result() for task in services if task in done)
            yield await asyncio.to_thread(rows)
    finally:
        for task in waiting:
            task.cancel()


async def model_names(cwd: Path) -> list[str]:
    """Full names of the models of services that can be used now, without those of servers on this machine. No service is asked."""
    from friday_cli.llm import models

    known = await asyncio.to_thread(settings, cwd)
    rows = await asyncio.to_thread(models.list_services, known)
    return [name for row in rows if row.usable for name in row.models]
