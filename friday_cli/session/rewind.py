"""Rewinds the conversation and the files of a session to a message of the person, forks a session there, and reviews the
changes of its agents."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import msgspec

from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.rewind_marks import after_rewind, is_rewind_point
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope, Rewound, SessionStarted
from friday_cli.core.protocol.format import pluralize
from friday_cli.store.crash_recovery import recovery_events
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.workspace.checkpoints.blobs import MEGABYTE, Blobs, baseline_of, blobs_of
from friday_cli.workspace.checkpoints.file_history import FileHistory, RecordedChange, is_result
from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
from friday_cli.workspace.checkpoints.restore_plan import RestorePlan, plan
from friday_cli.workspace.checkpoints.review import FileDiff, by_agent, pending_changes, review
from friday_cli.workspace.local import ChangeObservers, LocalWorkspace

from .file_recovery import recover_files
from .rewind_result import Resolve, RewindPoint, RewindResult, What


class RewoundAgents(Protocol):
    """The agents of an open session."""

    def while_idle(self, action: str) -> AbstractContextManager[object]:
        """Inside, none can start. Raises UsageError if one is running. `action` is a participle for messages."""

    async def rewound(self, result: RewindResult) -> None:
        """Tell them what was rewound."""


class Rewinder:
    """Rewinds one session. `workspace` has its files and a recorder of their earlier contents. An open session has `agents`. Nothing is
    deleted: the event Rewound tells from where the history continues, and `undo` undoes it. Tokens stay counted, and
    sub-agents that were started since keep their results. If a method raises, everything is as it was."""

    def __init__(
        self,
        session: str,
        store: Store,
        log: Log,
        workspace: LocalWorkspace,
        *,
        agents: RewoundAgents | None = None,
        recovered: Sequence[str] = (),
    ) -> None:
        assert workspace.write_hook.recorder is not None
        self._session = session
        self._store = store
        self._log = log
        self.workspace = workspace
        self.recovered = recovered
        """What a person must know about files that were recovered after a kill, just before."""
        self._blobs = workspace.write_hook.recorder.blobs
        self._most = workspace.write_hook.recorder.most
        self._agents = agents
        self._idle = nullcontext[object] if agents is None else agents.while_idle

    async def points(self) -> list[RewindPoint]:
        """The messages of the person that are part of the conversation now, oldest first."""
        return points(await self._history())

    async def to(
        self, number: int, what: What = "both", *, dry_run: bool = False, conflicts: Resolve = "ask"
    ) -> RewindResult:
        """Restore the conversation, the files, or both as they were right before message `number`.

        All files are restored or none. With `dry_run` nothing is changed. If there are conflicts and `conflicts` is "ask",
        nothing is changed and the result is not `done`: ask the person, then call again. Raises UsageError while an agent is
        running, for an unknown number, and if files cannot be written.
        """
        with self._idle("rewound"):
            envelopes = await self._history()
            point = find_point(envelopes, number)
            changes = FileHistory(envelopes).since(point.seq).values() if what != "conversation" else ()
            return await self._rewind(Rewound(point.seq, what), changes, point, dry_run=dry_run, conflicts=conflicts)

    async def undo(self, *, dry_run: bool = False, conflicts: Resolve = "ask") -> RewindResult:
        """Undo the newest rewind that was not undone yet, as `to` does. Raises UsageError as `to`, and if there is none."""
        with self._idle("rewound"):
            envelopes = await self._history()
            last = last_rewind(envelopes)
            assert isinstance(last.event, Rewound)
            event = Rewound(last.seq or 0, last.event.what, undo=True)
            changes = FileHistory(envelopes).since(last.event.since).values() if event.what != "conversation" else ()
            return await self._rewind(event, changes, dry_run=dry_run, conflicts=conflicts)

    async def fork(self, at: int | None = None) -> str:
        """Create a session that starts with this one's history up to right before message `at` (None: all of it); returns
        its id. This session may be running, and files stay as they are. Raises UsageError, StoreError."""
        await self._log.flush()
        return await fork(self._store, self._session, at=at)

    async def changes(self) -> list[FileDiff]:
        """One row for each agent and file: its changes from the recorded state to the current one, without those that were
        undone or accepted. Agents may be running."""
        history = FileHistory(await self._history())
        return await asyncio.to_thread(review, history, self.workspace, self._blobs, most=self._most)

    async def restore_file(self, key: str, agent: str | None = None, *, conflicts: Resolve = "ask") -> RewindResult:
        """Undo the changes of `agent` to a file, or of all agents (None); `key` is that of a row of `changes`. Works as
        a rewind of this file: `undo` undoes it, and conflicts need an answer. Raises UsageError while an agent is
        running, if another agent changed the file later, and if it cannot be written."""
        with self._idle("changed"):
            changes = _changes_to_undo(FileHistory(await self._history()), agent, key)
            return await self._rewind(Rewound(changes[0].seq, "files"), [changes], conflicts=conflicts)

    async def accept(self, key: str) -> None:
        """Leave the current changes of a file out of `changes` from now on; the file stays. Raises UsageError."""
        _changes_to_undo(FileHistory(await self._history()), None, key)
        await self._log.emit("a", events.Reviewed((key,)))

    async def _history(self) -> list[Envelope]:
        """All events, those about files that commands changed unseen included."""
        recorder = self.workspace.write_hook.recorder
        assert recorder is not None
        await recorder.verify()
        return await self._log.history()

    async def _rewind(
        self,
        event: Rewound,
        changes: Collection[list[RecordedChange]],
        point: RewindPoint | None = None,
        *,
        dry_run: bool = False,
        conflicts: Resolve,
    ) -> RewindResult:
        """Give each file the content it had before the first of its `changes`, all files or none, then write `event`."""
        force = conflicts == "overwrite"
        restore = await asyncio.to_thread(
            plan, list(changes), self.workspace, self._blobs, most=self._most, force=force
        )
        result = RewindResult(event.what, False, point, restore.files, restore.conflicts, restore.lost)
        if dry_run or (restore.conflicts and conflicts == "ask"):
            return result
        if event.what == "files" and not restore.steps:
            raise UsageError("No file needs to be restored.", hint=_nothing_reason(restore))
        since = self._log.last
        if restore.steps:
            await self._restore_files(restore)
        await self._log.emit("a", msgspec.structs.replace(event, since=since))
        done = msgspec.structs.replace(result, done=True)
        if self._agents is not None:
            await self._agents.rewound(done)
        return done

    async def _restore_files(self, restore: RestorePlan) -> None:
        saved = []
        try:
            for step in restore.steps:
                if step.old is not None:
                    saved.append(await asyncio.to_thread(self._blobs.put, step.old.data))
        except OSError as error:
            raise UsageError(
                f"The current content of {self.workspace.label(step.path)} cannot be kept: {error.strerror}. "
                "Nothing was changed.",
                hint=f"Free disk space in {self._blobs.folder.parent}, then try again.",
            ) from None
        if not all(map(self._blobs.has, saved)):
            raise UsageError(
                f"The current content of {pluralize(len(saved), 'file')} is larger than what is kept for one session. "
                "Nothing was changed.",
                hint="Raise checkpoints.megabytes in the settings, then try again.",
            )
        try:
            await self.workspace.apply_writes(restore.steps)
        except ToolError as error:
            raise UsageError(str(error)) from None


class RecordedRewinder:
    """The part of a `Rewinder` that a session needs which another process drives: only read from the store."""

    def __init__(self, session: str, store: Store, env: Mapping[str, str] | None) -> None:
        self._session = session
        self._store = store
        self._env = env

    async def points(self) -> list[RewindPoint]:
        """As `Rewinder.points`."""
        return points(await self._store.events(self._session))

    async def changes(self) -> list[FileDiff]:
        """As `Rewinder.changes`. Raises UsageError if the session's folder is gone."""
        async with without_agents(self._store, self._session, self._env) as rewinder:
            return await rewinder.changes()


