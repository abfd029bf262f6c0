"""Nothing that a repository's configuration or content names is run by Friday."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace.worktrees.repo_fixture import git as run_git
from tests.workspace.worktrees.repo_fixture import ground, listing, repository

DRIVERS = """
[core]
    fsmonitor = {evil}
    hooksPath = {hooks}
    pager = {evil}
    editor = {evil}
    sshCommand = {evil}
    gitProxy = {evil}
    askPass = {evil}
    alternateRefsCommand = {evil}
[filter "evil"]
    clean = {evil}
    smudge = {evil}
    process = {evil}
    required = true
[filter "a=b\\"c"]
    clean = {evil}
    smudge = {evil}
    required = true
[diff]
    external = {evil}
[diff "evil"]
    command = {evil}
    textconv = {evil}
[merge "evil"]
    driver = {evil}
[gpg]
    program = {evil}
[commit]
    gpgSign = true
[alias]
    add = !{evil}
    diff-tree = !{evil}
[credential]
    helper = !{evil}
[uploadpack]
    packObjectsHook = {evil}
[submodule]
    recurse = true
"""


@pytest.fixture
def armed(tmp_path: Path) -> tuple[Path, Path]:
    """A repository in which every door is a trap, and the file that a trap leaves."""
    root = repository(tmp_path / "repo", **{".gitattributes": "* filter=evil diff=evil merge=evil\n", "a": "1\n"})
    proof = tmp_path / "PWNED"
    evil = tmp_path / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {proof}\ncat\n')
    evil.chmod(0o755)
    for name in (
        "post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change", "pre-auto-gc",
        "post-merge", "applypatch-msg", "fsmonitor-watchman", "update", "post-rewrite",
    ):  # fmt: skip
        hook = root / ".git" / "hooks" / name
        hook.write_text(evil.read_text())
        hook.chmod(0o755)
    with (root / ".git" / "config").open("a") as config:
        config.write(DRIVERS.format(evil=evil, hooks=root / ".git" / "hooks"))
    return root, proof


async def test_no_program_of_the_repository_runs(armed: tuple[Path, Path], tmp_path: Path) -> None:
    root, proof = armed
    run_git(root, "add", "README.md", ok=False)
    run_git(root, "status", ok=False)
    assert {line.split("/")[-1].split(" ")[0] for line in proof.read_text().splitlines()} >= {"evil.sh"}
    proof.unlink()
    (root / "new").write_text("x\n")
    (root / "a").write_text("2\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == listing(root)
        (made.folder / "a").write_text("3\n")
        (made.folder / "b").write_text("3\n")
        await g.worktrees.diff(made)
        (root / "a").write_text("2\nmine\n")
        with pytest.raises(Exception, match="Nothing was applied"):
            await g.worktrees.apply(made, g.base)
        await g.worktrees.discard(made, keep_branch=True)
        again = await g.child()
        (again.folder / "a").write_text("2\nmine\ntheirs\n")
        await g.worktrees.apply(again, g.base)
        inner = await g.child()
        assert inner.workspace is not None
        await g.child(inner.workspace, "a.9.1")
        await g.worktrees.refresh(inner)
    assert not proof.exists(), proof.read_text()


async def test_filtered_files_are_copied_as_they_stand(tmp_path: Path) -> None:
    """As with git-lfs: the repository holds a pointer, the working tree the content."""
    root = repository(tmp_path / "repo", **{".gitattributes": "*.big filter=lfs -text\n"})
    run_git(root, "config", "filter.lfs.clean", "echo pointer")
    run_git(root, "config", "filter.lfs.smudge", "cat >/dev/null; echo content")
    (root / "x.big").write_text("content\n")
    (root / "y.big").write_text("content\n")
    for name in ("x.big", "y.big"):
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "two")
    assert run_git(root, "show", "HEAD:x.big") == "pointer\n"
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == listing(root)
        assert made.metadata.base == run_git(root, "rev-parse", "HEAD").strip()
        await g.worktrees.refresh(made)
        assert made.state == "unchanged"
        other = await g.child()
        (other.folder / "x.big").write_text("better\n")
        await g.worktrees.refresh(other)
        assert [(f.path, f.added, f.removed) for f in other.files] == [("x.big", 1, 1)]
        await g.worktrees.apply(other, g.base)
    assert (root / "x.big").read_text() == "better\n"


async def test_the_network_is_not_asked(tmp_path: Path) -> None:
    """A partial clone whose promised objects are missing is worked with as far as it goes."""
    origin = repository(tmp_path / "origin", a="1\n", far="1\n")
    run_git(origin, "config", "uploadpack.allowFilter", "true")
    root = tmp_path / "repo"
    run_git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{origin}", "repo")
    run_git(root, "sparse-checkout", "set", "--no-cone", "/a", "/README.md")
    run_git(root, "checkout", "-q", "main")
    os.rename(origin, tmp_path / "away")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        assert listing(made.folder) == {"a": "1\n", "README.md": "read me\n"}
        (made.folder / "a").write_text("2\n")
        await g.worktrees.apply(made, g.base)
    assert (root / "a").read_text() == "2\n"


async def test_a_link_put_where_a_folder_was_leads_nowhere(tmp_path: Path) -> None:
    """A change cannot be made to land outside the workspace."""
    root = repository(tmp_path / "repo")
    (root / "d").mkdir()
    (root / "d" / "x").write_text("1\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "two")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("1\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        (made.folder / "d" / "x").write_text("evil\n")
        (made.folder / "d" / "new").write_text("evil\n")
        (root / "d").rename(root / "e")
        (root / "d").symlink_to(outside)
        with pytest.raises(Exception, match="Nothing was applied"):
            await g.worktrees.apply(made, g.base)
    assert listing(outside) == {"x": "1\n"}


async def test_the_index_of_a_worktree_is_only_data(tmp_path: Path) -> None:
    """What an agent puts into its index cannot point out of the working tree."""
    root = repository(tmp_path / "repo", a="1\n")
    async with ground(tmp_path, root) as g:
        made = await g.child()
        blob = run_git(made.folder, "hash-object", "-w", "a").strip()
        ran = run_git(
            made.folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},../../evil", ok=False
        )  # git itself refuses that
        assert ran == ""
        (made.folder / "link").symlink_to("/etc")
        run_git(made.folder, "add", "link")
        (made.folder / "a").write_text("2\n")
        await g.worktrees.apply(made, g.base)
    assert os.readlink(root / "link") == "/etc"
    assert (root / "a").read_text() == "2\n"
