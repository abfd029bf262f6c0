"""Friday runs no program that a repository's configuration or content names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from tests.workspace.worktrees.conftest import Opener
from tests.workspace.worktrees.repo_fixture import OpenRepository, commit, git, listing, repository, write_files

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
def hostile(opened: Opener, tmp_path: Path) -> tuple[OpenRepository, Path]:
    """A repository in which every program that git can run is a script, and the file to which the script writes."""
    repo = opened(**{".gitattributes": "* filter=evil diff=evil merge=evil\n", "a": "1\n"})
    proof, evil = tmp_path / "PWNED", tmp_path / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {proof}\ncat\n')
    evil.chmod(0o755)
    for name in (
        "post-checkout",
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-merge",
        "applypatch-msg",
        "fsmonitor-watchman",
        "update",
        "post-rewrite",
    ):
        hook = repo.root / ".git" / "hooks" / name
        hook.write_text(evil.read_text())
        hook.chmod(0o755)
    with (repo.root / ".git" / "config").open("a") as config:
        config.write(DRIVERS.format(evil=evil, hooks=repo.root / ".git" / "hooks"))
    return repo, proof


async def test_no_program_of_the_repository_runs(hostile: tuple[OpenRepository, Path]) -> None:
    repo, proof = hostile
    root = repo.root
    git(root, "add", "README.md", ok=False)
    git(root, "status", ok=False)
    assert {line.split("/")[-1].split(" ")[0] for line in proof.read_text().splitlines()} >= {"evil.sh"}
    proof.unlink()
    write_files(root, new="x\n", a="2\n")
    worktree = await repo.create()
    assert listing(worktree.folder) == listing(root)
    write_files(worktree.folder, a="3\n", b="3\n")
    await repo.worktrees.diff(worktree)
    (root / "a").write_text("2\nmine\n")
    with pytest.raises(ToolError, match="Nothing was applied"):
        await repo.apply(worktree)
    await repo.worktrees.discard(worktree, keep_branch=True)
    second = await repo.create()
    (second.folder / "a").write_text("2\nmine\ntheirs\n")
    await repo.apply(second)
    outer = await repo.create()
    assert outer.workspace is not None
    await repo.create(outer.workspace, "a.9.1")
    await repo.refresh(outer)
    assert not proof.exists(), proof.read_text()


async def test_files_with_a_filter_are_copied_unfiltered(opened: Opener) -> None:
    """As with git-lfs: the repository has a pointer, the working tree the content."""
    repo = opened(**{".gitattributes": "*.big filter=lfs -text\n"})
    git(repo.root, "config", "filter.lfs.clean", "echo pointer")
    git(repo.root, "config", "filter.lfs.smudge", "cat >/dev/null; echo content")
    for name in ("x.big", "y.big"):
        (repo.root / name).write_text("content\n")
        os.utime(repo.root / name, (1_700_000_000, 1_700_000_000))
    commit(repo.root)
    assert git(repo.root, "show", "HEAD:x.big") == "pointer\n"
    worktree = await repo.create()
    assert listing(worktree.folder) == listing(repo.root)
    assert worktree.metadata.base == git(repo.root, "rev-parse", "HEAD").strip()
    assert (await repo.refresh(worktree)).state == "unchanged"
    other = await repo.create()
    (other.folder / "x.big").write_text("better\n")
    files = (await repo.refresh(other)).files
    assert [(f.path, f.added, f.removed) for f in files] == [("x.big", 1, 1)]
    await repo.apply(other)
    assert (repo.root / "x.big").read_text() == "better\n"


async def test_a_pipe_in_the_place_of_the_ignore_list_is_not_waited_for(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some versions of git wait for it, which their time limit ends."""
    repo = opened(a="1\n")
    exclude = repo.root / ".git/info/exclude"
    exclude.unlink(missing_ok=True)
    os.mkfifo(exclude)
    monkeypatch.setattr("friday_cli.workspace.worktrees.git.CALL_S", 1.0)
    with suppress(ToolError):
        await repo.create()


async def test_the_network_is_not_used(opened: Opener, tmp_path: Path) -> None:
    """In a partial clone whose promised objects cannot be fetched, the current files are enough."""
    origin = repository(tmp_path / "origin", a="1\n", far="1\n")
    git(origin, "config", "uploadpack.allowFilter", "true")
    root = tmp_path / "repo"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{origin}", "repo")
    git(root, "sparse-checkout", "set", "--no-cone", "/a", "/README.md")
    git(root, "checkout", "-q", "main")
    os.rename(origin, tmp_path / "away")
    repo = opened(root)
    worktree = await repo.create()
    assert listing(worktree.folder) == {"a": "1\n", "README.md": "read me\n"}
    (worktree.folder / "a").write_text("2\n")
    await repo.apply(worktree)
    assert (root / "a").read_text() == "2\n"


async def test_a_folder_that_was_replaced_by_a_link_is_not_written_through(opened: Opener, tmp_path: Path) -> None:
    repo = opened()
    root, outside = commit(repo.root, **{"d/x": "1\n"}), tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("1\n")
    worktree = await repo.create()
    for name in ("x", "new"):
        (worktree.folder / "d" / name).write_text("evil\n")
    (root / "d").rename(root / "e")
    (root / "d").symlink_to(outside)
    with pytest.raises(ToolError, match="Nothing was applied"):
        await repo.apply(worktree)
    assert listing(outside) == {"x": "1\n"}


async def test_the_index_of_a_worktree_cannot_name_paths_outside(opened: Opener) -> None:
    repo = opened(a="1\n")
    worktree = await repo.create()
    blob = git(worktree.folder, "hash-object", "-w", "a").strip()
    entry = f"100644,{blob},../../evil"
    assert git(worktree.folder, "update-index", "--add", "--cacheinfo", entry, ok=False) == ""  # git itself refuses it
    (worktree.folder / "link").symlink_to("/etc")
    git(worktree.folder, "add", "link")
    (worktree.folder / "a").write_text("2\n")
    await repo.apply(worktree)
    assert os.readlink(repo.root / "link") == "/etc"
    assert (repo.root / "a").read_text() == "2\n"