def _changes_to_undo(ledger: FileHistory, agent: str | None, key: str) -> list[RecordedChange]:
    """The newest changes of a file by an agent, or all that are open for review. Raises UsageError."""
    changes = pending_changes(ledger).get(key)
    if changes is None:
        raise UsageError(f"No change of {key!r} waits for a review.")
    if agent is None:
        return changes
    last = by_agent(changes)[-1]
    if last[-1].agent == agent:
        return last
    if not any(change.agent == agent for change in changes):
        raise UsageError(f"{agent} did not change {key!r}.")
    other = last[-1].agent
    raise UsageError(f"{other} changed {key!r} after {agent}.", hint=f"Undo the change of {other} first.")


def _nothing_reason(made: RestorePlan) -> str:
    if made.lost:
        return "; ".join(f"{lost.path}: {lost.reason}" for lost in made.lost[:3]) + "."
    return "They hold what they held then, or were not changed by an agent." if not made.conflicts else ""


def points(envelopes: Sequence[Envelope]) -> list[RewindPoint]:
    """The messages of the person that are part of the conversation now, oldest first."""
    found: list[RewindPoint] = []
    marks: dict[int, list[RewindPoint]] = {}
    started: AgentStarted | None = None
    for envelope in envelopes:
        event, seq = envelope.event, envelope.seq or 0
        if envelope.agent != "a":
            continue
        if isinstance(event, events.MessageAdded) and is_rewind_point("a", event.message):
            marks[seq] = found
            text = started.task if started else event.message.text
            found = [*found, RewindPoint(len(found) + 1, seq, text, envelope.at)]
            started = None
        elif isinstance(event, Rewound):
            found = after_rewind(marks, seq, event, found)
        elif isinstance(event, AgentStarted):
            started = event
    ledger = FileHistory(envelopes)
    return [msgspec.structs.replace(p, files=_changed(ledger, p.seq)) for p in found]


