"""What a snapshot finds from what the kernel tells is what a complete scan finds, and costs no scan where none is needed."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.protocol.events import Checkpoint
from friday_cli.system.folder_watch import FolderWatch
from friday_cli.workspace.checkpoints import scan, write_hook
from friday_cli.workspace.checkpoints.blobs import Blobs
from friday_cli.workspace.checkpoints.file_state import ContentReader
from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
from friday_cli.workspace.checkpoints.scan import FolderScanner, SnapshotLimits
from friday_cli.workspace.checkpoints.snapshot import Snapshot
from friday_cli.workspace.checkpoints.write_hook import WriteHook
from friday_cli.workspace.fs.change_detection import now

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with ignored files, two folders, and a link."""
    root = tmp_path / "root"
    for folder in ("d", "out", "empty", ".git/info"):
        (root / folder).mkdir(parents=True)
    files = {"a": "1\n", "b": "2\n", "d/f": "3\n", "out/x": "4\n", ".env": "K=1\n", ".gitignore": "out/\n*.log\n.env\n"}
    for name, text in files.items():
        (root / name).write_text(text)
    (root / "link").symlink_to("a")
    return root


def watched(root: Path) -> None:
    """Skip where the folder cannot be watched."""
    try:
        FolderWatch([root]).close()
    except OSError as error:
        pytest.skip(f"NOT TESTED HERE: {error}")


def names(paths: list[str] | None, root: Path) -> set[str]:
    assert paths is not None
    return {os.path.relpath(path, root) for path in paths}


COMPLETE = True
"""What the kernel tells is not enough for this one: all files are looked at."""
CHANGES: list[tuple[str, dict[str, str], bool]] = [
    ("true", {}, False),
    ("echo x >> a", {"a": "changed"}, False),
    (": > a", {"a": "changed"}, False),
    ("chmod 600 a", {"a": "changed"}, False),
    ("touch a; cat a b > /dev/null", {}, False),
    ("echo x > new", {"new": "made"}, False),
    ("echo x > new; rm new", {}, False),
    ("rm a", {"a": "gone"}, False),
    ("mv a c", {"a": "gone", "c": "made"}, False),
    ("cp b t; mv t a", {"a": "changed"}, False),
    ("rm link; ln -s b link", {"link": "changed"}, False),
    ("rm a; ln -s b a", {"a": "changed"}, False),
    ("echo x > .env", {".env": "changed"}, False),
    ("echo x > out/x; echo x > out/y", {}, False),
    ("mkdir n; echo x > n/x", {"n/x": "made"}, False),
    ("mkdir -p n/m/o; echo x > n/m/o/x; echo x > n/m/y.log", {"n/m/o/x": "made", "n/m/y.log": "made"}, False),
    ("mkdir node_modules; echo x > node_modules/x", {}, False),
    ("rm -r d", {"d/f": "gone"}, False),
    ("rm -r d; mkdir d; echo x > d/g", {"d/f": "gone", "d/g": "made"}, False),
    ("rm -r d; echo x > d", {"d": "made", "d/f": "gone"}, False),
    ("rm -r d; ln -s out d", {"d": "made", "d/f": "gone"}, False),
    ("rm a; mkdir a; echo x > a/x", {"a": "gone", "a/x": "made"}, False),
    ("touch -m d", {}, False),
    ("mv d e", {"d/f": "gone", "e/f": "made"}, COMPLETE),
    ("mv d out/", {"d/f": "changed nowhere"}, COMPLETE),
    ("mv d e; echo x > e/f; mv e d", {"d/f": "changed"}, COMPLETE),
    ("chmod 500 d", {}, COMPLETE),
    ("rm .gitignore", {".gitignore": "gone"}, COMPLETE),
    ("rm -r .git; echo x > a", {"a": "changed"}, COMPLETE),
    ("echo a > .git/info/exclude; echo x > a", {"a": "changed"}, COMPLETE),
]


