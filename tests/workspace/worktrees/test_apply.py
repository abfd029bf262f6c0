"""Bringing a worktree's changes back: whole, onto what the user did meanwhile, or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.fs import safe_files
from friday_cli.workspace.fs.transaction import FileWrite
from tests.workspace.worktrees.repo_fixture import Ground, git, ground, listing, own_state, repository

TEN = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Ground]:
    """A repository with a few files."""
    root = repository(tmp_path / "repo", ten=TEN, one="1\n", old="the same\nfor a rename\nto be seen\n")
    (root / "folder").mkdir()
    (root / "folder" / "x").write_text("x\n")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "data").write_bytes(b"\0\1\2")
    (root / "link").symlink_to("one")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    async with ground(tmp_path, root) as made:
        yield made


async def test_all_kinds_of_changes(place: Ground) -> None:
    made = await place.child()
    folder = made.folder
    (folder / "one").write_text("2\n")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "new").write_text("new\n")
    (folder / "folder" / "x").unlink()
    (folder / "old").rename(folder / "renamed")
    (folder / "run").chmod(0o755)
    (folder / "data").write_bytes(b"\0\3\xff")
    (folder / "link").unlink()
    (folder / "link").symlink_to("ten")
    await place.worktrees.refresh(made)
    assert made.state == "changed"
    assert {(f.path, f.added, f.removed, f.seen) for f in made.files} == {
        ("one", 1, 1, ""),
        ("deep/er/new", 1, 0, "new"),
        ("folder/x", 0, 1, "deleted"),
        ("renamed", 0, 0, "renamed from old"),
        ("run", 0, 0, "now executable"),
        ("data", 0, 0, "binary"),
        ("link", 1, 1, "a link"),
    }
    wanted = listing(folder)
    applied = await place.worktrees.apply(made, place.base)
    assert listing(place.root) == wanted
    assert not (place.root / "folder").exists()
    assert {f.path for f in applied.files} == {
        "one", "deep/er/new", "folder/x", "old", "renamed", "run", "data", "link",
    }  # fmt: skip
    assert (applied.merged, made.state) == ((), "applied")
    assert next(d for d in applied.diffs if d.path == "one").diff == "@@ -1 +1 @@\n-1\n+2\n"
    assert not folder.exists()
    assert (place.branches(), place.metadata_files()) == ([], [])
    assert git(place.root, "worktree", "list").count("\n") == 1


async def test_the_index_and_head_stay_as_they_are(place: Ground) -> None:
    (place.root / "one").write_text("staged\n")
    git(place.root, "add", "one")
    git(place.root, "status")
    before = own_state(place.root)
    made = await place.child()
    (made.folder / "one").write_text("theirs\n")
    await place.worktrees.apply(made, place.base)
    assert own_state(place.root) == before
    assert git(place.root, "status", "--porcelain") == "MM one\n"


async def test_changes_of_the_user_elsewhere_in_the_file_are_kept(place: Ground) -> None:
    made = await place.child()
    (made.folder / "ten").write_text(TEN.replace("line 9", "NINE"))
    (place.root / "ten").write_text(TEN.replace("line 2", "TWO"))
    (place.root / "one").write_text("mine\n")
    applied = await place.worktrees.apply(made, place.base)
    assert (place.root / "ten").read_text() == TEN.replace("line 9", "NINE").replace("line 2", "TWO")
    assert (place.root / "one").read_text() == "mine\n"
    assert applied.merged == ("ten",)


async def test_the_same_lines_conflict_and_nothing_is_applied(place: Ground) -> None:
    made = await place.child()
    (made.folder / "ten").write_text(TEN.replace("line 2", "theirs"))
    (made.folder / "one").write_text("2\n")
    (made.folder / "new").write_text("new\n")
    (place.root / "ten").write_text(TEN.replace("line 2", "mine"))
    before = listing(place.root)
    with pytest.raises(ToolError) as caught:
        await place.worktrees.apply(made, place.base)
    words = str(caught.value)
    assert "Nothing was applied: 1 of 3 changed files conflict." in words
    assert "- ten: it changed here as well, in the same place" in words
    assert "+theirs" in words
    assert "NEW" not in words
    assert listing(place.root) == before
    assert (made.state, made.folder.exists()) == ("changed", True)
    (place.root / "ten").write_text(TEN)
    await place.worktrees.apply(made, place.base)
    assert (place.root / "ten").read_text() == TEN.replace("line 2", "theirs")


def _write(name: str, text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(text)


@pytest.mark.parametrize(
    ("theirs", "mine", "name", "reason"),
    [
        (lambda f: (f / "one").unlink(), _write("one", b"mine"), "one", "changed here, and deleted in the worktree"),
        (_write("one", b"theirs"), lambda f: (f / "one").unlink(), "one", "deleted here, and changed in the worktree"),
        (_write("new", b"theirs"), _write("new", b"mine"), "new", "created here as well"),
        (_write("data", b"\0theirs"), _write("data", b"\0mine"), "data", "is not text"),
        (_write("data", b"\0theirs"), lambda f: ((f / "data").unlink(), (f / "data").mkdir()), "data", "is a folder"),
        (
            lambda f: ((f / "link").unlink(), (f / "link").symlink_to("ten")),
            lambda f: ((f / "link").unlink(), (f / "link").symlink_to("run")),
            "link",
            "a link cannot be merged",
        ),
        (
            _write("folder/x", b"theirs"),
            lambda f: ((f / "folder" / "x").unlink(), (f / "folder").rmdir(), (f / "folder").write_text("")),
            "folder/x",
            "a folder above it is a file",
        ),
        (
            _write("folder/x", b"theirs"),
            lambda f: ((f / "folder").rename(f / "away"), (f / "folder").symlink_to("away")),
            "folder/x",
            "or a link here",
        ),
        (
            lambda f: ((f / "folder" / "x").unlink(), (f / "folder").rmdir(), (f / "folder").write_text("")),
            _write("folder/y", b"mine"),
            "folder",
            "it is a folder",
        ),
    ],
)
async def test_conflicts(
    place: Ground, theirs: Callable[[Path], object], mine: Callable[[Path], object], name: str, reason: str
) -> None:
    made = await place.child()
    theirs(made.folder)
    (made.folder / "zz").write_text("would be fine\n")
    mine(place.root)
    before = listing(place.root)
    with pytest.raises(ToolError, match="Nothing was applied") as caught:
        await place.worktrees.apply(made, place.base)
    line = next(text for text in str(caught.value).splitlines() if text.startswith(f"- {name}: "))
    assert reason in line
    assert listing(place.root) == before
    assert made.folder.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda f: ((f / "folder" / "x").unlink(), (f / "folder").rmdir(), (f / "folder").write_text("now a file\n")),
        lambda f: ((f / "one").unlink(), (f / "one").mkdir(), (f / "one" / "x").write_text("now a folder\n")),
        lambda f: ((f / "one").unlink(), (f / "one").symlink_to("ten")),
        lambda f: ((f / "link").unlink(), (f / "link").write_text("now a file\n")),
    ],
)
async def test_what_becomes_something_else(place: Ground, change: Callable[[Path], object]) -> None:
    made = await place.child()
    change(made.folder)
    wanted = listing(made.folder)
    await place.worktrees.apply(made, place.base)
    assert listing(place.root) == wanted


async def test_modes_of_both_sides(place: Ground) -> None:
    made = await place.child()
    (made.folder / "run").chmod(0o755)
    (made.folder / "ten").write_text(TEN.replace("line 9", "NINE"))
    (place.root / "run").write_text("#!/bin/bash\n")
    (place.root / "run").chmod(0o640)
    (place.root / "ten").chmod(0o700)
    await place.worktrees.apply(made, place.base)
    assert ((place.root / "run").read_text(), (place.root / "run").stat().st_mode & 0o777) == ("#!/bin/bash\n", 0o750)
    assert (place.root / "ten").stat().st_mode & 0o777 == 0o700
    assert "NINE" in (place.root / "ten").read_text()


async def test_what_is_there_already_is_no_conflict(place: Ground) -> None:
    made = await place.child()
    for folder in (made.folder, place.root):
        (folder / "one").write_text("2\n")
        (folder / "new").write_text("new\n")
        (folder / "ten").unlink()
    (made.folder / "data").write_bytes(b"x")
    await place.worktrees.apply(made, place.base)
    assert (place.root / "data").read_bytes() == b"x"


async def test_twice(place: Ground) -> None:
    made = await place.child()
    (made.folder / "one").write_text("2\n")
    await place.worktrees.apply(made, place.base)
    with pytest.raises(ToolError, match="applied already"):
        await place.worktrees.apply(made, place.base)
    with pytest.raises(ToolError, match="applied already"):
        await place.worktrees.discard(made)


async def test_two_side_by_side(place: Ground) -> None:
    first, second, third = [await place.child() for _ in range(3)]
    (first.folder / "ten").write_text(TEN.replace("line 2", "first"))
    (second.folder / "ten").write_text(TEN.replace("line 2", "second"))
    (second.folder / "one").write_text("second\n")
    (third.folder / "ten").write_text(TEN.replace("line 9", "third"))
    done = await asyncio.gather(
        *(place.worktrees.apply(w, place.base) for w in (first, second, third)), return_exceptions=True
    )
    assert isinstance(done[1], ToolError)
    assert "- ten: it changed here as well" in str(done[1])
    assert (place.root / "ten").read_text() == TEN.replace("line 2", "first").replace("line 9", "third")
    assert (place.root / "one").read_text() == "1\n"
    assert (first.state, second.state, third.state) == ("applied", "changed", "applied")
    assert place.branches() == [second.metadata.branch]


async def test_a_failure_in_the_middle_takes_everything_back(place: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await place.child()
    for name in ("one", "ten", "zz"):
        (made.folder / name).write_text("theirs\n")
    (made.folder / "folder" / "x").unlink()
    (made.folder / "run").chmod(0o755)
    before = listing(place.root)
    publish_new = safe_files.publish_new

    def full(folder: int, temporary: str, name: str) -> None:
        if name == "zz":
            raise OSError(28, "No space left on device")
        publish_new(folder, temporary, name)

    monkeypatch.setattr(safe_files, "publish_new", full)
    with pytest.raises(ToolError, match=r"zz: No space left on device\. Nothing was changed\."):
        await place.worktrees.apply(made, place.base)
    assert listing(place.root) == before
    assert [name for name in os.listdir(place.root) if name.endswith(".tmp")] == []
    monkeypatch.setattr(safe_files, "publish_new", publish_new)
    await place.worktrees.apply(made, place.base)
    assert (place.root / "zz").read_text() == "theirs\n"


async def test_a_write_between_look_and_change_stops_it(place: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await place.child()
    (made.folder / "one").write_text("theirs\n")
    (made.folder / "ten").write_text("theirs\n")
    land = place.base.apply_writes

    async def later(steps: Sequence[FileWrite], *, agent: str) -> None:
        (place.root / "ten").write_text("just now\n")
        await land(steps, agent=agent)

    monkeypatch.setattr(place.base, "apply_writes", later)
    with pytest.raises(ToolError, match=r"ten: it changed just now\. Nothing was changed"):
        await place.worktrees.apply(made, place.base)
    assert (place.root / "one").read_text() == "1\n"
    assert (place.root / "ten").read_text() == "just now\n"


async def test_a_read_only_file_is_left_alone(place: Ground) -> None:
    (place.root / "one").chmod(0o444)
    made = await place.child()
    (made.folder / "one").chmod(0o644)
    (made.folder / "one").write_text("theirs\n")
    (made.folder / "ten").write_text("theirs\n")
    with pytest.raises(ToolError, match=r"one: it is read-only\. Nothing was changed"):
        await place.worktrees.apply(made, place.base)
    assert (place.root / "ten").read_text() == TEN


async def test_only_what_was_allowed(place: Ground) -> None:
    made = await place.child()
    (made.folder / "one").write_text("2\n")
    await place.worktrees.refresh(made)
    allowed = place.worktrees.touched(made, place.base)
    (made.folder / "ten").write_text("more\n")
    with pytest.raises(ToolError, match="The worktree changed meanwhile"):
        await place.worktrees.apply(made, place.base, allowed=allowed)
    assert (place.root / "one").read_text() == "1\n"
    await place.worktrees.apply(made, place.base, allowed=place.worktrees.touched(made, place.base))
    assert (place.root / "ten").read_text() == "more\n"


async def test_outside_the_workspace(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "part").mkdir()
    (root / "part" / "x").write_text("x\n")
    async with ground(tmp_path, root / "part") as g:
        made = await g.child()
        (made.root / "x").write_text("y\n")
        (made.folder / "README.md").write_text("changed by a command\n")
        with pytest.raises(ToolError, match=r"README.md would be outside"):
            await g.worktrees.apply(made, g.base)
    assert (root / "part" / "x").read_text() == "x\n"
    assert (root / "README.md").read_text() == "read me\n"


# ---- other ends -----------------------------------------------------------------


async def test_discarded(place: Ground) -> None:
    before = own_state(place.root)
    made = await place.child()
    (made.folder / "locked").mkdir()
    (made.folder / "locked" / "x").write_text("x\n")
    (made.folder / "locked").chmod(0o500)
    await place.worktrees.discard(made)
    assert not made.folder.exists()
    assert own_state(place.root) == before


async def test_kept_on_its_branch(place: Ground) -> None:
    (place.root / "one").write_text("uncommitted\n")
    files = listing(place.root)
    made = await place.child()
    (made.folder / "ten").write_text(TEN.replace("line 2", "TWO"))
    (made.folder / "new").write_text("new\n")
    await place.worktrees.discard(made, keep_branch=True)
    assert not made.folder.exists()
    assert listing(place.root) == files
    assert place.branches() == [made.metadata.branch]
    assert git(place.root, "log", "--format=%s", "HEAD.." + made.metadata.branch).splitlines() == [
        "Work of a.1 in Friday session 7f3a1b2c",
        "Uncommitted changes as a sub-agent of Friday found them (7f3a1b2c)",
    ]
    assert git(place.root, "diff", "--name-only", f"{made.metadata.branch}^", made.metadata.branch).split() == [
        "new",
        "ten",
    ]
    assert git(place.root, "fsck", "--strict", "--no-dangling") == ""
    assert made.state == "kept"


async def test_commits_of_the_agent_stay_on_the_branch(place: Ground) -> None:
    made = await place.child()
    (made.folder / "one").write_text("2\n")
    git(made.folder, "commit", "-q", "-a", "-m", "mine")
    (made.folder / "ten").write_text("3\n")
    await place.worktrees.refresh(made)
    assert {f.path for f in made.files} == {"one", "ten"}
    await place.worktrees.discard(made, keep_branch=True)
    assert len(git(place.root, "rev-list", f"HEAD..{made.metadata.branch}").split()) == 2
    assert git(place.root, "show", f"{made.metadata.branch}:one") == "2\n"
    assert git(place.root, "show", f"{made.metadata.branch}:ten") == "3\n"


async def test_a_commit_of_the_agent_that_is_all(place: Ground) -> None:
    made = await place.child()
    (made.folder / "one").write_text("2\n")
    git(made.folder, "commit", "-q", "-a", "-m", "mine")
    await place.worktrees.apply(made, place.base)
    assert (place.root / "one").read_text() == "2\n"
    assert git(place.root, "status", "--porcelain") == " M one\n"


async def test_another_branch_and_a_broken_git_file_do_not_mislead(place: Ground) -> None:
    made = await place.child()
    git(made.folder, "checkout", "-q", "-b", "elsewhere")
    (made.folder / "one").write_text("2\n")
    (made.folder / ".git").unlink()
    hostile = repository(place.home / "hostile")
    (made.folder / ".git").write_text(f"gitdir: {hostile / '.git'}\n")
    git(hostile, "config", "core.fsmonitor", f"touch {place.home / 'PWNED'}")
    await place.worktrees.refresh(made)
    assert [f.path for f in made.files] == ["one"]
    await place.worktrees.discard(made)
    assert not made.folder.exists()
    assert not (place.home / "PWNED").exists()
    assert git(place.root, "worktree", "list").count("\n") == 1


async def test_a_folder_that_somebody_deleted(place: Ground) -> None:
    import shutil

    made = await place.child()
    shutil.rmtree(made.folder)
    with pytest.raises(ToolError, match="folder was deleted"):
        await place.worktrees.apply(made, place.base)
    await place.worktrees.discard(made)
    assert (place.metadata_files(), place.branches()) == ([], [])


async def test_the_difference_as_text(place: Ground) -> None:
    made = await place.child()
    (made.folder / "one").write_text("2\n")
    (made.folder / "evil").write_text("\x1b[31mred\u202e\n")
    text = await place.worktrees.diff(made)
    assert "-1\n+2\n" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "diff truncated" in await place.worktrees.diff(made, limit=60)
