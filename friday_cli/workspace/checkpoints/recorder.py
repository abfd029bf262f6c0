"""Saves the content of a file before it is changed, and records that in the log first."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.agent_path import PERSON
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.events import Checkpoint, Notice
from friday_cli.core.protocol.receipt import KeptFile
from friday_cli.core.text.diff import difference

from ..fs.change_detection import FileEffect
from ..fs.transaction import LINK, FileContent, PendingChange, leaves_empty
from .blobs import MEGABYTE, Blobs
from .file_state import ABSENT, FileState, encode_path, file_state, text_of
from .snapshot import Snapshot, SnapshotChange

if TYPE_CHECKING:
    from ..process.command import ProtectedChanges
    from ..sandbox.tamper_check import ScannedFile

P = ParamSpec("P")
T = TypeVar("T")

ROWS = 500
"""Files in one event."""
GRACE_S = 3.0
"""Seconds after the last sign of life of a process in which its commands may still have changed files."""
VERIFY_S = 0.2
"""Seconds without a command until a complete scan for changes that the kernel did not report."""
_NOT_SAVED = "it could not be saved"
_UNKNOWN = FileState(stat.S_IFREG)
"""The state that commands left a file in if it is not known; no file is in it."""


def _completed(
    method: Callable[Concatenate[CheckpointRecorder, P], Coroutine[None, None, T]],
) -> Callable[Concatenate[CheckpointRecorder, P], Coroutine[None, None, T]]:
    """`method`, which completes even if its caller is cancelled: nobody else may use the snapshot while a thread does, and a
    change is found only once."""

    async def shielded(self: CheckpointRecorder, /, *args: P.args, **more: P.kwargs) -> T:
        return await asyncio.shield(self.start(method(self, *args, **more)))

    return shielded


class CheckpointRecorder:
    """Records the changes of one workspace's files in `log` and saves the old contents, up to `most` bytes each, in `blobs`.
    `label` names a path. Without `snapshot`, which has the state before a command, changes of commands are not recorded."""

    def __init__(
        self, blobs: Blobs, snapshot: Snapshot | None, log: Log, *, label: Callable[[Path], str], most: int
    ) -> None:
        self.blobs = blobs
        self.most = most
        self._snapshot = snapshot
        self._log = log
        self._label = label
        self._failure_reported = self._problem_reported = False
        self._running = ""
        """The agent of which a command is running; "" for none."""
        self._snapshot_lock = asyncio.Lock()
        self._unverified = ""
        """The agent of the last command after which no complete scan has looked for changes that the kernel did not report."""
        self._cancel_timer: Callable[[], object] = lambda: None
        self._tasks = BackgroundTasks()
        self._closed = False
        self._waiting = 0
        """Commands that wait for the snapshot; a verification ends then."""

    @property
    def problem(self) -> str | None:
        """Why changes of commands are not recorded, "" if they are; None if they are not to be."""
        return None if self._snapshot is None else self._snapshot.problem

    async def save_before(self, agent: str, pending: Sequence[PendingChange]) -> tuple[KeptFile, ...]:
        """Save the current content of these files; `agent` is about to change them, "" for the user. It survives a power
        failure once this returns. Does not fail: a content that cannot be saved is reported in the log."""
        deleted = {change.path for change in pending if change.new is None}
        kept = tuple([await asyncio.to_thread(self._save_pending, change, deleted) for change in pending])
        await self.record(agent, kept, "tool" if agent else "person", durable=True)
        return kept

    async def changes_failed(self, agent: str, kept: Sequence[KeptFile]) -> None:
        """Record that the changes announced to `save_before` were not made."""
        unchanged = tuple(msgspec.structs.replace(k, after=k.before, new_mode=k.mode) for k in kept)
        await self.record(agent, unchanged, "tool" if agent else "person")

    @_completed
    async def changes_made(self, made: Sequence[PendingChange]) -> None:
        """Update the snapshot with the changes announced to `save_before`."""
        if self._snapshot is not None and self._snapshot.ready:
            async with self._using(self._snapshot) as snapshot:
                for change in made:
                    await asyncio.to_thread(snapshot.file_written, change.path)
                await asyncio.to_thread(snapshot.commit, self._running)
            if self._unverified:
                self._verify_later()

    @_completed
    async def command_started(self, agent: str, other: str) -> dict[Path, FileEffect]:
        """Call before a command of `agent` starts. Changes until now were made by the user, or by the agent `other` if one
        of its commands is running; those are returned. What the files hold now survives a kill once this returns."""
        if self._snapshot is None:
            return {}
        effects: dict[Path, FileEffect] = {}
        async with self._using(self._snapshot) as snapshot:
            self._running = other if agent == PERSON else agent
            if other in ("", PERSON) or not snapshot.ready:
                await asyncio.to_thread(snapshot.update_and_commit, self._running, lambda: not self._closed)
                await self._report_problem()
            else:
                effects = await self._record_changes(other, snapshot)
                await asyncio.to_thread(snapshot.commit, self._running)
        return effects

    @_completed
    async def command_ended(self, agent: str, other: str) -> dict[Path, FileEffect]:
        """Record and return what a command of `agent` did to files, and save their old contents. A command of the agent
        `other` is still running ("": none)."""
        if self._snapshot is None:
            return {}
        async with self._using(self._snapshot) as snapshot:
            effects = await self._record_changes(agent, snapshot)
            self._running = other
            await asyncio.to_thread(snapshot.commit, other)
            if agent != PERSON and snapshot.ready:
                self._unverified = agent
        if self._unverified:
            self._verify_later()
        return effects

    def touched_since(self, start: int) -> list[str] | None:
        """The paths that changed since a time (nanoseconds), as far as the last call here saw; None if that is not known."""
        return None if self._snapshot is None else self._snapshot.touched_since(start)

    async def verify(self) -> None:
        """Record what commands changed without a report of the kernel: files that they wrote through a name in a folder that is
        not watched. That takes a complete scan, and is left to the next call if a command waits."""
        async with self._snapshot_lock:
            if self._snapshot is None or not self._unverified:
                return
            found = await asyncio.to_thread(self._snapshot.unseen_differences, lambda: not self._waiting)
            if found is not None:
                agent, self._unverified = self._unverified, ""
                await self._record(agent, found)

    def prepare_snapshot(self) -> None:
        """Take the first snapshot now if that takes long."""
        if self._snapshot is not None and not self._snapshot.ready and not self._waiting:
            self.start(self._take_early(self._snapshot))

    async def _take_early(self, snapshot: Snapshot) -> None:
        async with self._snapshot_lock:
            if not self._closed:
                await asyncio.to_thread(snapshot.take_early, lambda: not self._closed)

    def _verify_later(self) -> None:
        """Start `verify` if no command follows at once: beside the model's answer."""
        self._cancel_timer()
        loop = asyncio.get_running_loop()
        self._cancel_timer = loop.call_later(VERIFY_S, lambda: self.start(self.verify())).cancel

    def start(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run `work` as a task that `close` waits for."""
        task = self._tasks.start(work)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the log reports it
        return task

    @asynccontextmanager
    async def _using(self, snapshot: Snapshot) -> AsyncIterator[Snapshot]:
        """Wait for the snapshot, and end a verification."""
        self._cancel_timer()
        self._waiting += 1
        try:
            await self._snapshot_lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield snapshot
        finally:
            self._snapshot_lock.release()

    async def recover(self, snapshot: Snapshot, agent: str, died_at: float) -> int:
        """Record what commands of `agent` changed since `snapshot`, up to the death of their process at `died_at` (Unix
        seconds), and drop the snapshot. Files that may have changed after it count as changed by somebody else, too. Returns
        the number of files."""
        found = await asyncio.to_thread(snapshot.differences)
        until = int((died_at + GRACE_S) * 1e9)
        found = [msgspec.structs.replace(c, after=_UNKNOWN) if _changed_after(c.path, until) else c for c in found]
        await self._record(agent, found)
        await self._log.flush()
        await asyncio.to_thread(snapshot.close)
        return len(found)

    async def _record_changes(self, agent: str, snapshot: Snapshot) -> dict[Path, FileEffect]:
        def look() -> tuple[list[tuple[KeptFile, ...]], dict[Path, FileEffect]]:
            found = snapshot.differences()
            return [] if agent == PERSON else self._rows(found), _effects(found)

        kept, effects = await asyncio.to_thread(look)
        await self._report_problem()
        for rows in kept:
            await self.record(agent, rows, "command")
        return effects

    async def _record(self, agent: str, found: Sequence[SnapshotChange]) -> None:
        for rows in await asyncio.to_thread(self._rows, found):
            await self.record(agent, rows, "command")

    async def protected_files_changed(self, agent: str, changes: ProtectedChanges) -> None:
        """Record what a command of `agent` did to protected files that the snapshot does not include, such as git's."""
        from ..sandbox.tamper_check import KEPT  # it looks only while commands run

        too_large = f"it was larger than {KEPT // 1024} kB"
        rows = []
        for path, (old, new) in changes.items():
            before, after = _scanned(old), _scanned(new)
            kept = await asyncio.to_thread(
                self.save, self._label(path), before, after.digest, after.mode, durable=False
            )
            rows.append(msgspec.structs.replace(kept, lost=too_large) if before.mode and before.data is None else kept)
        await self.record(agent, tuple(rows), "command")

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cancel_timer()
        await self.verify()
        if self._snapshot is not None:
            async with self._snapshot_lock:
                await asyncio.to_thread(self._snapshot.close)

    async def _report_problem(self) -> None:
        if self._snapshot is not None and self._snapshot.problem and not self._problem_reported:
            self._problem_reported = True
            await self._log.emit("a", Notice(f"Changes by commands cannot be rewound here: {self.problem}.", "info"))

    def _rows(self, found: Sequence[SnapshotChange]) -> list[tuple[KeptFile, ...]]:
        """The changes as rows for the log, `ROWS` in an event. Blocks."""
        rows = []
        for change in found:
            after = change.after
            kept = self.save(self._label(change.path), change.before, after.digest, after.mode, durable=False)
            rows.append(msgspec.structs.replace(kept, lost=change.lost) if change.lost else kept)
        return [tuple(rows[first : first + ROWS]) for first in range(0, len(rows), ROWS)]

    async def record(
        self, agent: str, kept: Sequence[KeptFile], by: Literal["tool", "command", "person"], *, durable: bool = False
    ) -> None:
        """Write the saved files to the log."""
        if not kept:
            return
        await self._log.emit(agent or "a", Checkpoint(tuple(kept), by), durable=durable)
        failed = next((k for k in kept if k.lost.startswith(_NOT_SAVED)), None)
        if failed is not None and not self._failure_reported:
            self._failure_reported = True
            text = f"Checkpoints: {failed.path}: {failed.lost}. A rewind cannot restore it."
            await self._log.emit("a", Notice(text, "warning"))

    def save(self, label: str, before: FileState, digest: str, mode: int, *, durable: bool = True) -> KeptFile:
        """Save the content `before` of a file that gets, or has, a new content (`digest`, `mode`). Blocks."""
        lost = ""
        if stat.S_ISREG(before.mode) and before.data is None:
            lost = f"it was larger than {self.most // MEGABYTE} MB"
        elif before.data is None and before.mode:
            lost = "it was not a file"
        elif before.data is not None and (before.digest, before.mode) != (digest, mode):
            try:
                self.blobs.put(before.data, durable=durable)
            except OSError as error:
                lost = f"{_NOT_SAVED}: {error.strerror}"
        path, raw = encode_path(label)
        return KeptFile(path, before.digest, digest, mode=before.mode, new_mode=mode, raw=raw, lost=lost)

    def _save_pending(self, change: PendingChange, deleted: Collection[Path]) -> KeptFile:
        """Save a file; a folder that `deleted` leaves empty counts as absent."""
        label, new = self._label(change.path), change.new
        digest = "" if new is None else hashlib.sha256(new.data).hexdigest()
        problem = ""
        try:
            before = file_state(change.root, change.path, most=self.most)
            if stat.S_ISDIR(before.mode) and leaves_empty(change.path, deleted):
                before = ABSENT
        except OSError as error:
            before, problem = FileState(stat.S_IFREG), f"{_NOT_SAVED}: {error.strerror}"
        kept = self.save(label, before, digest, _new_mode(new, before))
        return msgspec.structs.replace(kept, lost=problem) if problem else kept


def _new_mode(new: FileContent | None, before: FileState) -> int:
    """The st_mode that a file will have; its permission bits are 0 if they are not known yet."""
    if new is None or new.mode == LINK:
        return 0 if new is None else stat.S_IFLNK
    permissions = stat.S_IMODE(before.mode) if stat.S_ISREG(before.mode) else 0
    return stat.S_IFREG | (permissions if new.rights is None else new.rights)


def _scanned(file: ScannedFile | None) -> FileState:
    """The state of a protected file."""
    if file is None:
        return ABSENT
    return FileState(file.stamp[0], file.digest, file.content, file.stamp[1])


def _effects(found: Sequence[SnapshotChange]) -> dict[Path, FileEffect]:
    """Changes for receipts, without the contents. The lines of the first `ROWS` of them are counted."""
    made = {}
    for number, change in enumerate(found):
        before, after = change.before, change.after
        added = removed = 0
        if number < ROWS and not change.lost:
            old, new = _lines_of(before), _lines_of(after)
            if old is not None and new is not None:
                _, added, removed = difference(old, new)
        made[change.path] = FileEffect((before.mode, before.digest), (after.mode, after.digest), added, removed)
    return made


def _lines_of(state: FileState) -> str | None:
    """The text of a file, "" if it does not exist; None for links and what cannot be compared."""
    if not state.mode:
        return ""
    return text_of(state.data) if stat.S_ISREG(state.mode) and state.data is not None else None


def _changed_after(path: Path, time_ns: int) -> bool:
    """Whether a file, or the folder from which it was removed, changed after a time."""
    while True:
        try:
            return os.lstat(path).st_ctime_ns > time_ns
        except OSError:
            path = path.parent
