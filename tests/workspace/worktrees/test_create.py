"""Making a worktree: the working tree as it is, and nothing of the user's touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.worktrees.git import Git
from friday_cli.workspace.worktrees.worktrees import Worktrees
from tests.workspace.worktrees.repo_fixture import git, ground, listing, own_state, repository


async def test_it_holds_the_working_tree_as_it_is(tmp_path: Path) -> None:
    root = repository(
        tmp_path / "repo", kept="1\n", changed="1\n", gone="1\n", staged="1\n", **{".gitignore": "*.log\n"}
    )
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
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == before
        assert g.branches() == ["friday/7f3a1b2c-1"]
        assert git(made.folder, "branch", "--show-current").strip() == "friday/7f3a1b2c-1"
        assert git(made.folder, "status", "--porcelain") == ""
        assert made.workspace is not None
        assert made.workspace.root == made.folder
        await g.worktrees.refresh(made)
        assert made.state == "unchanged"


async def test_nothing_of_the_users_is_touched(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    (root / "a").write_text("2\n")
    git(root, "stash")
    (root / "a").write_text("3\n")
    git(root, "add", "a")
    (root / "a").write_text("4\n")
    (root / "untracked").write_text("x\n")
    files, status = listing(root), git(root, "status", "--porcelain=v2")
    before = own_state(root)
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert {name: own_state(root).get(name) for name in before} == before
        extra = {name.split("/")[0] for name in own_state(root).keys() - before.keys()}
        assert extra <= {"worktrees", "refs", "logs"}
        await g.worktrees.refresh(made)
    assert own_state(root) == before
    assert (listing(root), git(root, "status", "--porcelain=v2")) == (files, status)
    assert git(root, "worktree", "list").count("\n") == 1
    assert git(root, "fsck", "--strict", "--no-dangling") == ""


async def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    for number in range(10):
        (root / "a").write_text(f"{number}\n")
        git(root, "add", "a")
        (root / "a").write_text(f"{number + 1}\n")
        async with ground(tmp_path, root) as g:
            made = await g.child()
            assert (made.folder / "a").read_text() == f"{number + 1}\n"
            assert git(made.folder, "show", "HEAD:a") == f"{number + 1}\n"
            await g.worktrees.discard(made)


async def test_the_base_is_head_where_nothing_is_uncommitted(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert made.metadata.base == git(root, "rev-parse", "HEAD").strip()
        (root / "new").write_text("x\n")
        other = await g.child()
        assert git(root, "rev-parse", f"{other.metadata.base}^").strip() == made.metadata.base
        assert other.metadata.branch == "friday/7f3a1b2c-2"


@pytest.mark.parametrize("words", [("checkout", "-q", "--detach"), ("switch", "-q", "-c", "feature/x")])
async def test_any_head_will_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    root = repository(tmp_path / "repo")
    git(root, *words)
    head = own_state(root)["HEAD"]
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == listing(root)
        assert own_state(root)["HEAD"] == head


async def test_a_repository_without_commits(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    (root / "first").write_text("x\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {"first": "x\n"}
        assert git(made.folder, "rev-list", "--count", "HEAD").strip() == "1"
        (made.folder / "first").write_text("y\n")
        await g.worktrees.apply(made, g.base)
    assert listing(root) == {"first": "y\n"}
    assert git(root, "status", "--porcelain") == "?? first\n"


async def test_an_empty_repository(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {}
        (made.folder / "a").write_text("1\n")
        await g.worktrees.refresh(made)
        assert [f.path for f in made.files] == ["a"]


async def test_a_folder_below_the_top(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", top="1\n")
    (root / "packages" / "one").mkdir(parents=True)
    (root / "packages" / "one" / "x").write_text("1\n")
    async with ground(tmp_path, root / "packages" / "one") as g:
        made = await g.child()
        assert made.workspace is not None
        assert made.workspace.root == made.folder / "packages" / "one"
        assert (made.folder / "top").read_text() == "1\n"
        with pytest.raises(ToolError, match="outside"):
            made.workspace.resolve("../../top", write=True)
        (made.root / "x").write_text("2\n")
        await g.worktrees.refresh(made)
        assert g.worktrees.touched(made, g.base) == ("x",)
        await g.worktrees.apply(made, g.base)
        assert (root / "packages" / "one" / "x").read_text() == "2\n"


async def test_an_empty_folder_below_the_top(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "fresh").mkdir()
    async with ground(tmp_path, root / "fresh") as g:
        made = await g.child()
        assert made.root.is_dir()
        (made.root / "x").write_text("1\n")
        await g.worktrees.apply(made, g.base)
        assert (root / "fresh" / "x").read_text() == "1\n"


async def test_files_that_are_followed_count_even_where_they_are_ignored(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "build").mkdir()
    (root / "build" / "kept").write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    (root / ".gitignore").write_text("build\n")
    (root / "build" / "dropped").write_text("1\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {"README.md": "read me\n", ".gitignore": "build\n", "build/kept": "1\n"}
        (made.folder / "build" / "kept").write_text("2\n")
        await g.worktrees.refresh(made)
        assert [f.path for f in made.files] == ["build/kept"]


async def test_ignored_files_of_the_list_are_copied(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", **{".gitignore": ".env*\nlocal/\nnode_modules/\n"})
    for name in (".env", ".env.example", "sub/.env.example", "local/a/b", "local/c", "node_modules/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    async with ground(tmp_path, root, include=(".env.example", "local/a")) as g:
        made = await g.child()
        assert listing(made.folder).keys() - {"README.md", ".gitignore"} == {
            ".env.example", "sub/.env.example", "local/a/b",
        }  # fmt: skip
        (made.folder / ".env.example").write_text("changed")
        await g.worktrees.refresh(made)
        assert made.state == "unchanged"


async def test_too_many_ignored_files_are_cut_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from friday_cli.workspace.worktrees import create

    monkeypatch.setattr(create, "MOST_FILES", 2)
    root = repository(tmp_path / "repo", **{".gitignore": "*.x\n"})
    for number in range(4):
        (root / f"{number}.x").write_text("x")
    async with ground(tmp_path, root, include=("*.x",)) as g:
        made = await g.child()
        assert sorted(listing(made.folder).keys() - {"README.md", ".gitignore"}) == ["0.x", "1.x"]
        assert made.notes == ["2 ignored files exceed the limit and were not copied, from 2.x on"]


async def test_names_that_are_no_words(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    names = [b"-dash", b"new\nline", b"q'u\"o$te", b":(glob)*", b"caf\xe9", b" blank ", b"back\\slash", "ü".encode()]
    for name in names:
        (root / os.fsdecode(name)).write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == listing(root)
        for name in names:
            (made.folder / os.fsdecode(name)).write_text("2\n")
        await g.worktrees.refresh(made)
        assert {f.path for f in made.files} >= {"-dash", "new\nline", "caf\\xe9", "ü"}
        assert len(made.files) == len(names)
        await g.worktrees.apply(made, g.base)
        assert {text for name, text in listing(root).items() if name != "README.md"} == {"2\n"}


# ---- where it cannot be ---------------------------------------------------------


async def test_without_a_repository(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    async with ground(tmp_path, root) as g:
        with pytest.raises(ToolError, match=r"is not in a git repository.*git init"):
            await g.worktrees.create(g.base)
        assert not g.worktrees.folder.exists()


async def test_without_git(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    async with ground(tmp_path, root) as g:
        g.worktrees._environ = {"PATH": str(tmp_path)}
        with pytest.raises(ToolError, match="git was not found"):
            await g.worktrees.create(g.base)


async def test_a_bare_repository(tmp_path: Path) -> None:
    root = tmp_path / "bare"
    root.mkdir()
    git(root, "init", "-q", "--bare")
    async with ground(tmp_path, root) as g:
        with pytest.raises(ToolError, match="bare"):
            await g.worktrees.create(g.base)


async def test_submodules_in_use(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    root = repository(tmp_path / "repo")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "libs/one")
    git(root, "commit", "-q", "-m", "two")
    before = own_state(root)
    async with ground(tmp_path, root) as g:
        with pytest.raises(ToolError, match=r"submodules \(libs/one\)"):
            await g.worktrees.create(g.base)
        assert g.metadata_files() == []
        assert own_state(root) == before
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(root), "clone")
    async with ground(tmp_path, clone) as g:
        made = await g.child()
        await g.worktrees.refresh(made)
        assert made.state == "unchanged"


async def test_repositories_inside_are_left_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    repository(root / "inner")
    (root / "empty").mkdir()
    git(root / "empty", "init", "-q")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {"README.md": "read me\n"}
        await g.worktrees.refresh(made)
        assert made.state == "unchanged"


async def test_a_tree_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from friday_cli.workspace.worktrees import git_trees

    monkeypatch.setattr(git_trees, "MOST_BYTES", 1000)
    root = repository(tmp_path / "repo", big="x" * 2000)
    before = own_state(root)
    async with ground(tmp_path, root) as g:
        with pytest.raises(ToolError, match="too much for a worktree"):
            await g.worktrees.create(g.base)
        assert (g.metadata_files(), g.branches()) == ([], [])
    assert own_state(root) == before


async def test_friday_home_inside_the_repository(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    async with ground(root, root) as g:
        made = await g.child()
        again = await g.child()
        assert listing(made.folder) == listing(again.folder) == {"README.md": "read me\n"}
        (made.folder / "README.md").write_text("changed\n")
        await g.worktrees.apply(made, g.base)
        assert (root / "README.md").read_text() == "changed\n"


async def test_a_worktree_of_a_worktree(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    async with ground(tmp_path, root) as g:
        outer = await g.child()
        (outer.folder / "a").write_text("2\n")
        assert outer.workspace is not None
        inner = await g.child(outer.workspace, "a.1.1")
        assert (inner.folder / "a").read_text() == "2\n"
        (inner.folder / "a").write_text("3\n")
        await g.worktrees.apply(inner, outer.workspace)
        assert (outer.folder / "a").read_text() == "3\n"
        assert (root / "a").read_text() == "1\n"
        await g.worktrees.apply(outer, g.base)
        assert (root / "a").read_text() == "3\n"


async def test_within_a_worktree_of_the_users(tmp_path: Path) -> None:
    main = repository(tmp_path / "repo", a="1\n")
    git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    root = tmp_path / "side"
    (root / "a").write_text("2\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert (made.folder / "a").read_text() == "2\n"
        await g.worktrees.refresh(made)
    assert git(main, "worktree", "list").count("\n") == 2


async def test_content_is_copied_byte_for_byte_whatever_git_would_make_of_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", **{".gitattributes": "*.bat text eol=crlf\n*.txt text\n*.id ident\n"})
    (root / "x.bat").write_bytes(b"a\r\nb\r\n")
    (root / "x.txt").write_bytes(b"a\nb\n")
    (root / "x.id").write_bytes(b"$Id$\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    (root / "x.txt").write_bytes(b"a\r\nb\r\n")
    (root / "x.id").write_bytes(b"$Id: 0123456789 $\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == listing(root)
        assert git(made.folder, "show", "HEAD:x.bat") == "a\nb\n"
        (made.folder / "x.bat").write_bytes(b"a\r\nB\r\n")
        await g.worktrees.refresh(made)
        assert [(f.path, f.added, f.removed) for f in made.files] == [("x.bat", 1, 1)]
        await g.worktrees.apply(made, g.base)
    assert (root / "x.bat").read_bytes() == b"a\r\nB\r\n"


async def test_a_split_index_and_a_sparse_checkout(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", a="1\n")
    (root / "far").mkdir()
    (root / "far" / "x").write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    git(root, "update-index", "--split-index")
    git(root, "sparse-checkout", "set", "near")
    (root / "a").write_text("2\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {"README.md": "read me\n", "a": "2\n"}
        (made.folder / "a").write_text("3\n")
        await g.worktrees.discard(made, keep_branch=True)
    changed = git(root, "diff", "--name-only", "HEAD", made.metadata.branch).split()
    assert changed == ["a"]


async def test_sha256(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256")
    (root / "a").write_text("1\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        (made.folder / "a").write_text("2\n")
        await g.worktrees.apply(made, g.base)
    assert (root / "a").read_text() == "2\n"


async def test_a_worktree_that_is_stopped_while_it_is_made_leaves_nothing(tmp_path: Path) -> None:
    import asyncio

    root = repository(tmp_path / "repo", **{f"f{n}": "x\n" for n in range(50)})
    before = own_state(root)
    async with ground(tmp_path, root) as g:
        for steps in range(1, 40, 4):
            task = asyncio.create_task(g.worktrees.create(g.base))
            for _ in range(steps):
                await asyncio.sleep(0.002)
            task.cancel()
            done = (await asyncio.gather(task, return_exceptions=True))[0]
            if not isinstance(done, BaseException):
                await g.worktrees.discard(done)
            assert (g.metadata_files(), g.branches()) == ([], [])
    assert own_state(root) == before


@pytest.mark.parametrize(("words", "left"), [("update-ref x", False), ("worktree add x", False), ("add -A", True)])
async def test_a_call_that_changes_refs_is_not_cut_off_with_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, left: bool
) -> None:
    """SIGTERM may come before git has noted that it made the file, and nothing would ever take it away."""
    import asyncio

    monkeypatch.setattr("friday_cli.workspace.worktrees.git.REFS_GRACE_S", 100.0)
    lock, go, program = tmp_path / "lock", tmp_path / "go", tmp_path / "git"
    program.write_text("#!/bin/sh\n: > lock\nwhile [ ! -e go ]; do sleep 0.05; done\nrm lock\n")
    program.chmod(0o755)
    ours = Git({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    call = asyncio.create_task(ours(*words.split(), cwd=tmp_path))
    while not lock.exists():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.005)
    call.cancel()
    if not left:
        await asyncio.sleep(0.05)  # a signal would come at once
        go.touch()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert lock.exists() == left


async def test_what_git_says_is_read_to_its_end(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text(
        "#!/bin/sh\necho 'warning: first' >&2\nsleep 0.1\nhead -c 300000 /dev/zero | tr '\\0' x >&2\n"
        "printf '\\nfatal: the end' >&2\nexit 128\n"
    )
    program.chmod(0o755)
    with pytest.raises(ToolError, match=r"^git status failed: the end$"):
        await Git({"PATH": f"{tmp_path}:/usr/bin:/bin"})("status", cwd=tmp_path)


async def test_a_lock_that_a_cut_off_call_left_in_our_index_is_no_obstacle(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", f="x\n")
    async with ground(tmp_path, root) as g:
        g.worktrees.folder.mkdir(parents=True, exist_ok=True)
        (g.worktrees.folder / "main.index.lock").touch()
        opened = await g.worktrees.create(g.base)
        await g.worktrees.discard(opened)
        assert (g.metadata_files(), g.branches()) == ([], [])


async def test_a_stop_that_meets_the_removal_of_a_failed_one_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    root = repository(tmp_path / "repo", f="x\n")
    removing = asyncio.Event()
    remove = Worktrees._remove

    async def slowly(self: Worktrees, *which: Any) -> None:
        removing.set()
        await asyncio.sleep(0.05)
        await remove(self, *which)

    async def fails(*_: object, **__: object) -> None:
        raise ToolError("no")

    monkeypatch.setattr(Worktrees, "_remove", slowly)
    monkeypatch.setattr("friday_cli.workspace.worktrees.create.WorktreeCreator.fill", fails)
    async with ground(tmp_path, root) as g:
        task = asyncio.create_task(g.worktrees.create(g.base))
        await removing.wait()
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], ToolError)
        assert (g.metadata_files(), g.branches()) == ([], [])
