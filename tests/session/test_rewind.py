"""Rewinding files: what agents, their children and their commands changed comes back; what a person changed stays."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Checkpoint, Rewound
from friday_cli.system.paths import data_dir
from tests.session.harness import Harness, delegates, does, says, wait_for


def writes(path: str, content: str) -> tuple[str, Mapping[str, Any]]:
    return "write_file", {"path": path, "content": content}


def runs(command: str) -> tuple[str, Mapping[str, Any]]:
    return "bash", {"command": command}


def everything(folder: Path) -> dict[bytes, tuple[int, bytes]]:
    """All that is below a folder: mode and content of files, targets of links."""
    found = {}
    for where, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            data = os.readlink(path) if stat.S_ISLNK(mode) else Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(folder))] = mode, data
    return found


async def test_files_are_restored_and_the_rewind_is_undone(harness: Harness) -> None:
    old = harness.project / "old.txt"
    old.write_bytes(b"one\r\ntwo\r\n")
    old.chmod(0o640)
    before = everything(harness.project)
    edit = ("edit_file", {"path": "old.txt", "edits": [{"old": "two", "new": "2"}]})
    new = writes("made/new.txt", "new\n")
    harness.plays({"a": [does(("read_file", {"path": "old.txt"})), does(edit, new), says("done")]})
    async with harness.session(mode="yolo") as session:
        await session.prompt("change them")
        after = everything(harness.project)
        (point,) = await session.rewind.points()
        assert point.files == ("made/new.txt", "old.txt")
        tried = await session.rewind.to(1, dry_run=True)
        assert not tried.done
        rows = [(f.path, f.added, f.removed, f.seen) for f in tried.files]
        assert rows == [("made/new.txt", 0, 1, "deleted"), ("old.txt", 1, 1, "")]
        assert everything(harness.project) == after
        done = await session.rewind.to(1)
        assert (done.done, done.conflicts, done.lost) == (True, (), ())
        assert everything(harness.project) == before
        assert not (harness.project / "made").exists()
        assert session._main.agent.conversation.history == []
        assert await session.rewind.points() == []
        await session.rewind.undo()
        assert everything(harness.project) == after
        assert [p.files for p in await session.rewind.points()] == [("made/new.txt", "old.txt")]
        await session.rewind.to(1, "files")
        assert everything(harness.project) == before
        assert len(session._main.agent.conversation.history) > 3, "the conversation stays"
        with pytest.raises(UsageError, match="No file needs to be restored"):
            await session.rewind.to(1, "files")
    rewinds = [e.event.what for e in await harness.log(session.id) if isinstance(e.event, Rewound)]
    assert rewinds == ["both", "both", "files"]


async def test_edits_of_children_and_of_another_process_come_back(harness: Harness) -> None:
    harness.profile("writer", "tools: [write_file, bash]")
    child = [does(writes("child.txt", "c\n")), does(runs("echo s > shell.txt; rm gone.txt")), says("made")]
    harness.plays({"a": [delegates("writer"), says("done")], "a.1": child})
    (harness.project / "gone.txt").write_text("here\n")
    before = everything(harness.project)
    async with harness.session(mode="yolo") as session:
        await session.prompt("let it write")
        assert (harness.project / "shell.txt").exists()
        events = [e for e in await session.history() if isinstance(e.event, Checkpoint)]
        assert {e.agent for e in events} == {"a.1"}
    async with harness.session(mode="yolo", resume=session.id) as again:
        await again.rewind.to(1, "files")
        assert everything(harness.project) == before


async def test_what_a_command_did_to_any_kind_of_file_comes_back(harness: Harness) -> None:
    project = harness.project
    (project / "binary").write_bytes(bytes(range(256)) * 10)
    (project / "tool.sh").write_text("#!/bin/sh\n")
    (project / "tool.sh").chmod(0o755)
    (project / "secret").write_text("s\n")
    (project / "secret").chmod(0o600)
    (project / "link").symlink_to("binary")
    (project / os.fsdecode(b"caf\xe9\n")).write_bytes(b"odd")
    (project / "deep/er").mkdir(parents=True)
    (project / "deep/er/file").write_text("deep\n")
    before = everything(project)
    command = (
        "printf x >> binary; chmod 644 tool.sh; rm secret link caf*; ln -s tool.sh link; rm -r deep; echo now > deep;"
        " mkdir newdir; echo n > newdir/n; mkfifo pipe"
    )
    harness.plays({"a": [does(runs(command)), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        (project / "pipe").unlink()
        after = everything(project)
        done = await session.rewind.to(1)
        assert (done.conflicts, done.lost) == ((), ())
        assert everything(project) == before
        await session.rewind.undo()
        assert everything(project) == after


async def test_what_the_person_changed_since_is_asked_about(harness: Harness) -> None:
    harness.plays({"a": [does(writes("a.txt", "agent\n"), writes("b.txt", "agent\n")), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        (harness.project / "a.txt").write_text("mine\n")
        asked = await session.rewind.to(1)
        assert not asked.done
        assert [(c.path, c.reason) for c in asked.conflicts] == [("a.txt", "it was changed since")]
        assert (harness.project / "b.txt").exists()
        assert len(await session.rewind.points()) == 1, "the conversation did not go back either"
        assert (await session.rewind.to(1, conflicts="leave")).done
        assert everything(harness.project).keys() == {b"a.txt"}
        await session.rewind.undo()
        assert (harness.project / "b.txt").read_text() == "agent\n"
        assert (await session.rewind.to(1, conflicts="overwrite")).done
        assert everything(harness.project) == {}
        await session.rewind.undo()
        assert (harness.project / "a.txt").read_text() == "mine\n", "what was overwritten was kept, too"


async def test_a_change_of_the_person_between_two_of_the_agent_is_seen(harness: Harness) -> None:
    again = [does(("read_file", {"path": "a.txt"})), does(writes("a.txt", "third\n")), says("two")]
    harness.plays({"a": [does(writes("a.txt", "first\n")), says("one"), *again]})
    async with harness.session(mode="yolo") as session:
        await session.prompt("first")
        (harness.project / "a.txt").write_text("second, mine\n")
        await session.prompt("second")
        ((_, reason),) = [(c.path, c.reason) for c in (await session.rewind.to(1)).conflicts]
        assert reason == "it was changed by something else between two changes of the agents"
        await session.rewind.to(2)
        assert (harness.project / "a.txt").read_text() == "second, mine\n"


async def test_two_sessions_in_one_folder_do_not_undo_each_other(harness: Harness) -> None:
    harness.plays({"a": [does(writes("a.txt", "first\n")), says("one")]})
    async with harness.after_run(mode="yolo") as first:
        harness.plays({"a": [does(("read_file", {"path": "a.txt"})), does(writes("a.txt", "second\n")), says("two")]})
        async with harness.session(mode="yolo") as second:
            await second.prompt("go")
            assert not (await first.rewind.to(1)).done
            assert (harness.project / "a.txt").read_text() == "second\n"
            await second.rewind.to(1)
            assert (harness.project / "a.txt").read_text() == "first\n"
            assert (await first.rewind.to(1)).done
            assert everything(harness.project) == {}


async def test_what_is_too_large_or_ignored_is_said_and_left(harness: Harness) -> None:
    project = harness.project
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("*.log\n.env\nout/\n")
    (project / "big.bin").write_bytes(b"x" * 1_500_000)
    (project / ".env").write_text("KEY=1\n")
    (project / "out").mkdir()
    (project / "out/made").write_text("1\n")
    command = "printf y >> big.bin; echo KEY=2 > .env; echo 2 > out/made; echo z > new.txt"
    harness.plays({"a": [does(runs(command)), says("done")]})
    async with harness.after_run(mode="yolo", flags={"checkpoints.file_megabytes": 1}) as session:
        done = await session.rewind.to(1)
        assert done.done
        assert [(c.path, c.reason) for c in done.lost] == [("big.bin", "it was larger than 1 MB")]
        assert (project / ".env").read_text() == "KEY=1\n"
        assert (project / "out/made").read_text() == "2\n", "an ignored folder is not looked at"
        assert not (project / "new.txt").exists()
        assert (project / "big.bin").stat().st_size == 1_500_001


async def test_contents_are_private_bounded_and_go_with_their_session(harness: Harness) -> None:
    (harness.project / "a.txt").write_text("old\n")
    harness.plays({"a": [does(("read_file", {"path": "a.txt"})), does(writes("a.txt", "new\n")), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        folder = data_dir() / "checkpoints" / session.id
        (kept,) = folder.iterdir()
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(kept.stat().st_mode)) == (0o700, 0o600)
        assert kept.read_bytes() == b"old\n"
        kept.write_bytes(b"damaged")
        told = await session.rewind.to(1, "files", dry_run=True)
        assert [c.reason for c in told.lost] == ["its earlier content is no longer stored"]
        name = await session.rewind.fork()
    assert (data_dir() / "checkpoints" / name).is_dir()


async def test_nothing_is_kept_where_nothing_is_written(harness: Harness) -> None:
    (harness.project / "a.txt").write_text("old\n")
    harness.plays({"a": [does(runs("cat a.txt")), does(writes("a.txt", "refused: not read\n")), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        assert (await session.rewind.points())[0].files == ()
        assert not (data_dir() / "checkpoints" / session.id).exists()


async def test_a_command_in_the_background_is_seen_at_its_end(harness: Harness) -> None:
    start = ("bash", {"command": "echo b > made.txt; sleep 20", "background": True})
    wait = runs(wait_for("made.txt"))
    harness.plays({"a": [does(start), does(wait), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        assert (await session.rewind.points())[0].files == ("made.txt",)
        await session.rewind.to(1)
        assert everything(harness.project) == {}


async def test_where_a_folder_is_too_large_it_is_said_once(harness: Harness) -> None:
    for number in range(4):
        (harness.project / f"{number}.txt").write_text("x")
    harness.plays({"a": [does(runs("echo 1 > 0.txt")), does(runs("echo 2 > 0.txt")), says("done")]})
    async with harness.session(mode="yolo") as session:
        scanner = session._parts.shared.services.workspace.write_hook.recorder._snapshot._scanner  # type: ignore[attr-defined]
        scanner.limits = msgspec.structs.replace(scanner.limits, files=3)
        await session.prompt("go")
        notices = [str(e.event) for e in await session.history() if "cannot be rewound" in str(e.event)]
        assert len(notices) == 1
        assert "more than 3 files" in notices[0]


async def test_a_session_that_closes_removes_its_copy_of_the_folder_and_misses_no_change(harness: Harness) -> None:
    (harness.project / "old").write_text("old\n")
    before = everything(harness.project)
    harness.plays({"a": [does(runs("ln old ../other; echo new > ../other; rm ../other")), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        copy = data_dir() / "baselines" / session.id
        assert copy.exists()
    assert not copy.exists()
    async with harness.session(mode="yolo", resume=session.id) as again:
        assert (await again.rewind.to(1)).done
    assert everything(harness.project) == before
