"""What is on the disk when the power goes (Q62): a layer under a session records what is brought there, and when."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from friday_cli.store import schema, writer
from friday_cli.system.paths import data_dir
from tests.session.harness import Harness, does, says


class Disk:
    """Notes what of files, folders and the session file would survive a power cut, as POSIX promises it: a content
    after its fsync, a name after the fsync of its folder, a transaction after a commit for which SQLite waits for the
    disk. `look` is called right before a file of the project gets a new name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
        self.project = project
        self.synced: set[int] = set()
        self.named: dict[Path, bool] = {}
        self.rows: list[str] = []
        self.safe_rows = 0
        self._full = False
        self.cuts: list[dict[str, Any]] = []
        real = {name: getattr(os, name) for name in ("fsync", "rename", "link")}

        def fsync(fd: int) -> None:
            real["fsync"](fd)
            status = os.fstat(fd)
            self.synced.add(status.st_ino)
            for path in self.named:
                if path.parent.exists() and path.parent.stat().st_ino == status.st_ino:
                    self.named[path] = True

        def naming(name: str) -> Any:
            def call(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None, **more: Any) -> None:
                inode = os.stat(src, dir_fd=src_dir_fd).st_ino
                folder = Path(os.readlink(f"/proc/self/fd/{dst_dir_fd}")) if dst_dir_fd is not None else Path()
                path = folder / os.fsdecode(dst)
                if path.is_relative_to(self.project):
                    self.cut(path, inode)
                real[name](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more)
                self.named[path] = False

            return call

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "rename", naming("rename"))
        monkeypatch.setattr(os, "link", naming("link"))
        monkeypatch.setattr(writer, "connect", self.connect)

    def connect(self, path: Path) -> sqlite3.Connection:
        db = schema.connect(path)
        db.set_trace_callback(self.ran)
        return db

    def ran(self, sql: str) -> None:
        if sql.startswith("PRAGMA synchronous"):
            self._full = sql.endswith("FULL")
        elif sql.startswith("INSERT INTO events"):
            self.rows.append(sql)
        elif sql.startswith("COMMIT") and self._full:
            self.safe_rows = len(self.rows)

    def cut(self, path: Path, inode: int) -> None:
        """The power goes now, while the old content is about to be replaced by the new one."""
        kept = [p for p in self.named if p.is_relative_to(data_dir() / "checkpoints")]
        self.cuts.append(
            {
                "path": path.name,
                "whole": inode in self.synced,
                "kept": {p.read_bytes() for p in kept if self.named[p] and p.stat().st_ino in self.synced},
                "told": "\n".join(self.rows[: self.safe_rows]),
            }
        )


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="asks /proc for the names of folders")
async def test_a_power_cut_at_any_change_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "old.txt").write_text("before\n")
    edits = [
        does(("read_file", {"path": "old.txt"})),
        does(
            ("edit_file", {"path": "old.txt", "edits": [{"old": "before", "new": "after"}]}),
            ("write_file", {"path": "new.txt", "content": "new\n"}),
        ),
        says("done"),
    ]
    harness = Harness(project, {"a": edits})
    disk = Disk(monkeypatch, project)
    await harness.ran(mode="edits")
    assert [(cut["path"], cut["whole"]) for cut in disk.cuts] == [("old.txt", True), ("new.txt", True)]
    for cut in disk.cuts:  # the call and what it is to change can be read, and what the file held is there
        for part in ('"go"', "tool_started", "checkpoint", cut["path"]):
            assert part in cut["told"], (cut["path"], part)
    assert disk.cuts[0]["kept"] == {b"before\n"}
    assert disk.safe_rows == len(disk.rows)  # and after the end of the run all of it