def _changed(ledger: FileHistory, seq: int) -> tuple[str, ...]:
    """The files whose content differs, by the log, from that before event `seq`."""
    files = ledger.since(seq).values()
    return tuple(sorted(c[0].kept.path for c in files if not is_result(c[0].kept.before, c[0].kept.mode, c[-1].kept)))


def find_point(envelopes: Sequence[Envelope], number: int) -> RewindPoint:
    """The message with a number. Raises UsageError."""
    found = points(envelopes)
    if not 1 <= number <= len(found):
        rewound = any(isinstance(envelope.event, Rewound) for envelope in envelopes)
        none = (
            "It has none now because they were rewound. A rewind can be undone."
            if rewound
            else "You have not written any yet."
        )
        have = f"It has {len(found)}, numbered from 1." if found else none
        raise UsageError(f"There is no message {number} in this conversation.", hint=have)
    return found[number - 1]


def last_rewind(envelopes: Sequence[Envelope]) -> Envelope:
    """The newest rewind that was not undone. Raises UsageError if there is none."""
    taken: set[int] = set()
    for envelope in reversed(envelopes):
        if isinstance(event := envelope.event, Rewound):
            if event.undo:
                taken.add(event.to)
            elif envelope.seq not in taken:
                return envelope
    raise UsageError("There is no rewind to undo.")


@asynccontextmanager
async def without_agents(
    store: Store, session: str, env: Mapping[str, str] | None = None, *, owner: Ownership | None = None
) -> AsyncIterator[Rewinder]:
    """A `Rewinder` for a session that is not running; no model is needed. To change anything, the caller must own the
    session, as `owner`; the files are then recovered after a kill. Raises UsageError if its folder is gone."""
    from friday_cli import config

    envelopes = await store.events(session)
    first = envelopes[0].event if envelopes else None
    if not isinstance(first, SessionStarted):
        raise UsageError(f"Nothing happened in session {session[:8]}.")
    settings = config.load(project=None, flags={}, environ=os.environ if env is None else env).settings
    log = Log(store.journal(session), last=max(e.seq or 0 for e in envelopes))
    blobs, most = blobs_of(session, settings, env), settings.checkpoints.file_megabytes * MEGABYTE
    changes = ChangeObservers(lambda files: CheckpointRecorder(blobs, None, log, label=files.label, most=most))
    workspace = LocalWorkspace(Path(first.cwd), changes=changes)
    try:
        recovered = []
        if owner is not None:
            base = baseline_of(session, env)
            recovered = await recover_files(log, workspace, envelopes, base, died_at=owner.died_at)
            for text in recovered:
                await log.emit("a", events.Notice(text, "warning"))
        yield Rewinder(session, store, log, workspace, recovered=recovered)
    finally:
        await log.close()
        await workspace.close()


