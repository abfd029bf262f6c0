from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.fs import safe_files
from friday_cli.workspace.local import LocalWorkspace


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_a_new_file_appears_whole_with_its_folders(workspace: LocalWorkspace, root: Path) -> None:
    digest = await workspace.write(workspace.resolve("a/b/new.txt"), b"hello", expect=None)
    assert (root / "a/b/new.txt").read_bytes() == b"hello"
    assert digest == sha(b"hello")
    assert os.listdir(root / "a/b") == ["new.txt"]


async def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(workspace: LocalWorkspace, root: Path) -> None:
    before = os.umask(0o027)
    try:
        await workspace.write(root / "new.sh", b"1", expect=None)
        (root / "old.sh").write_bytes(b"1")
        (root / "old.sh").chmod(0o751)
        await workspace.write(root / "old.sh", b"2", expect=sha(b"1"))
    finally:
        os.umask(before)
    assert (root / "new.sh").stat().st_mode & 0o7777 == 0o640
    assert (root / "old.sh").stat().st_mode & 0o7777 == 0o751


@pytest.mark.parametrize(
    ("present", "expect", "word"),
    [(b"theirs", sha(b"mine"), "changed"), (b"theirs", None, "exists"), (None, sha(b"mine"), "deleted")],
)
async def test_what_is_not_as_expected_stays(
    workspace: LocalWorkspace, root: Path, present: bytes | None, expect: str | None, word: str
) -> None:
    if present is not None:
        (root / "f").write_bytes(present)
    with pytest.raises(ToolError, match=f"^f: .*{word}"):
        await workspace.write(root / "f", b"new", expect=expect)
    assert os.listdir(root) == ([] if present is None else ["f"])
    assert present is None or (root / "f").read_bytes() == present


async def test_a_read_only_file_is_left_alone(workspace: LocalWorkspace, root: Path) -> None:
    (root / "f").write_bytes(b"1")
    (root / "f").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        await workspace.write(root / "f", b"2", expect=sha(b"1"))
    assert (root / "f").read_bytes() == b"1"


async def test_of_many_writers_at_once_one_wins_and_the_others_know(workspace: LocalWorkspace, root: Path) -> None:
    (root / "f").write_bytes(b"start")
    writes = (workspace.write(root / "f", b"writer %d" % n, expect=sha(b"start")) for n in range(20))
    results = await asyncio.gather(*writes, return_exceptions=True)
    won = [n for n, result in enumerate(results) if isinstance(result, str)]
    assert len(won) == 1
    assert (root / "f").read_bytes() == b"writer %d" % won[0]
    assert all(isinstance(result, ToolError) for n, result in enumerate(results) if n not in won)


async def test_two_workspaces_create_one_file_once(root: Path) -> None:
    both = LocalWorkspace(root), LocalWorkspace(root)
    for turn in range(20):
        path = root / f"f{turn}"
        results = await asyncio.gather(*(w.write(path, b"x", expect=None) for w in both), return_exceptions=True)
        assert sorted(isinstance(result, str) for result in results) == [False, True]


async def test_a_hard_link_elsewhere_keeps_its_content(workspace: LocalWorkspace, root: Path) -> None:
    other = root.parent / "other"
    other.write_bytes(b"1")
    os.link(other, root / "f")
    await workspace.write(root / "f", b"2", expect=sha(b"1"))
    assert other.read_bytes() == b"1"


