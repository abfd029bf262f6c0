"""What a person can go back to: messages they wrote, with the files as they were; and a session that begins at one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.rewind_marks import after_rewind, is_rewind_point
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    Checkpoint,
    Envelope,
    MessageAdded,
    Notice,
    Reviewed,
    Rewound,
    SessionStarted,
)
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.store import Store
from friday_cli.store.crash_recovery import closing
from friday_cli.workspace.checkpoints import MEGABYTE, Blobs, CheckpointRecorder, blobs_of
from friday_cli.workspace.checkpoints.file_history import FileHistory, RecordedChange, follows
from friday_cli.workspace.checkpoints.restore_plan import RestoreConflict, RestorePlan, plan
from friday_cli.workspace.checkpoints.review import FileDiff, review, standing, strands
from friday_cli.workspace.local import LocalWorkspace

What = Literal["files", "conversation", "both"]
Resolve = Literal["ask", "overwrite", "leave"]
"""What becomes of files that are not as the agents left them: nothing is done where there are any, they are brought back
all the same (what they hold now is kept, too), or they are left as they are."""


class RewindPoint(msgspec.Struct, frozen=True):
    """A message of the person. `number` counts from 1 in the conversation as it stands, `seq` is that of the event right
    before which everything was as one goes back to; `at` in Unix seconds. `files` are those that agents and their
    commands changed since, as far as that was kept."""

    number: int
    seq: int
    text: str
    at: float
    files: tuple[str, ...] = ()


class RewindResult(msgspec.Struct, frozen=True):
    """What a rewind did, or would do: `done` tells which. `point` is the message it goes back to, None where a rewind is
    taken back.

    `files` are brought back (`seen` says "comes back" or "goes" of one that was deleted or made). `conflicts` are not as
    the agents left them: with any of them nothing is done until a person said what is to become of them. `lost` cannot
    be brought back, and why.
    """

    what: What
    done: bool
    point: RewindPoint | None = None
    files: tuple[FileChange, ...] = ()
    conflicts: tuple[RestoreConflict, ...] = ()
    lost: tuple[RestoreConflict, ...] = ()


class Rewinder:
    """The past of a session of which nothing runs. `most` bytes of a file are kept at most."""

    def __init__(self, log: Log, workspace: LocalWorkspace, blobs: Blobs, *, most: int) -> None:
        self.log = log
        self.workspace = workspace
        self.blobs = blobs
        self._most = most

    async def points(self) -> list[RewindPoint]:
        """The messages of the person that are part of the conversation now, the oldest first."""
        return points(await self.log.history())

    async def rewind(self, to: int, what: What, *, dry_run: bool, conflicts: Resolve) -> RewindResult:
        """Go back to right before message number `to`. Raises UsageError, with everything as it was."""
        envelopes = await self.log.history()
        found = find_point(envelopes, to)
        return await self._go(envelopes, Rewound(found.seq, what), found, found.seq, dry_run, conflicts)

    async def undo(self, *, dry_run: bool, conflicts: Resolve) -> RewindResult:
        """Take back the newest rewind that was not taken back yet. Raises UsageError, with everything as it was."""
        envelopes = await self.log.history()
        last = last_rewind(envelopes)
        assert isinstance(last.event, Rewound)
        event = Rewound(last.seq or 0, last.event.what, undo=True)
        return await self._go(envelopes, event, None, last.event.since, dry_run, conflicts)

    async def _go(
        self,
        envelopes: Sequence[Envelope],
        event: Rewound,
        to: RewindPoint | None,
        seq: int,
        dry_run: bool,
        answer: Resolve,
    ) -> RewindResult:
        made = RestorePlan()
        if event.what != "conversation":
            made = await self.planned(FileHistory(envelopes).since(seq).values(), force=answer == "overwrite")
        stands = bool(made.conflicts) and answer == "ask"
        told = RewindResult(event.what, False, to, made.files, made.conflicts, made.lost)
        if dry_run or stands:
            return told
        if event.what == "files" and not made.steps:
            raise UsageError("No file is to be brought back.", hint=_why_none(made))
        since = self.log.last
        await self.apply(made)
        await self.log.emit("a", msgspec.structs.replace(event, since=since))
        return msgspec.structs.replace(told, done=True)

    async def changes(self) -> list[FileDiff]:
        """What each agent did to each file, as far as it stands and nobody accepted it."""
        ledger = FileHistory(await self.log.history())
        return await asyncio.to_thread(review, ledger, self.workspace, self.blobs, most=self._most)

    async def restore_file(self, agent: str | None, key: str, *, conflicts: Resolve) -> RewindResult:
        """Take back what an agent did to a file, or all agents. Raises UsageError."""
        strand = _strand(FileHistory(await self.log.history()), agent, key)
        made = await self.planned([strand], force=conflicts == "overwrite")
        told = RewindResult("files", False, None, made.files, made.conflicts, made.lost)
        if made.conflicts and conflicts == "ask":
            return told
        if not made.steps:
            raise UsageError("Nothing was put back.", hint=_why_none(made))
        since = self.log.last
        await self.apply(made)
        await self.log.emit("a", Rewound(strand[0].seq, "files", since=since))
        return msgspec.structs.replace(told, done=True)

    async def accept(self, key: str) -> None:
        """Leave what was done to a file so far out of `changes` from now on. Raises UsageError."""
        _strand(FileHistory(await self.log.history()), None, key)
        await self.log.emit("a", Reviewed((key,)))

    async def planned(self, wanted: Collection[list[RecordedChange]], *, force: bool) -> RestorePlan:
        """How files get what they held before the first of their changes."""
        return await asyncio.to_thread(plan, list(wanted), self.workspace, self.blobs, most=self._most, force=force)

    async def apply(self, made: RestorePlan) -> None:
        """Do what was planned, all of it or nothing. Raises UsageError, also where it could not be taken back."""
        if not made.steps:
            return
        try:
            for step in made.steps:
                if step.old is not None:
                    await asyncio.to_thread(self.blobs.put, step.old.data)
        except OSError as error:
            raise UsageError(
                f"What {self.workspace.label(step.path)} holds now cannot be kept: {error.strerror}. Nothing was changed.",
                hint=f"Make room in {self.blobs.folder.parent}, then try again.",
            ) from None
        try:
            await self.workspace.land(made.steps)
        except ToolError as error:
            raise UsageError(str(error)) from None


def _strand(ledger: FileHistory, agent: str | None, key: str) -> list[RecordedChange]:
    """The newest changes of a file by an agent, or all that stand. Raises UsageError."""
    changes = standing(ledger).get(key)
    if changes is None:
        raise UsageError(f"No change of {key!r} waits for a review.")
    if agent is None:
        return changes
    last = strands(changes)[-1]
    if last[-1].agent == agent:
        return last
    if not any(change.agent == agent for change in changes):
        raise UsageError(f"{agent} did not change {key!r}.")
    other = last[-1].agent
    raise UsageError(f"{other} changed {key!r} after {agent}.", hint=f"Put that of {other} back first.")


def _why_none(made: RestorePlan) -> str:
    if made.lost:
        return "; ".join(f"{lost.path}: {lost.reason}" for lost in made.lost[:3]) + "."
    return "They hold what they held then, or were not changed by an agent." if not made.conflicts else ""


def points(envelopes: Sequence[Envelope]) -> list[RewindPoint]:
    """The messages of the person that are part of the conversation now, the oldest first."""
    found: list[RewindPoint] = []
    marks: dict[int, list[RewindPoint]] = {}
    started: AgentStarted | None = None
    for envelope in envelopes:
        event, seq = envelope.event, envelope.seq or 0
        if envelope.agent != "a":
            continue
        if isinstance(event, MessageAdded) and is_rewind_point("a", event.message):
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
    """The files that do not hold, as the log tells, what they held at a moment."""
    files = ledger.since(seq).values()
    return tuple(sorted(c[0].kept.path for c in files if not follows(c[0].kept.before, c[0].kept.mode, c[-1].kept)))


def find_point(envelopes: Sequence[Envelope], number: int) -> RewindPoint:
    """The message with a number. Raises UsageError."""
    found = points(envelopes)
    if not 1 <= number <= len(found):
        have = f"It has {len(found)}, numbered from 1." if found else "You wrote none yet."
        raise UsageError(f"There is no message {number} in this conversation.", hint=have)
    return found[number - 1]


def last_rewind(envelopes: Sequence[Envelope]) -> Envelope:
    """The newest rewind that was not taken back itself. Raises UsageError."""
    taken: set[int] = set()
    for envelope in reversed(envelopes):
        if isinstance(event := envelope.event, Rewound):
            if event.undo:
                taken.add(event.to)
            elif envelope.seq not in taken:
                return envelope
    raise UsageError("There is no rewind to take back.")


@asynccontextmanager
async def without_agents(store: Store, session: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Rewinder]:
    """The past of a session that is opened for that alone: no model and no agent is needed. Who changes anything owns the
    session.

    Raises UsageError where its folder is gone.
    """
    from friday_cli import config

    envelopes = await store.events(session)
    first = envelopes[0].event if envelopes else None
    if not isinstance(first, SessionStarted):
        raise UsageError(f"Nothing happened in session {session[:8]}.")
    settings = config.load(project=None, flags={}, environ=os.environ if env is None else env).settings
    log = Log(store.journal(session), last=max(e.seq or 0 for e in envelopes))
    workspace = LocalWorkspace(Path(first.cwd))
    blobs, most = blobs_of(session, settings, env), settings.checkpoints.file_megabytes * MEGABYTE
    workspace.guard.keeper = CheckpointRecorder(blobs, None, log, label=workspace.label, most=most)
    try:
        yield Rewinder(log, workspace, blobs, most=most)
    finally:
        await log.close()
        await workspace.close()


async def fork(store: Store, session: str, *, at: int | None = None) -> str:
    """A new session that begins with the history of another, up to right before the person's message number `at` (None:
    all of it); gives its id. The other one is only read, and may be at work. Raises UsageError, StoreError.

    Its agents and their results are there to be read and continued; what was at work at that moment is ended in it.
    """
    envelopes = await store.events(session)
    kept = envelopes if at is None else _before(envelopes, find_point(envelopes, at).seq)
    if not any(isinstance(e.event, AgentStarted) for e in kept):
        raise UsageError("There is nothing before that message to fork from.", hint="Start a new session instead.")
    first = kept[0].event
    if not isinstance(first, SessionStarted):
        raise UsageError(f"Session {session[:8]} has no beginning and cannot be forked.")
    title = await store.title(session)
    name = await store.create_session(first.cwd, title=f"{title} (fork)" if title else "")
    kept += _ends(kept, session)
    began = msgspec.structs.replace(first, session=name, forked=session, taken=kept[-1].seq or 0)
    with await store.own(name):
        note = Envelope(began.taken + 1, time.time(), "a", Notice(f"Forked from session {session[:8]}.", "info"))
        await store.journal(name).append([msgspec.structs.replace(kept[0], event=began), *kept[1:], note])
    place = store.path.parent / "checkpoints"
    wanted = {k.before for e in kept if isinstance(e.event, Checkpoint) for k in e.event.files if k.before}
    await asyncio.to_thread(Blobs(place / name, most=0).take, place / session, wanted)
    return name


def _before(envelopes: Sequence[Envelope], seq: int) -> list[Envelope]:
    """What came before an event, without the start of the run that it was written with."""
    kept = [e for e in envelopes if (e.seq or 0) < seq]
    while kept and kept[-1].agent == "a" and not isinstance(kept[-1].event, (AgentFinished, MessageAdded)):
        if isinstance(kept.pop().event, AgentStarted):
            return kept
    return [e for e in envelopes if (e.seq or 0) < seq]


def _ends(envelopes: Sequence[Envelope], session: str) -> list[Envelope]:
    made = []
    for envelope in closing(envelopes, now=time.time()):
        event = envelope.event
        if isinstance(event, AgentFinished):
            words = f"Session {session[:8]} was forked while this agent was at work; it goes on there."
            event = msgspec.structs.replace(event, status="cancelled", stop_reason="aborted", error=words)
        made.append(msgspec.structs.replace(envelope, event=event))
    return made