@linux
@pytest.mark.parametrize(("command", "rows", "complete"), CHANGES)
def test_the_same_changes_with_and_without_the_kernels_help(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, rows: dict[str, str], complete: bool
) -> None:
    watched(root)
    told, scanned = (Snapshot([root], tmp_path / name / "files", SnapshotLimits()) for name in ("told", "scanned"))
    told.update()
    with monkeypatch.context() as patched:
        patched.setattr(scan, "FolderWatch", _impossible)
        scanned.update()
    complete_scans: list[bool] = []
    _count(monkeypatch, told, complete_scans)
    begun = now()
    subprocess.run(["sh", "-c", command], cwd=root, check=True)
    found = told.differences()
    assert bool(complete_scans) is complete
    expected = scanned.differences()
    assert found == expected
    if "nowhere" not in "".join(rows.values()):
        assert {os.path.relpath(c.path, root): _kind(c.before.mode, c.after.mode) for c in found} == rows
    assert told.unseen_differences(lambda: True) in ([], None)
    if not complete:
        assert names(told.touched_since(begun), root) >= rows.keys() - {"d/f"} | (
            {"out/x", "out/y"} if "out/y" in command else set()
        )
    told.close()
    scanned.close()


def _kind(before: int, after: int) -> str:
    return "made" if not before else "gone" if not after else "changed"


def _impossible(roots: object) -> FolderWatch:
    raise OSError(errno.ENOSYS, "no inotify")


def _count(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, calls: list[bool]) -> None:
    original = snapshot._scanner.complete
    monkeypatch.setattr(snapshot._scanner, "complete", lambda known: (calls.append(True), original(known))[1])


@linux
def test_after_a_folder_was_made_its_files_are_watched_too(root: Path, tmp_path: Path) -> None:
    watched(root)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    snapshot.update()
    for command, path in (
        ("mkdir -p n/m; echo 1 > n/m/x", "n/m/x"),
        ("echo 2 > n/m/x", "n/m/x"),
        ("rm n/m/x", "n/m/x"),
    ):
        subprocess.run(["sh", "-c", command], cwd=root, check=True)
        assert [os.path.relpath(change.path, root) for change in snapshot.differences()] == [path]
    snapshot.close()


@linux
async def test_a_write_through_a_name_elsewhere_is_recorded_by_the_scan_after_the_command(
    root: Path, tmp_path: Path
) -> None:
    """No kernel tells of it: the folder of the second name is not watched."""
    watched(root)
    journal = MemoryJournal()
    log = Log(journal)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    recorder = CheckpointRecorder(
        Blobs(tmp_path / "blobs", most=10**6), snapshot, log, label=lambda path: path.name, most=10**6
    )

    async def command(text: str) -> list[str]:
        await recorder.command_started("a", "")
        await asyncio.to_thread(subprocess.run, ["sh", "-c", text], cwd=root, check=True)
        return [path.name for path in await recorder.command_ended("a", "")]

    def recorded() -> list[str]:
        return [k.path for e in journal.envelopes if isinstance(e.event, Checkpoint) for k in e.event.files]

    assert await command("ln a ../other; echo x >> ../other; rm ../other") == []
    (root / "b").write_text("of the person\n")
    await recorder.verify()
    assert recorded() == ["a"], "not b, which the person wrote after the command"
    assert await command("ln a ../other; true") == []
    await recorder.verify()
    assert await command("echo y >> ../other") == ["a"], "with a second name it is looked at after each command"
    assert recorded() == ["a", "a"]
    assert await command("ln b ../third; echo z >> ../third; rm ../third") == []
    await recorder.close()
    assert recorded() == ["a", "a", "b"], "a session that closes at once misses nothing"


