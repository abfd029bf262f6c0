"""All sessions of this person, on this machine: which need an answer, which work, and which have ended. Read from the session
file and the locks of the owners; nothing here asks a process. Light to import: the list is shown in a tenth of a second."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import FridayError
from friday_cli.store import locks
from friday_cli.store.listing import list_sessions, newest_bodies, run_query, unfinished_sessions
from friday_cli.store.records import SessionRow
from friday_cli.system import session_socket

FleetState = Literal["needs you", "working", "idle", "ended", "interrupted"]
ASKS = ("permission_asked", "permission_answered", "question_asked", "question_answered", "ask_withdrawn")
NEWEST = 60
"""Questions and answers that are looked at, of the agents that wait."""


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question of an agent that waits for the person. `text`: all of it; `tool`: of a permission request, else ""."""

    id: str
    agent: str
    tool: str
    text: str
    reason: str = ""
    choices: tuple[str, ...] = ()
    whole: bool = True
    """Whether `text` is all that is asked: a change of a file has more, which the chat shows."""


class FleetRow(msgspec.Struct, frozen=True):
    """One session. Times are Unix seconds."""

    id: str
    state: FleetState
    title: str
    cwd: str
    model: str
    mode: str
    """The permission mode; "" for one that has ended."""
    status: str
    """Of the main agent."""
    at_work: int
    """Agents that have not ended."""
    tokens: int
    cost_usd: float | None
    created: float
    updated: float
    pid: int | None
    """Of the process that owns it; None if no process does."""
    reachable: bool
    """Whether that process can be attached to."""
    questions: tuple[OpenQuestion, ...] = ()


def fleet(
    path: Path, *, since: float | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> list[FleetRow]:
    """The sessions that a process owns, and those that were used after `since` (None: all); those that need the person first.
    Blocks. Raises StoreError."""
    folder, listening = path.parent / "locks", set(session_socket.sessions(env))

    def read(db: sqlite3.Connection) -> list[FleetRow]:
        working: dict[str, list[str]] = {}
        waiting: dict[str, list[str]] = {}
        for name, path, status in db.execute(
            "SELECT s.id, a.path, a.status FROM agents a INDEXED BY agents_at_work"
            " JOIN sessions s ON s.key = a.session WHERE a.finished IS NULL"
        ):
            working.setdefault(name, []).append(path)
            if status == "waiting_user":
                waiting.setdefault(name, []).append(path)
        owned = {name: locks.owner(folder, name) for name in locked(folder)}
        rows = []
        for known in list_sessions(db, cwd, None):
            pid = owned.get(known.id)
            if pid is None and since is not None and known.updated < since:
                continue
            count, asking = (0, []) if pid is None else (len(working.get(known.id, ())), waiting.get(known.id, []))
            asks = open_questions(newest_bodies(db, known.id, asking, ASKS, NEWEST)) if asking else ()
            open_ = pid is not None or _unfinished(known)
            mode = _mode(newest_bodies(db, known.id, ("a",), ("agent_started", "mode_changed"), 20)) if open_ else ""
            rows.append(_row(known, pid, count, mode, asks, reachable=known.id in listening))
        return rows

    order = ("needs you", "working", "idle", "interrupted", "ended")
    return sorted(run_query(path, read), key=lambda row: (order.index(row.state), -row.updated))


def interrupted(path: Path) -> bool:
    """Whether a session has agents at work whose process died. Blocks. Raises StoreError."""
    return any(locks.owner(path.parent / "locks", name) is None for name in run_query(path, unfinished_sessions))


def remove_stale_sockets(path: Path, env: Mapping[str, str] | None = None) -> None:
    """Remove the sockets of sessions whose process died. Blocks."""
    folder = path.parent / "locks"
    for name in session_socket.sessions(env):
        with suppress(FridayError):  # it is owned again
            if locks.owner(folder, name) is None:
                with locks.own(folder, name):
                    session_socket.remove(name, env)


def locked(folder: Path) -> list[str]:
    """The ids of sessions with a lock file, which a process that died may have left."""
    try:
        return [file.name.removesuffix(".lock") for file in folder.iterdir() if file.name.endswith(".lock")]
    except OSError:
        return []


def open_questions(events: Sequence[tuple[str, dict[str, Any]]]) -> tuple[OpenQuestion, ...]:
    """The questions that were not answered or withdrawn, the oldest first. `events`: (agent, fields)."""
    found: dict[str, OpenQuestion] = {}
    for agent, event in events:
        name = str(event.get("id", ""))
        if event["kind"] == "permission_asked":
            asked, reason, whole = event.get("subject", ""), event.get("reason", ""), event.get("change") is None
            found[name] = OpenQuestion(name, agent, event.get("tool", ""), asked, reason, whole=whole)
        elif event["kind"] == "question_asked":
            found[name] = OpenQuestion(
                name, agent, "", event.get("question", ""), choices=tuple(event.get("choices", ()))
            )
        else:
            found.pop(name, None)
    return tuple(found.values())


def _unfinished(known: SessionRow) -> bool:
    """Whether the main agent of a session that no process owns did not end by itself."""
    return known.status in ("interrupted", "running", "queued") or known.status.startswith("waiting")


def _mode(events: Sequence[tuple[str, dict[str, Any]]]) -> str:
    return next((str(event["mode"]) for _, event in reversed(events) if event.get("mode")), "")


def _row(
    known: SessionRow, pid: int | None, at_work: int, mode: str, questions: tuple[OpenQuestion, ...], *, reachable: bool
) -> FleetRow:
    state: FleetState = "ended"
    if pid is not None:
        state = "needs you" if questions else "working" if at_work else "idle"
    elif _unfinished(known):
        state = "interrupted"
    return FleetRow(
        id=known.id,
        state=state,
        title=known.title,
        cwd=known.cwd,
        model=known.model,
        mode=mode,
        status=known.status,
        at_work=at_work,
        tokens=known.tokens,
        cost_usd=known.cost_usd,
        created=known.created,
        updated=known.updated,
        pid=pid,
        reachable=reachable and pid is not None,
        questions=questions,
    )