async def test_a_link_put_in_the_way_never_leads_a_write_out(workspace: LocalWorkspace, root: Path) -> None:
    """A thread swaps the folder, and the file, for links to the outside while writes go on."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"theirs")
    (root / "d").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "d", root / "away")
            with contextlib.suppress(FileExistsError):
                os.symlink(outside, root / "d")
                os.unlink(root / "d")
            while (root / "away").exists():
                try:
                    os.rename(root / "away", root / "d")
                except OSError:  # a write made the folder anew in between
                    shutil.rmtree(root / "d", ignore_errors=True)
            os.symlink(outside / "f", root / "d/link")
            os.rename(root / "d/link", root / "d/f")

    thread = threading.Thread(target=swap)
    thread.start()
    written = refused = 0
    try:
        for turn in range(1500):
            try:
                await workspace.write(root / "d" / ("f" if turn % 2 else f"n{turn}"), b"mine", expect=None)
                written += 1
            except ToolError:
                refused += 1
            try:
                assert await workspace.read(root / "d/f", limit=100) != b"theirs"
            except ToolError:
                pass
    finally:
        stop.set()
        thread.join()
    assert written > 10
    assert refused > 10
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_bytes() == b"theirs"


def test_q17_ten_thousand_swaps_between_check_and_write_lead_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last name and the folder above it are swapped for links to the outside by a thread, as fast as it can."""
    outside = root.parent / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d/f").write_bytes(b"theirs")
    (root / "d").mkdir()
    os.symlink(outside / "d", root / "folder-link")
    monkeypatch.setattr("friday_cli.workspace.fs.safe_files.os.fsync", lambda fd: None)  # 10,000 of them take a minute
    stop = threading.Event()
    swaps = itertools.count()

    def swap() -> None:
        while not stop.is_set():
            next(swaps)
            with contextlib.suppress(OSError):
                os.symlink(outside / "d/f", root / "d/tmp-link")
                os.rename(root / "d/tmp-link", root / "d/f")
            with contextlib.suppress(OSError):
                os.rename(root / "d", root / "away")
                os.rename(root / "folder-link", root / "d")
                os.rename(root / "d", root / "folder-link")
                os.rename(root / "away", root / "d")
            with contextlib.suppress(OSError):
                os.unlink(root / "d/f")

    thread = threading.Thread(target=swap)
    thread.start()
    written = refused = 0
    try:
        for turn in range(10_000):
            try:
                safe_files.write(root, root / "d/f", b"mine", None if turn % 2 else sha(b"mine"))
                written += 1
            except (OSError, ToolError):
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert written > 10
    assert refused > 10
    assert next(swaps) > 10
    assert sorted(str(p.relative_to(outside)) for p in outside.rglob("*")) == ["d", "d/f"]
    assert (outside / "d/f").read_bytes() == b"theirs"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
async def test_what_is_no_regular_file_is_refused_without_waiting(workspace: LocalWorkspace, root: Path) -> None:
    os.mkfifo(root / "fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(root)
    server.bind("socket")
    os.chdir(here)
    devices = LocalWorkspace(root, extra=[Path("/dev")])
    paths = [root / "fifo", root / "socket", root, Path("/dev/zero"), Path("/dev/null")]
    for path in paths:
        with pytest.raises(ToolError):
            await devices.read(path, limit=1000)
        with pytest.raises(ToolError):
            await devices.write(path, b"x", expect=sha(b""))
        with pytest.raises(ToolError):
            await devices.write(path, b"x", expect=None)
    server.close()


async def test_of_a_huge_sparse_file_only_what_was_asked_for_is_read(workspace: LocalWorkspace, root: Path) -> None:
    (root / "sparse").touch()
    os.truncate(root / "sparse", 10 * 1024**3)
    assert await workspace.read(root / "sparse", limit=1000) == bytes(1000)
    entry = await workspace.stat(root / "sparse")
    assert entry is not None
    assert entry.size == 10 * 1024**3


async def test_a_full_disk_leaves_the_old_file(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_bytes(b"old")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("friday_cli.workspace.fs.safe_files.os.write", full)
    with pytest.raises(ToolError, match="f: No space left on device"):
        await workspace.write(root / "f", b"new", expect=sha(b"old"))
    assert os.listdir(root) == ["f"]
    assert (root / "f").read_bytes() == b"old"


async def test_folders_are_listed_without_following_links(workspace: LocalWorkspace, root: Path) -> None:
    (root / "b").mkdir()
    (root / "a.txt").write_text("12345")
    (root / "c").symlink_to("/etc")
    entries = await workspace.entries(root)
    assert [(e.name, e.kind, e.target) for e in entries] == [
        ("a.txt", "file", ""), ("b", "folder", ""), ("c", "link", "/etc")
    ]  # fmt: skip
    assert entries[0].size == 5
    assert await workspace.stat(root / "missing") is None
    assert await workspace.stat(root / "a.txt" / "x") is None
    with pytest.raises(ToolError, match=r"^a\.txt: "):
        await workspace.entries(root / "a.txt")


async def test_paths_outside_are_refused_even_when_already_absolute(workspace: LocalWorkspace, root: Path) -> None:
    for path in (Path("/etc/passwd"), root.parent / "x"):
        with pytest.raises(ToolError, match="outside"):
            await workspace.read(path, limit=10)
        with pytest.raises(ToolError, match="outside"):
            await workspace.write(path, b"", expect=None)
