"""Creating a worktree: it has the working tree as it is, and nothing of the user changes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.worktrees import create, git_trees
from friday_cli.workspace.worktrees.git import Git
from friday_cli.workspace.worktrees.worktrees import Worktrees
from tests.workspace.worktrees.conftest import Opener
from tests.workspace.worktrees.repo_fixture import commit, git, listing, own_state, repository, write_files


def empty_repository(folder: Path, *options: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", *options)
    return folder


async def test_it_has_the_working_tree_as_it_is(opened: Opener) -> None:
    repo = opened(kept="1\n", changed="1\n", gone="1\n", staged="1\n", **{".gitignore": "*.log\n"})
    root = repo.root
    (root / "changed").write_text("2\n")
    (root / "gone").unlink()
    (root / "staged").write_text("2\n")
    git(root, "add", "staged")
    (root / "staged").write_text("3\n")
    (root / "new").write_bytes(b"\0\xff\r\n binary")
    (root / "ignored.log").write_text("no\n")
    (root / "sub").mkdir()
    (root / "sub" / "run").write_text("#!/bin/sh\n")
    (root / "sub" / "run").chmod(0o755)
    (root / "link").symlink_to("kept")
    (root / "dangling").symlink_to("/nowhere/at/all")
    before = listing(root)
    del before["ignored.log"]
    worktree = await repo.create()
    assert listing(worktree.folder) == before
    assert repo.branches() == ["friday/7f3a1b2c-1"]
    assert git(worktree.folder, "branch", "--show-current").strip() == "friday/7f3a1b2c-1"
    assert git(worktree.folder, "status", "--porcelain") == ""
    assert worktree.workspace is not None
    assert worktree.workspace.root == worktree.folder
    assert (await repo.refresh(worktree)).state == "unchanged"


async def test_nothing_of_the_user_changes(opened: Opener) -> None:
    repo = opened(a="1\n")
    root = repo.root
    (root / "a").write_text("2\n")
    git(root, "stash")
    (root / "a").write_text("3\n")
    git(root, "add", "a")
    write_files(root, a="4\n", untracked="x\n")
    files, status = listing(root), git(root, "status", "--porcelain=v2")
    before = own_state(root)
    worktree = await repo.create()
    assert {name: own_state(root).get(name) for name in before} == before
    assert {name.split("/")[0] for name in own_state(root).keys() - before.keys()} <= {"worktrees", "refs", "logs"}
    await repo.refresh(worktree)
    assert own_state(root) == before
    assert (listing(root), git(root, "status", "--porcelain=v2")) == (files, status)
    assert git(root, "worktree", "list").count("\n") == 1
    assert git(root, "fsck", "--strict", "--no-dangling") == ""


async def test_a_change_within_one_tick_of_the_clock_is_detected(opened: Opener) -> None:
    repo = opened(a="1\n")
    for number in range(10):
        (repo.root / "a").write_text(f"{number}\n")
        git(repo.root, "add", "a")
        (repo.root / "a").write_text(f"{number + 1}\n")
        worktree = await repo.create()
        assert (worktree.folder / "a").read_text() == git(worktree.folder, "show", "HEAD:a") == f"{number + 1}\n"
        await repo.worktrees.discard(worktree)


@pytest.mark.parametrize(
    "words", [("status", "-s"), ("checkout", "-q", "--detach"), ("switch", "-q", "-c", "feature/x")]
)
async def test_the_base_is_head_without_uncommitted_changes(opened: Opener, words: tuple[str, ...]) -> None:
    repo = opened()
    git(repo.root, *words)
    head = own_state(repo.root)["HEAD"]
    worktree = await repo.create()
    assert listing(worktree.folder) == listing(repo.root)
    assert worktree.metadata.base == git(repo.root, "rev-parse", "HEAD").strip()
    (repo.root / "new").write_text("x\n")
    other = await repo.create()
    assert git(repo.root, "rev-parse", f"{other.metadata.base}^").strip() == worktree.metadata.base
    assert other.metadata.branch == "friday/7f3a1b2c-2"
    assert own_state(repo.root)["HEAD"] == head


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
async def test_a_repository_without_commits(opened: Opener, tmp_path: Path, options: tuple[str, ...]) -> None:
    root = empty_repository(tmp_path / "repo", *options)
    repo = opened(root)
    empty = await repo.create()
    assert listing(empty.folder) == {}
    (empty.folder / "a").write_text("1\n")
    assert [f.path for f in (await repo.refresh(empty)).files] == ["a"]
    (root / "first").write_text("x\n")
    worktree = await repo.create()
    assert listing(worktree.folder) == {"first": "x\n"}
    assert git(worktree.folder, "rev-list", "--count", "HEAD").strip() == "1"
    write_files(worktree.folder, first="y\n", second="y\n")
    assert [f.path for f in (await repo.refresh(worktree)).files] == ["first", "second"]
    await repo.apply(worktree)
    assert listing(root) == {"first": "y\n", "second": "y\n"}
    assert git(root, "status", "--porcelain") == "?? first\n?? second\n"


@pytest.mark.parametrize("name", ["packages/one", "empty"])
async def test_a_folder_of_the_repository(opened: Opener, tmp_path: Path, name: str) -> None:
    root = commit(repository(tmp_path / "repo", top="1\n"), **{"packages/one/x": "1\n"})
    (root / "empty").mkdir()
    repo = opened(root / name)
    worktree = await repo.create()
    assert worktree.workspace is not None
    assert worktree.workspace.root == worktree.folder / name
    assert (worktree.folder / "top").read_text() == "1\n"
    with pytest.raises(ToolError, match="outside"):
        worktree.workspace.resolve(f"{root}/top", write=True)
    (worktree.root / "x").write_text("2\n")
    assert repo.worktrees.touched(await repo.refresh(worktree), repo.base) == ("x",)
    await repo.apply(worktree)
    assert (root / name / "x").read_text() == "2\n"


async def test_tracked_files_count_even_if_they_are_ignored(opened: Opener) -> None:
    repo = opened()
    commit(repo.root, **{"build/kept": "1\n"})
    write_files(repo.root, **{".gitignore": "build\n", "build/dropped": "1\n"})
    worktree = await repo.create()
    assert listing(worktree.folder) == {"README.md": "read me\n", ".gitignore": "build\n", "build/kept": "1\n"}
    (worktree.folder / "build" / "kept").write_text("2\n")
    assert [f.path for f in (await repo.refresh(worktree)).files] == ["build/kept"]


async def test_ignored_files_of_the_list_are_copied(opened: Opener) -> None:
    repo = opened(include=(".env.example", "local/a"), **{".gitignore": ".env*\nlocal/\nnode_modules/\n"})
    for name in (".env", ".env.example", "sub/.env.example", "local/a/b", "local/c", "node_modules/x"):
        (repo.root / name).parent.mkdir(parents=True, exist_ok=True)
        (repo.root / name).write_text(name)
    worktree = await repo.create()
    copied = listing(worktree.folder).keys() - {"README.md", ".gitignore"}
    assert copied == {".env.example", "sub/.env.example", "local/a/b"}
    (worktree.folder / ".env.example").write_text("changed")
    assert (await repo.refresh(worktree)).state == "unchanged"


async def test_ignored_files_above_the_limit_are_not_copied(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create, "MOST_FILES", 2)
    repo = opened(include=("*.x",), **{".gitignore": "*.x\n"})
    for number in range(4):
        (repo.root / f"{number}.x").write_text("x")
    worktree = await repo.create()
    assert sorted(listing(worktree.folder).keys() - {"README.md", ".gitignore"}) == ["0.x", "1.x"]
    assert worktree.notes == ["2 ignored files exceed the limit and were not copied, from 2.x on"]


async def test_unusual_file_names(opened: Opener) -> None:
    names = [b"-dash", b"new\nline", b"q'u\"o$te", b":(glob)*", b"caf\xe9", b" blank ", b"back\\slash", "ü".encode()]
    repo = opened()
    commit(repo.root, **{os.fsdecode(name): "1\n" for name in names})
    worktree = await repo.create()
    assert listing(worktree.folder) == listing(repo.root)
    for name in names:
        (worktree.folder / os.fsdecode(name)).write_text("2\n")
    files = (await repo.refresh(worktree)).files
    assert {f.path for f in files} >= {"-dash", "new\nline", "caf\\xe9", "ü"}
    assert len(files) == len(names)
    await repo.apply(worktree)
    assert {text for name, text in listing(repo.root).items() if name != "README.md"} == {"2\n"}


# ---- folders that cannot have a worktree ------------------------------------------


async def test_without_a_repository(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    bare = empty_repository(tmp_path / "bare", "--bare")
    parted = empty_repository(tmp_path / "two\nlines")
    for root, message in (
        (tmp_path / "plain", r"is not in a git repository.*git init"),
        (bare, "bare"),
        (parted, "its repository contains a line break"),
    ):
        repo = opened(root)
        with pytest.raises(ToolError, match=message):
            await repo.worktrees.create(repo.base)
        assert not repo.worktrees.folder.exists()


async def test_without_git(opened: Opener, tmp_path: Path) -> None:
    repo = opened()
    repo.worktrees._environ = {"PATH": str(tmp_path)}
    with pytest.raises(ToolError, match="git was not found"):
        await repo.worktrees.create(repo.base)


async def test_submodules_with_files(opened: Opener, tmp_path: Path) -> None:
    library, repo = repository(tmp_path / "library"), opened()
    git(repo.root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "libs/one")
    commit(repo.root)
    before = own_state(repo.root)
    with pytest.raises(ToolError, match=r"submodules \(libs/one\)"):
        await repo.worktrees.create(repo.base)
    assert repo.metadata_files() == []
    assert own_state(repo.root) == before
    git(tmp_path, "clone", "-q", str(repo.root), "clone")  # its submodule is empty
    clone = opened(tmp_path / "clone", home=tmp_path / "other")
    assert (await clone.refresh(await clone.create())).state == "unchanged"


async def test_nested_repositories_are_excluded(opened: Opener) -> None:
    repo = opened()
    repository(repo.root / "inner")
    empty_repository(repo.root / "empty")
    worktree = await repo.create()
    assert listing(worktree.folder) == {"README.md": "read me\n"}
    assert (await repo.refresh(worktree)).state == "unchanged"


async def test_a_working_tree_that_is_too_large(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_trees, "MOST_BYTES", 1000)
    repo = opened(big="x" * 2000)
    before = own_state(repo.root)
    with pytest.raises(ToolError, match="too much for a worktree"):
        await repo.worktrees.create(repo.base)
    assert (repo.metadata_files(), repo.branches()) == ([], [])
    assert own_state(repo.root) == before


async def test_friday_home_inside_the_repository(opened: Opener, tmp_path: Path) -> None:
    repo = opened(home=tmp_path / "repo" / "home")
    first, second = await repo.create(), await repo.create()
    assert listing(first.folder) == listing(second.folder) == {"README.md": "read me\n"}
    (first.folder / "README.md").write_text("changed\n")
    await repo.apply(first)
    assert (repo.root / "README.md").read_text() == "changed\n"


async def test_a_worktree_of_a_worktree(opened: Opener) -> None:
    repo = opened(a="1\n")
    outer = await repo.create()
    (outer.folder / "a").write_text("2\n")
    assert outer.workspace is not None
    inner = await repo.create(outer.workspace, "a.1.1")
    assert (inner.folder / "a").read_text() == "2\n"
    (inner.folder / "a").write_text("3\n")
    await repo.worktrees.apply(inner, outer.workspace)
    assert (outer.folder / "a").read_text() == "3\n"
    assert (repo.root / "a").read_text() == "1\n"
    await repo.apply(outer)
    assert (repo.root / "a").read_text() == "3\n"


async def test_in_a_worktree_of_the_user(opened: Opener, tmp_path: Path) -> None:
    main, side = repository(tmp_path / "repo", a="1\n"), tmp_path / "side"
    git(main, "worktree", "add", "-q", "-b", "side", str(side))
    (side / "a").write_text("2\n")
    repo = opened(side)
    worktree = await repo.create()
    assert (worktree.folder / "a").read_text() == "2\n"
    await repo.refresh(worktree)
    assert git(main, "worktree", "list").count("\n") == 2


async def test_contents_are_copied_byte_for_byte_despite_gits_conversions(opened: Opener) -> None:
    repo = opened(**{".gitattributes": "*.bat text eol=crlf\n*.txt text\n*.id ident\n"})
    root = repo.root
    (root / "x.bat").write_bytes(b"a\r\nb\r\n")
    commit(root, **{"x.txt": "a\nb\n", "x.id": "$Id$\n"})
    (root / "x.txt").write_bytes(b"a\r\nb\r\n")
    (root / "x.id").write_bytes(b"$Id: 0123456789 $\n")
    worktree = await repo.create()
    assert listing(worktree.folder) == listing(root)
    assert git(worktree.folder, "show", "HEAD:x.bat") == "a\nb\n"
    (worktree.folder / "x.bat").write_bytes(b"a\r\nB\r\n")
    files = (await repo.refresh(worktree)).files
    assert [(f.path, f.added, f.removed) for f in files] == [("x.bat", 1, 1)]
    await repo.apply(worktree)
    assert (root / "x.bat").read_bytes() == b"a\r\nB\r\n"


async def test_a_split_index_and_a_sparse_checkout(opened: Opener) -> None:
    repo = opened(a="1\n")
    commit(repo.root, **{"far/x": "1\n"})
    git(repo.root, "update-index", "--split-index")
    git(repo.root, "sparse-checkout", "set", "near")
    (repo.root / "a").write_text("2\n")
    worktree = await repo.create()
    assert listing(worktree.folder) == {"README.md": "read me\n", "a": "2\n"}
    (worktree.folder / "a").write_text("3\n")
    await repo.worktrees.discard(worktree, keep_branch=True)
    assert git(repo.root, "diff", "--name-only", "HEAD", worktree.metadata.branch).split() == ["a"]


# ---- cancelled calls ----------------------------------------------------------------


async def test_a_creation_that_is_cancelled_leaves_nothing(opened: Opener) -> None:
    repo = opened(**{f"f{n}": "x\n" for n in range(50)})
    before = own_state(repo.root)
    repo.worktrees.folder.mkdir(parents=True)
    for steps in range(1, 40, 4):
        (repo.worktrees.folder / "main.index.lock").touch()  # as a killed call leaves it
        task = asyncio.create_task(repo.worktrees.create(repo.base))
        for _ in range(steps):
            await asyncio.sleep(0.002)
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(result, BaseException):
            await repo.worktrees.discard(result)
        assert (repo.metadata_files(), repo.branches()) == ([], [])
    (repo.worktrees.folder / "main.index.lock").touch()
    await repo.worktrees.discard(await repo.create())
    assert own_state(repo.root) == before


def git_script(folder: Path, script: str) -> Git:
    """A `Git` whose program is a shell script. Needs the fixture `programs_in_temporary_folders`."""
    (folder / "git").write_text(f"#!/bin/sh\n{script}")
    (folder / "git").chmod(0o755)
    return Git({"PATH": f"{folder}:/usr/bin:/bin"})


@pytest.mark.usefixtures("programs_in_temporary_folders")
@pytest.mark.parametrize(("words", "left"), [("update-ref x", False), ("worktree add x", False), ("add -A", True)])
async def test_a_call_that_changes_refs_may_remove_its_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, left: bool
) -> None:
    """Git cannot remove a lock file if SIGTERM arrives before git has registered it for cleanup."""
    monkeypatch.setattr("friday_cli.workspace.worktrees.git.REFS_GRACE_S", 100.0)
    lock = tmp_path / "lock"
    script = git_script(tmp_path, ": > lock\nwhile [ ! -e go ]; do sleep 0.05; done\nrm lock\n")
    call = asyncio.create_task(script(*words.split(), cwd=tmp_path))
    while not lock.exists() and not call.done():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.005)
    call.cancel()
    if not left:
        await asyncio.sleep(0.05)  # a signal would arrive at once
        (tmp_path / "go").touch()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert lock.exists() == left


@pytest.mark.usefixtures("programs_in_temporary_folders")
async def test_the_error_output_of_git_is_read_to_its_end(tmp_path: Path) -> None:
    script = (
        "echo 'warning: first' >&2\nsleep 0.1\nhead -c 300000 /dev/zero | tr '\\0' x >&2\n"
        "printf '\\nfatal: the end' >&2\nexit 128\n"
    )
    with pytest.raises(ToolError, match=r"^git status failed: the end$"):
        await git_script(tmp_path, script)("status", cwd=tmp_path)


async def test_a_cancel_while_a_failed_worktree_is_removed_waits_for_the_removal(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = opened(f="x\n")
    removing = asyncio.Event()
    remove = Worktrees._remove

    async def slow(self: Worktrees, *which: Any) -> None:
        removing.set()
        await asyncio.sleep(0.05)
        await remove(self, *which)

    async def fails(*_: object, **__: object) -> None:
        raise ToolError("no")

    monkeypatch.setattr(Worktrees, "_remove", slow)
    monkeypatch.setattr(create.WorktreeCreator, "fill", fails)
    task = asyncio.create_task(repo.worktrees.create(repo.base))
    await removing.wait()
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], ToolError)
    assert (repo.metadata_files(), repo.branches()) == ([], [])
