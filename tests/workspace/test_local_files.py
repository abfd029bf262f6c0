from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import itertools
import os
import resource
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system import safe_files
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_a_new_file_is_created_with_its_folders(workspace: LocalWorkspace, root: Path) -> None:
    digest = await workspace.write(workspace.resolve("a/b/new.txt"), b"hello", expect=None)
    assert (root / "a/b/new.txt").read_bytes() == b"hello"
    assert digest == sha(b"hello")
    assert os.listdir(root / "a/b") == ["new.txt"]


async def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(workspace: LocalWorkspace, root: Path) -> None:
    (root / "old.sh").write_bytes(b"1")
    (root / "old.sh").chmod(0o751)
    before = os.umask(0o027)
    try:
        await workspace.write(root / "new.sh", b"1", expect=None)
        await workspace.write(root / "old.sh", b"2", expect=sha(b"1"))
    finally:
        os.umask(before)
    assert [(root / name).stat().st_mode & 0o7777 for name in ("new.sh", "old.sh")] == [0o640, 0o751]


@pytest.mark.parametrize(
    ("present", "mode", "expect", "word"),
    [
        (b"theirs", 0o644, sha(b"mine"), "changed"),
        (b"theirs", 0o644, None, "exists"),
        (None, 0, sha(b"mine"), "deleted"),
        (b"mine", 0o444, sha(b"mine"), "read-only"),
    ],
)
async def test_a_file_with_unexpected_content_or_mode_is_not_changed(
    workspace: LocalWorkspace, root: Path, present: bytes | None, mode: int, expect: str | None, word: str
) -> None:
    if present is not None:
        (root / "f").write_bytes(present)
        (root / "f").chmod(mode)
    with pytest.raises(ToolError, match=f"^f: .*{word}"):
        await workspace.write(root / "f", b"new", expect=expect)
    assert os.listdir(root) == ([] if present is None else ["f"])
    assert present is None or (root / "f").read_bytes() == present


async def test_of_concurrent_writers_one_succeeds_and_the_others_are_refused(
    workspace: LocalWorkspace, root: Path
) -> None:
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


def test_q17_swaps_between_check_and_access_never_lead_outside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread swaps the file, and the folder above it, for links to the outside, as fast as it can."""
    outside = root.parent / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d/f").write_bytes(b"theirs")
    (root / "d").mkdir()
    os.symlink(outside / "d", root / "folder-link")
    monkeypatch.setattr("friday_cli.system.safe_files.os.fsync", lambda fd: None)  # 10,000 of them take a minute
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
    results: Counter[str] = Counter()
    try:
        for turn in range(10_000):
            with contextlib.suppress(OSError, ToolError):
                results["tried"] += 1
                if turn % 10 == 9:
                    assert safe_files.read(root, root / "d/f", 100) == b"mine"
                    results["read"] += 1
                else:
                    safe_files.write(root, root / "d/f", b"mine", sha(b"mine") if turn % 2 else None)
                    results["written"] += 1
    finally:
        stop.set()
        thread.join()
    refused = results["tried"] - results["written"] - results["read"]
    assert min(results["written"], results["read"], refused, next(swaps)) > 10
    assert sorted(str(p.relative_to(outside)) for p in outside.rglob("*")) == ["d", "d/f"]
    assert (outside / "d/f").read_bytes() == b"theirs"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
async def test_devices_pipes_and_sockets_are_refused_without_waiting(workspace: LocalWorkspace, root: Path) -> None:
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


async def test_only_the_requested_bytes_of_a_huge_file_are_read(workspace: LocalWorkspace, root: Path) -> None:
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

    monkeypatch.setattr("friday_cli.system.safe_files.os.write", full)
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


async def test_a_long_result_is_saved_where_it_can_be_read(root: Path, tmp_path: Path) -> None:
    workspace = LocalWorkspace(root, CommandHost(overflow_folder=tmp_path / "spill"))
    path = await workspace.keep_output(b"x" * 1_000_001)
    assert await workspace.read(workspace.resolve(path), limit=2_000_000) == b"x" * 1_000_001
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    nowhere = LocalWorkspace(root, CommandHost(overflow_folder=tmp_path / "file" / "spill"))
    with pytest.raises(ToolError, match="It could not be saved: Not a directory"):
        await nowhere.keep_output(b"x")


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_copy_follows_no_link_on_the_way(root: Path, tmp_path: Path, where: str) -> None:
    """The names may be of a moment ago: another process makes links meanwhile."""
    outside, folders = tmp_path / "outside", {"source": root / "source", "target": root / "target"}
    for folder in (outside, folders["source"], folders["target"]):
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "f").write_text(folder.name)
        (folder / "link").symlink_to("a/f")
    (folders[where] / "a").rename(root / "was")
    (folders[where] / "a").symlink_to(outside / "a")
    os.mkfifo(folders["source"] / "pipe")
    names = ("a/f", "pipe", "a", "gone", "a/f/g", "link")
    copied = [safe_files.copy(folders["source"], folders["target"], name) for name in names]
    assert copied == [False, False, False, False, False, True]
    assert (outside / "a" / "f").read_text() == "outside"
    assert (folders["target"] / "link").readlink() == Path("a/f")


def test_a_copy_that_does_not_fit_is_an_error(root: Path) -> None:
    for name in ("source", "target"):
        (root / name).mkdir()
    (root / "source" / "f").write_bytes(b"x" * 3_000)
    pid = os.fork()
    if pid == 0:  # the limit is of the process
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
        try:
            safe_files.copy(root / "source", root / "target", "f")
        except OSError as error:
            os._exit(error.errno == errno.EFBIG)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