@pytest.mark.parametrize("indexed", [True, False])
async def test_the_first_snapshot_of_a_large_repository_is_taken_before_a_command_needs_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    """And what changes after it and before the command is the person's."""
    monkeypatch.setattr(scan, "EARLY", 3)
    monkeypatch.setattr(write_hook, "LATER_S", 0.0)
    (root / ".git/index").write_bytes(b"DIRC" + (2).to_bytes(4, "big") + (4 if indexed else 2).to_bytes(4, "big"))
    journal = MemoryJournal()
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    recorder = CheckpointRecorder(
        Blobs(tmp_path / "blobs", most=10**6), snapshot, Log(journal), label=lambda path: path.name, most=10**6
    )
    considered = asyncio.Event()
    take_early, loop = Snapshot.take_early, asyncio.get_running_loop()

    def observed(*args: Any) -> None:
        take_early(*args)
        loop.call_soon_threadsafe(considered.set)

    monkeypatch.setattr(Snapshot, "take_early", observed)
    WriteHook(lambda path: root, lambda: recorder).expect_commands()
    await asyncio.wait_for(considered.wait(), 10)
    assert snapshot.ready == indexed
    (root / "a").write_text("of the person\n")
    (root / "d/f").unlink()
    await recorder.command_started("a", "")
    (root / "a").write_text("of the command\n")
    (root / "b").unlink()
    assert sorted(path.name for path in await recorder.command_ended("a", "")) == ["a", "b"]
    await recorder.close()
    kept = {k.path: k.before for e in journal.envelopes if isinstance(e.event, Checkpoint) for k in e.event.files}
    assert kept.keys() == {"a", "b"}
    assert recorder.blobs.get(kept["a"]) == b"of the person\n"


