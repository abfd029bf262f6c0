"""Whatever agents, their commands and a person write, and wherever one goes back to: files are exactly as they were, or the
rewind says that they are not; and nothing a person wrote is lost."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentStarted, MessageAdded, Rewound, ToolFinished
from friday_cli.core.protocol.messages import user
from friday_cli.session.rewind import Rewinder, points
from friday_cli.store.store import Store
from friday_cli.workspace.checkpoints.blobs import Blobs
from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
from friday_cli.workspace.checkpoints.scan import SnapshotLimits
from friday_cli.workspace.checkpoints.snapshot import Snapshot
from friday_cli.workspace.local import ChangeObservers, LocalWorkspace

NAMES = ("a", "b", "dir/c")
name = st.sampled_from(NAMES)
content = st.one_of(st.none(), st.sampled_from([b"", b"1\n", b"2\r\n", b"\0\xff"]))
BYTES = st.sampled_from([b"", b"1\n", b"2\r\n", b"\0\xff"])
MESSAGE = st.just(("message",))
AGENT = st.tuples(st.just("agent"), name, BYTES)
COMMAND = st.tuples(st.just("command"), st.dictionaries(name, content, min_size=1, max_size=3))
PERSON = st.tuples(st.just("person"), name, content)
REWIND = st.tuples(st.just("rewind"), st.integers(0, 5), st.sampled_from(["ask", "leave", "overwrite"]))
UNDO = st.just(("undo",))


@dataclass
class CheckpointedFolder:
    """A folder with a keeper, and what a plain model of it says."""

    folder: Path
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    shelf: dict[int, dict[str, bytes]] = field(default_factory=dict)
    """What the folder held at each message and each rewind, by the number of the event before which it did."""
    mine: set[str] = field(default_factory=set)
    """Files that hold what the person wrote, and not what an agent or a rewind left last."""
    left: dict[str, bytes | None] = field(default_factory=dict)
    """What an agent or a rewind left last in each file that one of them changed."""
    touched: set[str] = field(default_factory=set)
    """Files that a person ever wrote to."""

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.root.mkdir()
        self.log = Log(self.journal)
        blobs = Blobs(self.folder / "kept", most=10**9)
        self.base = Snapshot([self.root], self.folder / "base/files", SnapshotLimits())
        self.workspace = LocalWorkspace(self.root, changes=ChangeObservers(lambda files: self.recorder))
        self.recorder = CheckpointRecorder(blobs, self.base, self.log, label=self.workspace.label, most=10**6)
        self.past = Rewinder("", Store(self.folder / "unused.db"), self.log, self.workspace)

    def now(self) -> dict[str, bytes]:
        return {n: (self.root / n).read_bytes() for n in NAMES if (self.root / n).is_file()}

    def put(self, name: str, data: bytes | None) -> None:
        path = self.root / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    async def agent(self, name: str, data: bytes) -> None:
        old = self.now().get(name)
        expect = None if old is None else hashlib.sha256(old).hexdigest()
        await self.workspace.write(self.root / name, data, expect=expect, agent="a.1")
        await self.log.emit("a.1", ToolFinished("c", "write_file", "ok"))  # else the write may never have happened
        if old != data:
            self._leave({name})

    async def command(self, changes: dict[str, bytes | None]) -> None:
        await self.recorder.command_started("a.2", "")
        before = self.now()
        for name, data in changes.items():
            self.put(name, data)
        await self.recorder.command_ended("a.2", "")
        self._leave({n for n in NAMES if before.get(n) != self.now().get(n)})

    def person(self, name: str, data: bytes | None) -> None:
        if self.now().get(name) != data:
            self.put(name, data)
            if name in self.left and self.left[name] == data:  # written by hand, and still what was left
                self.mine.discard(name)
            else:
                self.mine.add(name)

    def _leave(self, names: set[str]) -> None:
        self.mine -= names
        self.left |= {n: self.now().get(n) for n in names}

    async def message(self) -> None:
        self.shelf[self.log.last + 2] = self.now()
        await self.log.emit("a", AgentStarted(1, "friday", "go", "m"), MessageAdded(user("go")))

    async def rewind(self, to: int, answer: str) -> None:
        found = points(self.journal.envelopes)
        if found:
            point = found[to % len(found)]
            await self._go(point.seq, self.past.to(point.number, "files", conflicts=answer), answer)  # type: ignore[arg-type]

    async def undo(self) -> None:
        rewinds = [e for e in self.journal.envelopes if isinstance(e.event, Rewound)]
        if rewinds:
            await self._go(0, self.past.undo(), "ask")

    async def _go(self, seq: int, work: object, answer: str) -> None:
        before, mark = self.now(), self.log.last
        try:
            done = await work  # type: ignore[misc]
        except UsageError:
            assert self.now() == before
            return
        after = self.now()
        if not done.done:
            assert after == before
            assert done.conflicts
            return
        moved = {n for n in NAMES if before.get(n) != after.get(n)}
        assert moved == {f.path for f in done.files if before.get(f.path) != after.get(f.path)}
        assert done.lost == ()
        stays = {c.path for c in done.conflicts}
        assert not (moved & stays)
        if answer != "overwrite":
            assert not (moved & self.mine), "what the person changed last is never overwritten unasked"
        if seq:
            for n in moved:  # to what it was, or to what the person made of it before an agent touched it
                was = self.shelf[seq]
                assert after.get(n) == was.get(n) or n in self.touched
        self._leave(moved)
        if moved and seq:
            again = await self.past.undo(dry_run=True)
            assert {f.path for f in again.files} >= moved, "it can be taken back"
        assert self.log.last > mark


def play(steps: list[tuple[object, ...]], then: Callable[[CheckpointedFolder], Awaitable[None]] | None = None) -> None:
    """Take `steps` in a new folder after a first message, and do `then`."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ground = CheckpointedFolder(Path(folder))
            try:
                for kind, *rest in [("message",), *steps]:
                    if kind == "person":
                        ground.touched.add(str(rest[0]))
                    done = getattr(ground, str(kind))(*rest)
                    if done is not None:
                        await done
                if then is not None:
                    await then(ground)
            finally:
                await ground.workspace.close()

    asyncio.run(run())


@settings(max_examples=50)
@given(st.lists(st.one_of(MESSAGE, AGENT, COMMAND, PERSON, REWIND, UNDO), min_size=4, max_size=14))
def test_files_come_back_exactly_or_it_is_said(steps: list[tuple[object, ...]]) -> None:
    play(steps)


@settings(max_examples=30)
@given(st.lists(st.one_of(MESSAGE, AGENT, COMMAND), min_size=3, max_size=12), st.data())
def test_without_a_person_every_message_comes_back(steps: list[tuple[object, ...]], data: st.DataObject) -> None:
    async def go_back(ground: CheckpointedFolder) -> None:
        found = points(ground.journal.envelopes)
        for _ in range(3):
            point = data.draw(st.sampled_from(found))
            last = ground.now()
            if last == ground.shelf[point.seq]:
                continue
            assert (await ground.past.to(point.number, "files")).done
            assert ground.now() == ground.shelf[point.seq]
            if data.draw(st.booleans()):
                assert (await ground.past.undo()).done
                assert ground.now() == last

    play(steps, go_back)
