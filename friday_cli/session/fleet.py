"""All sessions of this person, on this machine: which need an answer, which work, and which have ended. Read from the session
file and the locks of the owners; nothing here asks a process. Light to import: the list is shown in a tenth of a second."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import FridayError
from friday_cli.store import locks
from friday_cli.store.listing import list_sessions, newest_bodies, run_query, unfinished_sessions
from friday_cli.store.records import SessionRow
from friday_cli.system import session_socket
from friday_cli.system.git_head import short_branch
from friday_cli.system.paths import eval_dir, text_of

FleetState = Literal["needs you", "working", "idle", "ended", "interrupted"]
ASKS = ("permission_asked", "permission_answered", "question_asked", "question_answered", "ask_withdrawn")
NEWEST = 60
"""Questions and answers that are looked at, of the agents that wait."""
OLDEST_S = 1.0
"""Seconds after which rows are read again though nothing was written."""
_SAME = ("id", "title", "cwd", "model", "status", "tokens", "cost_usd", "created", "updated")
"""Fields that a row has of the stored session."""


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
    allows: str = ""
    """What an answer for the session or for always lets pass; "" where a permission counts for this call only."""


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
    branch: str = ""
    """The git branch of its folder now; "" for one that has ended, or without a repository."""
    waits: str = ""
    """The cap over all sessions that its agents wait for, such as `daily cap, $20.00 of $20.00`; "" if they wait for none."""


def fleet(
    path: Path, *, since: float = 0.0, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> list[FleetRow]:
    """The sessions that a process owns, and those that were used after `since` (0: all); those that need the person first, and without
    the trials of evals, which `friday eval status` lists.
    Blocks. Raises StoreError."""
    trials = os.path.join(text_of(eval_dir(env)), "")
    folder, listening = path.parent / "locks", set(session_socket.sessions(env))

    def read(db: sqlite3.Connection) -> list[FleetRow]:
        working: dict[str, list[str]] = {}
        waiting: dict[str, list[str]] = {}
        capped: dict[str, list[str]] = {}
        for name, path, status in db.execute(
            "SELECT s.id, a.path, a.status FROM agents a INDEXED BY agents_at_work"
            " JOIN sessions s ON s.key = a.session WHERE a.finished IS NULL"
        ):
            working.setdefault(name, []).append(path)
            if status in ("waiting_user", "waiting_budget"):
                (waiting if status == "waiting_user" else capped).setdefault(name, []).append(path)
        owned = {name: locks.owner(folder, name) for name in locked(folder)}
        branches: dict[str, str] = {}
        rows = []
        live = [name for name, pid in owned.items() if pid is not None]
        for known in list_sessions(db, cwd, None, since=since, owned=live):
            pid = owned.get(known.id)
            if known.cwd.startswith(trials):
                continue
            if pid is None:
                unfinished = known.status in ("interrupted", "running", "queued") or known.status.startswith("waiting")
                mode = _mode(db, known.id) if unfinished else ""
                rows.append(_row(known, "interrupted" if unfinished else "ended", mode=mode))
                continue
            count, asking = len(working.get(known.id, ())), waiting.get(known.id, [])
            asks = open_questions(newest_bodies(db, known.id, asking, ASKS, NEWEST)) if asking else ()
            if known.cwd not in branches:
                branches[known.cwd] = short_branch(Path(known.cwd))
            rows.append(
                _row(
                    known,
                    "needs you" if asks else "working" if count else "idle",
                    mode=_mode(db, known.id),
                    at_work=count,
                    pid=pid,
                    reachable=known.id in listening,
                    branch=branches[known.cwd],
                    waits=_cap(db, known.id, capped.get(known.id, ())),
                    questions=asks,
                )
            )
        return rows

    order = ("needs you", "working", "idle", "interrupted", "ended")
    return sorted(run_query(path, read), key=lambda row: (order.index(row.state), -row.updated))


class WatchedFleet:
    """`fleet` for a screen that asks often: the rows are read again after something was written, or a session has begun, was
    detached or has ended, and when `OLDEST_S` have passed: a process that was killed and a branch that was changed say nothing."""

    def __init__(self, path: Path, read: Callable[[], list[FleetRow]]) -> None:
        self._files = (path, path.with_name(f"{path.name}-wal"), path.parent / "locks", session_socket.socket_folder())
        self._read = read
        self._rows: list[FleetRow] = []
        self._changed: list[int] = []
        self._at = -OLDEST_S

    def __call__(self) -> list[FleetRow]:
        """The rows. Blocks. Raises StoreError."""
        changed = [_changed(file) for file in self._files]
        if changed != self._changed or time.monotonic() - self._at >= OLDEST_S:
            self._changed, self._at, self._rows = changed, time.monotonic(), self._read()
        return self._rows


def _changed(file: Path) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


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
            allows = event.get("allows") or event.get("rule", "")
            found[name] = OpenQuestion(name, agent, event.get("tool", ""), asked, reason, whole=whole, allows=allows)
        elif event["kind"] == "question_asked":
            found[name] = OpenQuestion(
                name, agent, "", event.get("question", ""), choices=tuple(event.get("choices", ()))
            )
        else:
            found.pop(name, None)
    return tuple(found.values())


def _mode(db: sqlite3.Connection, session: str) -> str:
    events = newest_bodies(db, session, ("a",), ("agent_started", "mode_changed"), 20)
    return next((str(event["mode"]) for _, event in reversed(events) if event.get("mode")), "")


def _cap(db: sqlite3.Connection, session: str, agents: Sequence[str]) -> str:
    """The cap that one of these agents waits for."""
    if not agents:
        return ""
    from friday_cli.core.protocol.waiting import CapReached  # not needed otherwise

    newest = dict(newest_bodies(db, session, agents, ("status_changed",), NEWEST))
    with suppress(msgspec.ValidationError):
        return next((str(msgspec.convert(e["cap"], CapReached)) for e in newest.values() if e.get("cap")), "")
    return ""


def _row(known: SessionRow, state: FleetState, **facts: Any) -> FleetRow:
    same = {name: getattr(known, name) for name in _SAME}
    return FleetRow(**same, state=state, **({"at_work": 0, "pid": None, "reachable": False} | facts))