def test_where_the_index_names_too_many_files_they_are_counted_first(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository that is too large is given up without a watch; one whose files are not all checked out is not given up."""
    (root / ".git/index").write_bytes(b"DIRC" + (2).to_bytes(4, "big") + (100).to_bytes(4, "big"))
    files = len(Snapshot([root], tmp_path / "files", SnapshotLimits())._scanner.complete({}) or ())
    here = FolderScanner([root], SnapshotLimits(files=files))
    assert len(here.complete({}) or ()) == files
    assert not here.problem
    here.close()
    monkeypatch.setattr(FolderScanner, "_start_watch", lambda self: pytest.fail("it was not counted first"))
    for limits, why in (
        (SnapshotLimits(files=files - 1), f"the folder has more than {files - 1} files"),
        (SnapshotLimits(files=files, seconds=-1), "scanning the folder takes longer than -1 s"),
    ):
        scanner = FolderScanner([root], limits)
        assert scanner.complete({}) is None
        assert scanner.problem == why
        assert scanner.complete({}) is None


async def test_a_session_that_ends_does_not_wait_for_the_first_snapshot(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "EARLY", 0)
    monkeypatch.setattr(write_hook, "LATER_S", 0.0)
    read, go_on = threading.Event(), threading.Event()
    saved: Callable[..., bytes | None] = ContentReader.read

    def slow(*args: Any, **more: Any) -> bytes | None:
        read.set()
        go_on.wait(10)
        return saved(*args, **more)

    monkeypatch.setattr(ContentReader, "read", slow)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    recorder = CheckpointRecorder(
        Blobs(tmp_path / "blobs", most=10**6), snapshot, Log(MemoryJournal()), label=lambda path: path.name, most=10**6
    )
    WriteHook(lambda path: root, lambda: recorder).expect_commands()
    await asyncio.to_thread(read.wait, 10)
    closing = asyncio.create_task(recorder.close())
    await asyncio.sleep(0)
    read.clear()
    go_on.set()
    await closing
    assert not read.is_set(), "no further file was read"
    assert not (tmp_path / "kept").exists()


@linux
@pytest.mark.parametrize("failure", ["none", "later", "mount"])
def test_where_nothing_can_be_watched_folders_are_scanned(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    add: Callable[[FolderWatch, str], None] = FolderWatch.add

    def full(self: FolderWatch, folder: str) -> None:
        if failure == "none" or folder.endswith("n"):
            raise OSError(errno.ENOSPC, "No space left on device")
        add(self, folder)

    if failure == "mount":
        monkeypatch.setattr("friday_cli.system.folder_watch.LOCAL", frozenset({"nfs"}))
    monkeypatch.setattr(FolderWatch, "add", full)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    snapshot.update()
    (root / "n").mkdir()
    (root / "n/x").write_text("x")
    assert [change.path.name for change in snapshot.differences()] == ["x"]
    (root / "n/x").write_text("y")
    assert [change.path.name for change in snapshot.differences()] == ["x"]
    assert snapshot.touched_since(0) is None
    assert snapshot.unseen_differences(lambda: True) == []
    snapshot.close()


async def test_prompts_at_once_begin_one_snapshot(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Snapshot] = []

    async def take(_: CheckpointRecorder, snapshot: Snapshot) -> None:
        begun.append(snapshot)

    monkeypatch.setattr(write_hook, "LATER_S", 0.0)
    monkeypatch.setattr(CheckpointRecorder, "_take_early", take)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    recorder = CheckpointRecorder(
        Blobs(tmp_path / "blobs", most=10**6), snapshot, Log(MemoryJournal()), label=lambda path: path.name, most=10**6
    )
    hook = WriteHook(lambda path: root, lambda: recorder)
    for _ in range(3):
        hook.expect_commands()
    for _ in range(3):
        await asyncio.sleep(0)
    assert begun == [snapshot]
    await recorder.close()


async def test_a_message_to_a_closed_session_begins_no_snapshot(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[CheckpointRecorder] = []

    def make() -> CheckpointRecorder:
        snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
        blobs, log = Blobs(tmp_path / "blobs", most=10**6), Log(MemoryJournal())
        made.append(CheckpointRecorder(blobs, snapshot, log, label=lambda path: path.name, most=10**6))
        return made[-1]

    monkeypatch.setattr(write_hook, "LATER_S", 0.0)
    hook = WriteHook(lambda path: root, make)
    hook.expect_commands()
    await hook.close()
    hook.expect_commands()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not made


async def test_a_snapshot_whose_command_is_cancelled_has_one_thread(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on = threading.Event(), threading.Event()
    saved: Callable[..., bytes | None] = ContentReader.read
    update, inside, at_once = Snapshot.update, [0], [0]

    def slow(*args: Any, **more: Any) -> bytes | None:
        read.set()
        go_on.wait(10)
        return saved(*args, **more)

    def counted(*args: Any) -> None:
        inside.append(0)
        at_once.append(len(inside) - 1)
        update(*args)
        inside.pop()

    monkeypatch.setattr(ContentReader, "read", slow)
    monkeypatch.setattr(Snapshot, "update", counted)
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits())
    recorder = CheckpointRecorder(
        Blobs(tmp_path / "blobs", most=10**6), snapshot, Log(MemoryJournal()), label=lambda path: path.name, most=10**6
    )
    first = asyncio.create_task(recorder.command_started("a", ""))
    await asyncio.to_thread(read.wait, 10)
    first.cancel()
    await asyncio.wait([first])  # a stop does not wait for the thread
    second = asyncio.create_task(recorder.command_started("a", ""))
    for _ in range(20):
        await asyncio.to_thread(int)
    go_on.set()
    await second
    assert max(at_once) == 1
    assert await recorder.command_ended("a", "") == {}
    await recorder.close()
    assert not (tmp_path / "kept").exists()


def test_a_file_that_could_not_be_saved_is_known_again_after_a_move(root: Path, tmp_path: Path) -> None:
    snapshot = Snapshot([root], tmp_path / "kept/files", SnapshotLimits(file=10))
    (root / "first").write_text("x" * 20)
    snapshot.update()
    (root / "new").write_text("y" * 30)
    assert [change.path.name for change in snapshot.differences()] == ["new"]
    for number, name in enumerate(("first", "new", "new")):
        (root / (name if number < 2 else "moved1")).rename(root / f"moved{number}")
        (found,) = [change for change in snapshot.differences() if change.path.name == f"moved{number}"]
        assert found.lost.startswith("it was larger than"), name
    snapshot.close()
