"""Applying a worktree: all of its changes, merged with later changes of the user, or none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system import safe_files
from friday_cli.workspace.fs.transaction import FileWrite
from friday_cli.workspace.worktrees.metadata import Worktree
from tests.workspace.worktrees.conftest import Opener
from tests.workspace.worktrees.repo_fixture import (
    OpenRepository,
    commit,
    git,
    listing,
    own_state,
    repository,
    write_files,
)

TEN = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture
async def repo(opened: Opener) -> OpenRepository:
    """A repository with a few files."""
    repo = opened(ten=TEN, one="1\n", old="the same\nfor a rename\nto be seen\n")
    (repo.root / "data").write_bytes(b"\0\1\2")
    (repo.root / "link").symlink_to("one")
    commit(repo.root, run="#!/bin/sh\n", **{"folder/x": "x\n"})
    return repo


@pytest.fixture
async def worktree(repo: OpenRepository) -> Worktree:
    return await repo.create()


async def test_all_kinds_of_changes(repo: OpenRepository, worktree: Worktree) -> None:
    folder = worktree.folder
    write_files(folder, one="2\n", **{"deep/er/new": "new\n"})
    (folder / "folder" / "x").unlink()
    (folder / "old").rename(folder / "renamed")
    (folder / "run").chmod(0o755)
    (folder / "data").write_bytes(b"\0\3\xff")
    (folder / "link").unlink()
    (folder / "link").symlink_to("ten")
    await repo.refresh(worktree)
    assert worktree.state == "changed"
    assert {(f.path, f.added, f.removed, f.seen) for f in worktree.files} == {
        ("one", 1, 1, ""), ("deep/er/new", 1, 0, "new"), ("folder/x", 0, 1, "deleted"), ("link", 1, 1, "a link"),
        ("renamed", 0, 0, "renamed from old"), ("run", 0, 0, "now executable"), ("data", 0, 0, "binary"),
    }  # fmt: skip
    wanted = listing(folder)
    applied = await repo.apply(worktree)
    assert listing(repo.root) == wanted
    assert not (repo.root / "folder").exists()
    assert {f.path for f in applied.files} == {
        "one", "deep/er/new", "folder/x", "old", "renamed", "run", "data", "link",
    }  # fmt: skip
    assert (applied.merged, worktree.state) == ((), "applied")
    for again in (repo.apply, repo.worktrees.discard):
        with pytest.raises(ToolError, match="already applied"):
            await again(worktree)
    assert next(d for d in applied.diffs if d.path == "one").diff == "@@ -1 +1 @@\n-1\n+2\n"
    assert not folder.exists()
    assert (repo.branches(), repo.metadata_files()) == ([], [])
    assert git(repo.root, "worktree", "list").count("\n") == 1


async def test_the_index_and_head_do_not_change(repo: OpenRepository) -> None:
    (repo.root / "one").write_text("staged\n")
    git(repo.root, "add", "one")
    git(repo.root, "status")
    before = own_state(repo.root)
    worktree = await repo.create()
    (worktree.folder / "one").write_text("theirs\n")
    await repo.apply(worktree)
    assert own_state(repo.root) == before
    assert git(repo.root, "status", "--porcelain") == "MM one\n"


async def test_changes_of_the_user_elsewhere_in_the_file_are_kept(repo: OpenRepository, worktree: Worktree) -> None:
    (worktree.folder / "ten").write_text(TEN.replace("line 9", "NINE"))
    write_files(repo.root, ten=TEN.replace("line 2", "TWO"), one="mine\n")
    applied = await repo.apply(worktree)
    assert (repo.root / "ten").read_text() == TEN.replace("line 9", "NINE").replace("line 2", "TWO")
    assert (repo.root / "one").read_text() == "mine\n"
    assert applied.merged == ("ten",)


async def test_the_same_lines_conflict_and_nothing_is_applied(repo: OpenRepository, worktree: Worktree) -> None:
    write_files(worktree.folder, ten=TEN.replace("line 2", "theirs"), one="2\n", new="new\n")
    (repo.root / "ten").write_text(TEN.replace("line 2", "mine"))
    before = listing(repo.root)
    with pytest.raises(ToolError) as caught:
        await repo.apply(worktree)
    words = str(caught.value)
    assert "Nothing was applied: 1 of 3 changed files conflict." in words
    assert "- ten: it changed here as well, in the same place" in words
    assert "+theirs" in words
    assert "NEW" not in words
    assert listing(repo.root) == before
    assert (worktree.state, worktree.folder.exists()) == ("changed", True)
    (repo.root / "ten").write_text(TEN)
    await repo.apply(worktree)
    assert (repo.root / "ten").read_text() == TEN.replace("line 2", "theirs")


Change = Callable[[Path], object]


def write(name: str, text: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(text)


def delete(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def link(name: str, target: str) -> Change:
    return lambda folder: ((folder / name).unlink(), (folder / name).symlink_to(target))


def file_for_folder(folder: Path) -> None:
    shutil.rmtree(folder / "folder")
    (folder / "folder").write_text("now a file\n")


def folder_for_file(folder: Path) -> None:
    (folder / "data").unlink()
    (folder / "data").mkdir()
    (folder / "data" / "x").write_text("in a new folder\n")


def moved_behind_a_link(folder: Path) -> None:
    (folder / "folder").rename(folder / "away")
    (folder / "folder").symlink_to("away")


@pytest.mark.parametrize(
    ("theirs", "mine", "name", "reason"),
    [
        (delete("one"), write("one", b"mine"), "one", "changed here, and deleted in the worktree"),
        (write("one", b"theirs"), delete("one"), "one", "deleted here, and changed in the worktree"),
        (write("new", b"theirs"), write("new", b"mine"), "new", "created here as well"),
        (write("data", b"\0theirs"), write("data", b"\0mine"), "data", "is not text"),
        (write("data", b"\0theirs"), folder_for_file, "data", "is a folder"),
        (link("link", "ten"), link("link", "run"), "link", "a link cannot be merged"),
        (write("folder/x", b"theirs"), file_for_folder, "folder/x", "a folder above it is a file"),
        (write("folder/x", b"theirs"), moved_behind_a_link, "folder/x", "or a link here"),
        (file_for_folder, write("folder/y", b"mine"), "folder", "it is a folder"),
    ],
)
async def test_conflicts(
    repo: OpenRepository, worktree: Worktree, theirs: Change, mine: Change, name: str, reason: str
) -> None:
    theirs(worktree.folder)
    (worktree.folder / "zz").write_text("would be fine\n")
    mine(repo.root)
    before = listing(repo.root)
    with pytest.raises(ToolError, match="Nothing was applied") as caught:
        await repo.apply(worktree)
    line = next(text for text in str(caught.value).splitlines() if text.startswith(f"- {name}: "))
    assert reason in line
    assert listing(repo.root) == before
    assert worktree.folder.exists()


@pytest.mark.parametrize(
    "change",
    [
        file_for_folder,
        folder_for_file,
        link("one", "ten"),
        lambda f: ((f / "link").unlink(), (f / "link").write_text("now a file\n")),
    ],
)
async def test_files_folders_and_links_replace_each_other(
    repo: OpenRepository, worktree: Worktree, change: Change
) -> None:
    change(worktree.folder)
    wanted = listing(worktree.folder)
    await repo.apply(worktree)
    assert listing(repo.root) == wanted


async def test_modes_of_both_sides(repo: OpenRepository, worktree: Worktree) -> None:
    (worktree.folder / "run").chmod(0o755)
    (worktree.folder / "ten").write_text(TEN.replace("line 9", "NINE"))
    (repo.root / "run").write_text("#!/bin/bash\n")
    (repo.root / "run").chmod(0o640)
    (repo.root / "ten").chmod(0o700)
    await repo.apply(worktree)
    assert ((repo.root / "run").read_text(), (repo.root / "run").stat().st_mode & 0o777) == ("#!/bin/bash\n", 0o750)
    assert (repo.root / "ten").stat().st_mode & 0o777 == 0o700
    assert "NINE" in (repo.root / "ten").read_text()


async def test_equal_changes_on_both_sides_do_not_conflict(repo: OpenRepository, worktree: Worktree) -> None:
    for folder in (worktree.folder, repo.root):
        write_files(folder, one="2\n", new="new\n")
        (folder / "ten").unlink()
    (worktree.folder / "data").write_bytes(b"x")
    await repo.apply(worktree)
    assert (repo.root / "data").read_bytes() == b"x"


async def test_concurrent_applies(repo: OpenRepository) -> None:
    first, second, third = [await repo.create() for _ in range(3)]
    (first.folder / "ten").write_text(TEN.replace("line 2", "first"))
    write_files(second.folder, ten=TEN.replace("line 2", "second"), one="second\n")
    (third.folder / "ten").write_text(TEN.replace("line 9", "third"))
    done = await asyncio.gather(*map(repo.apply, (first, second, third)), return_exceptions=True)
    assert isinstance(done[1], ToolError)
    assert "- ten: it changed here as well" in str(done[1])
    assert (repo.root / "ten").read_text() == TEN.replace("line 2", "first").replace("line 9", "third")
    assert (repo.root / "one").read_text() == "1\n"
    assert (first.state, second.state, third.state) == ("applied", "changed", "applied")
    assert repo.branches() == [second.metadata.branch]


async def test_a_failed_apply_is_reverted(
    repo: OpenRepository, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "ten", "zz"):
        (worktree.folder / name).write_text("theirs\n")
    (worktree.folder / "folder" / "x").unlink()
    (worktree.folder / "run").chmod(0o755)
    before = listing(repo.root)
    publish_new = safe_files.publish_new

    def full(folder: int, temporary: str, name: str) -> None:
        if name == "zz":
            raise OSError(28, "No space left on device")
        publish_new(folder, temporary, name)

    monkeypatch.setattr(safe_files, "publish_new", full)
    with pytest.raises(ToolError, match=r"zz: No space left on device\. Nothing was changed\."):
        await repo.apply(worktree)
    assert listing(repo.root) == before
    monkeypatch.setattr(safe_files, "publish_new", publish_new)
    await repo.apply(worktree)
    assert (repo.root / "zz").read_text() == "theirs\n"


async def test_a_file_that_changes_during_the_apply_is_kept(
    repo: OpenRepository, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(worktree.folder, one="theirs\n", ten="theirs\n")
    apply_writes = repo.base.apply_writes

    async def later(steps: Sequence[FileWrite], *, agent: str) -> None:
        (repo.root / "ten").write_text("just now\n")
        await apply_writes(steps, agent=agent)

    monkeypatch.setattr(repo.base, "apply_writes", later)
    with pytest.raises(ToolError, match=r"ten: it changed just now\. Nothing was changed"):
        await repo.apply(worktree)
    assert (repo.root / "one").read_text() == "1\n"
    assert (repo.root / "ten").read_text() == "just now\n"


async def test_a_read_only_file_is_not_changed(repo: OpenRepository) -> None:
    (repo.root / "one").chmod(0o444)
    worktree = await repo.create()
    (worktree.folder / "one").chmod(0o644)
    write_files(worktree.folder, one="theirs\n", ten="theirs\n")
    with pytest.raises(ToolError, match=r"one: it is read-only\. Nothing was changed"):
        await repo.apply(worktree)
    assert (repo.root / "ten").read_text() == TEN


async def test_only_allowed_paths_are_changed(repo: OpenRepository, worktree: Worktree) -> None:
    (worktree.folder / "one").write_text("2\n")
    await repo.refresh(worktree)
    allowed = repo.worktrees.touched(worktree, repo.base)
    (worktree.folder / "ten").write_text("more\n")
    with pytest.raises(ToolError, match="The worktree changed in the meantime"):
        await repo.worktrees.apply(worktree, repo.base, allowed=allowed)
    assert (repo.root / "one").read_text() == "1\n"
    await repo.worktrees.apply(worktree, repo.base, allowed=repo.worktrees.touched(worktree, repo.base))
    assert (repo.root / "ten").read_text() == "more\n"


async def test_changes_outside_the_workspace_are_refused(opened: Opener, tmp_path: Path) -> None:
    root = commit(repository(tmp_path / "repo"), **{"part/x": "x\n"})
    repo = opened(root / "part")
    worktree = await repo.create()
    (worktree.root / "x").write_text("y\n")
    (worktree.folder / "README.md").write_text("changed by a command\n")
    before = listing(root)
    with pytest.raises(ToolError, match=r"README.md would be outside"):
        await repo.apply(worktree)
    assert listing(root) == before


# ---- other decisions ------------------------------------------------------------


async def test_discard(repo: OpenRepository) -> None:
    before = own_state(repo.root)
    worktree = await repo.create()
    (worktree.folder / "locked").mkdir()
    (worktree.folder / "locked" / "x").write_text("x\n")
    (worktree.folder / "locked").chmod(0o500)
    await repo.worktrees.discard(worktree)
    assert not worktree.folder.exists()
    assert own_state(repo.root) == before


async def test_discard_with_keep_branch(repo: OpenRepository) -> None:
    (repo.root / "one").write_text("uncommitted\n")
    files = listing(repo.root)
    worktree = await repo.create()
    write_files(worktree.folder, ten=TEN.replace("line 2", "TWO"), new="new\n")
    await repo.worktrees.discard(worktree, keep_branch=True)
    assert not worktree.folder.exists()
    assert listing(repo.root) == files
    assert repo.branches() == [worktree.metadata.branch]
    assert git(repo.root, "log", "--format=%s", "HEAD.." + worktree.metadata.branch).splitlines() == [
        "Work of a.1 in Friday session 7f3a1b2c",
        "Uncommitted changes as a sub-agent of Friday found them (7f3a1b2c)",
    ]
    branch = worktree.metadata.branch
    assert git(repo.root, "diff", "--name-only", f"{branch}^", branch).split() == ["new", "ten"]
    assert git(repo.root, "fsck", "--strict", "--no-dangling") == ""
    assert worktree.state == "kept"


async def test_commits_of_the_agent_stay_on_the_branch(repo: OpenRepository, worktree: Worktree) -> None:
    (worktree.folder / "one").write_text("2\n")
    git(worktree.folder, "commit", "-q", "-a", "-m", "mine")
    (worktree.folder / "ten").write_text("3\n")
    await repo.refresh(worktree)
    assert {f.path for f in worktree.files} == {"one", "ten"}
    await repo.worktrees.discard(worktree, keep_branch=True)
    assert len(git(repo.root, "rev-list", f"HEAD..{worktree.metadata.branch}").split()) == 2
    assert git(repo.root, "show", f"{worktree.metadata.branch}:one") == "2\n"
    assert git(repo.root, "show", f"{worktree.metadata.branch}:ten") == "3\n"


async def test_a_commit_of_the_agent_is_applied_as_uncommitted_changes(
    repo: OpenRepository, worktree: Worktree
) -> None:
    (worktree.folder / "one").write_text("2\n")
    git(worktree.folder, "commit", "-q", "-a", "-m", "mine")
    await repo.apply(worktree)
    assert (repo.root / "one").read_text() == "2\n"
    assert git(repo.root, "status", "--porcelain") == " M one\n"


async def test_another_branch_and_a_replaced_git_file_have_no_effect(repo: OpenRepository, worktree: Worktree) -> None:
    git(worktree.folder, "checkout", "-q", "-b", "elsewhere")
    (worktree.folder / "one").write_text("2\n")
    (worktree.folder / ".git").unlink()
    hostile = repository(repo.home / "hostile")
    (worktree.folder / ".git").write_text(f"gitdir: {hostile / '.git'}\n")
    git(hostile, "config", "core.fsmonitor", f"touch {repo.home / 'PWNED'}")
    await repo.refresh(worktree)
    assert [f.path for f in worktree.files] == ["one"]
    await repo.worktrees.discard(worktree)
    assert not worktree.folder.exists()
    assert not (repo.home / "PWNED").exists()
    assert git(repo.root, "worktree", "list").count("\n") == 1


async def test_a_deleted_folder(repo: OpenRepository, worktree: Worktree) -> None:
    shutil.rmtree(worktree.folder)
    with pytest.raises(ToolError, match="folder was deleted"):
        await repo.apply(worktree)
    await repo.worktrees.discard(worktree)
    assert (repo.metadata_files(), repo.branches()) == ([], [])


async def test_the_diff_as_text(repo: OpenRepository, worktree: Worktree) -> None:
    write_files(worktree.folder, one="2\n", evil="\x1b[31mred\u202e\n")
    text = await repo.worktrees.diff(worktree)
    assert "-1\n+2\n" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "diff truncated" in await repo.worktrees.diff(worktree, limit=60)
