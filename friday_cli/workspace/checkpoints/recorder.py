"""Keeps what a file holds before it is changed, and says so in the log, before anything happens to it."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.events import Checkpoint, Notice
from friday_cli.core.protocol.receipt import KeptFile

from ..fs.transaction import LINK, FileContent
from .blobs import MEGABYTE, Blobs
from .file_state import NOTHING, FileState, file_state, named
from .snapshot import Snapshot, SnapshotChange

ROWS = 500
"""Files in one event."""


PERSON = "person"
"""Who a command that the person typed belongs to."""


class PendingChange(msgspec.Struct, frozen=True):
    """A change that is about to be made: what the file will hold, None: it will be gone."""

    root: Path
    path: Path
    new: FileContent | None


class CheckpointRecorder:
    """Looks after the files of one workspace. `label` is how it names a path; what is larger than `most` bytes is not kept.
    `base` knows what files held before a command ran; None: what commands change is not kept."""

    def __init__(
        self, blobs: Blobs, base: Snapshot | None, log: Log, *, label: Callable[[Path], str], most: int
    ) -> None:
        self.blobs = blobs
        self.most = most
        self._base = base
        self._log = log
        self._label = label
        self._told = self._said = False
        self._looking = asyncio.Lock()

    async def before(self, agent: str, coming: Sequence[PendingChange]) -> tuple[KeptFile, ...]:
        """Keep what these files hold now; `agent` is who changes them, "" for the person. It survives a power cut when this
        returns. Never fails: what cannot be kept is said in the log, and the change goes on."""
        found = tuple([await asyncio.to_thread(self._keep, change) for change in coming])
        await self.note(agent, found, "tool" if agent else "person", durable=True)
        return found

    async def undone(self, agent: str, kept: Sequence[KeptFile]) -> None:
        """Nothing came of the changes that `before` was told of."""
        void = tuple(msgspec.structs.replace(k, after=k.before, new_mode=k.mode) for k in kept)
        await self.note(agent, void, "tool" if agent else "person")

    async def wrote(self, coming: Sequence[PendingChange]) -> None:
        """The changes that `before` was told of were made."""
        if self._base is not None and self._base.taken:
            async with self._looking:
                for change in coming:
                    await asyncio.to_thread(self._base.wrote, change.path)

    async def begins(self, other: str) -> None:
        """A command is about to run. What changed until now is the person's doing, or that of the agent `other`, of which
        a command is running."""
        if self._base is not None and (not other or other == PERSON or not self._base.taken):
            async with self._looking:
                await asyncio.to_thread(self._base.update)
                await self._say_problem()
        else:
            await self.ended(other)

    async def ended(self, agent: str) -> None:
        """A command of `agent` ran: keep what the files held that are not as they were."""
        if self._base is None:
            return
        async with self._looking:
            found = await asyncio.to_thread(self._base.differences)
            await self._say_problem()
            if agent == PERSON:
                return
            for first in range(0, len(found), ROWS):
                rows = await asyncio.to_thread(self._rows, found[first : first + ROWS])
                await self.note(agent, rows, "command")

    async def close(self) -> None:
        """Forget what commands are compared with."""
        if self._base is not None:
            async with self._looking:
                await asyncio.to_thread(self._base.close)

    async def _say_problem(self) -> None:
        if self._base is not None and self._base.problem and not self._said:
            self._said = True
            text = f"What commands change here cannot be rewound: {self._base.problem}."
            await self._log.emit("a", Notice(text, "info"))

    def _rows(self, found: Sequence[SnapshotChange]) -> tuple[KeptFile, ...]:
        rows = []
        for one in found:
            kept = self.keep(self._label(one.path), one.before, one.after.digest, one.after.mode, durable=False)
            rows.append(msgspec.structs.replace(kept, lost=one.lost) if one.lost else kept)
        return tuple(rows)

    async def note(
        self, agent: str, kept: Sequence[KeptFile], by: Literal["tool", "command", "person"], *, durable: bool = False
    ) -> None:
        """Write into the log what was kept."""
        if not kept:
            return
        await self._log.emit(agent or "a", Checkpoint(tuple(kept), by), durable=durable)
        failed = next((k for k in kept if k.lost.startswith("it could not be kept")), None)
        if failed is not None and not self._told:
            self._told = True
            text = f"Checkpoints: {failed.path}: {failed.lost}. A rewind cannot bring it back."
            await self._log.emit("a", Notice(text, "warning"))

    def keep(self, label: str, sight: FileState, digest: str, mode: int, *, durable: bool = True) -> KeptFile:
        """The row of a file that held what `sight` saw, and will hold, or holds, something else. Blocks."""
        lost = ""
        if stat.S_ISREG(sight.mode) and sight.data is None:
            lost = f"it was larger than {self.most // MEGABYTE} MB"
        elif sight.data is None and sight.mode:
            lost = "it was no file"
        elif sight.data is not None and (sight.digest, sight.mode) != (digest, mode):
            try:
                self.blobs.put(sight.data, durable=durable)
            except OSError as error:
                lost = f"it could not be kept: {error.strerror}"
        path, raw = named(label)
        return KeptFile(path, sight.digest, digest, sight.mode, mode, raw, lost)

    def _keep(self, change: PendingChange) -> KeptFile:
        label, new = self._label(change.path), change.new
        digest = "" if new is None else hashlib.sha256(new.data).hexdigest()
        try:
            sight = file_state(change.root, change.path, most=self.most)
        except OSError as error:
            path, raw = named(label)
            words = f"it could not be kept: {error.strerror}"
            return KeptFile(path, "", digest, stat.S_IFREG, _mode(new, NOTHING), raw, words)
        return self.keep(label, sight, digest, _mode(new, sight))


def _mode(new: FileContent | None, sight: FileState) -> int:
    """The st_mode of what a file will be; its rights are 0 where nobody can tell yet."""
    if new is None or new.mode == LINK:
        return 0 if new is None else stat.S_IFLNK
    kept = stat.S_IMODE(sight.mode) if stat.S_ISREG(sight.mode) else 0
    return stat.S_IFREG | (kept if new.rights is None else new.rights)