async def fork(
    store: Store,
    session: str,
    *,
    at: int | None = None,
    before: int | None = None,
    folder: Path | None = None,
    models: Mapping[str, str] = {},
) -> str:
    """Create a session with the history of another up to right before message `at`, or event number `before` (None: all of it);
    returns its id. It works in `folder` (None: the same one), its agents with other `models` by path.
    The other session is only read and may be running. Its ended agents can be read and resumed in the fork; those that
    were running are ended there. Raises UsageError, StoreError."""
    envelopes = await store.events(session)
    kept = envelopes if at is None else _events_before(envelopes, find_point(envelopes, at).seq)
    kept = kept if before is None else [e for e in kept if (e.seq or 0) < before]
    if not any(isinstance(e.event, AgentStarted) for e in kept):
        raise UsageError("There is nothing before that message to fork from.", hint="Start a new session instead.")
    first = kept[0].event
    if not isinstance(first, SessionStarted):
        raise UsageError(f"Session {session[:8]} has no beginning and cannot be forked.")
    title = await store.title(session)
    cwd = first.cwd if folder is None else str(folder)
    name = await store.create_session(cwd, title=f"{title} (fork)" if title else "")
    kept += _end_running_agents(kept, session)
    if folder is not None or models:
        kept += _moved_prefixes(kept, (first.cwd, cwd), models)
    began = msgspec.structs.replace(first, session=name, cwd=cwd, forked=session, taken=kept[-1].seq or 0)
    with await store.own(name):
        note = Envelope(began.taken + 1, time.time(), "a", events.Notice(f"Forked from session {session[:8]}.", "info"))
        await store.journal(name).append([msgspec.structs.replace(kept[0], event=began), *kept[1:], note])
    place = store.path.parent / "checkpoints"
    wanted = {k.before for e in kept if isinstance(e.event, events.Checkpoint) for k in e.event.files if k.before}
    await asyncio.to_thread(Blobs(place / name, most=0).copy_from, place / session, wanted)
    return name


def _moved_prefixes(kept: Sequence[Envelope], folders: tuple[str, str], models: Mapping[str, str]) -> list[Envelope]:
    """New prefixes of the agents, which name the second of `folders` in place of the first, and other `models`."""
    newest = {e.agent: e.event for e in kept if isinstance(e.event, events.Prefix)}
    last, made = kept[-1], list[Envelope]()
    for path, prefix in newest.items():
        system = prefix.system.replace(*folders)
        moved = events.Prefix(models.get(path, prefix.model), system, prefix.tools)
        made.append(Envelope((last.seq or 0) + len(made) + 1, last.at, path, moved))
    return made


def _events_before(envelopes: Sequence[Envelope], seq: int) -> list[Envelope]:
    """The events before event `seq`, without the start of the run that it belongs to."""
    kept = [e for e in envelopes if (e.seq or 0) < seq]
    while (
        kept and kept[-1].agent == "a" and not isinstance(kept[-1].event, (events.AgentFinished, events.MessageAdded))
    ):
        if isinstance(kept.pop().event, AgentStarted):
            return kept
    return [e for e in envelopes if (e.seq or 0) < seq]


def _end_running_agents(envelopes: Sequence[Envelope], session: str) -> list[Envelope]:
    made = []
    for envelope in recovery_events(envelopes, now=time.time()):
        event = envelope.event
        if isinstance(event, events.AgentFinished):
            words = f"Session {session[:8]} was forked while this agent was running; it continues there."
            event = msgspec.structs.replace(event, status="cancelled", stop_reason="aborted", error=words)
        made.append(msgspec.structs.replace(envelope, event=event))
    return made
