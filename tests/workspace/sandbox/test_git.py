"""Files in the workspace that could run code later are protected: git's hooks and settings, and `.friday`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox import protected_paths
from friday_cli.workspace.sandbox.detect import SandboxChoice
from friday_cli.workspace.worktrees.worktrees import Worktrees
from tests.workspace.commands import run
from tests.workspace.sandbox.conftest import confined, git

COMMIT = "git -c user.name=A -c user.email=a@localhost commit -q"


@pytest.fixture
async def repository(root: Path) -> Path:
    await git(root, "init", "-q", "-b", "main")
    (root / "f").write_text("one\n")
    await git(root, "add", "f")
    await git(root, "commit", "-q", "-m", "one")
    return root


def tree(folder: Path) -> dict[str, str]:
    """The content of every file below a folder, except samples."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sample"]
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


async def test_git_works_in_the_sandbox(workspace: LocalWorkspace, repository: Path) -> None:
    ran = await run(
        workspace,
        f"echo two >> f && git add f && {COMMIT} -m two && git checkout -q -b side && echo three > g && git add g &&"
        f" {COMMIT} -m three && git tag t && git checkout -q main && git merge -q side && git stash list && git status -s",
    )
    assert (ran.exit_code, ran.output, ran.tampered) == (0, "", ())
    assert await git(repository, "log", "--format=%s") == "three\ntwo\none\n"


ATTACKS = [
    "echo '#!/bin/sh' > .git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir .git/hooks; echo bad > .git/hooks/post-checkout",
    "mv .git/hooks .git/h && mkdir .git/hooks && echo bad > .git/hooks/pre-commit",
    "ln -sfn /tmp .git/hooks && echo x",
    "git config core.hooksPath evil",
    "echo '[alias] st = !evil' >> .git/config",
    "echo bad > c && mv -f c .git/config",
    "echo '* filter=evil' > .git/info/attributes",
    "mkdir -p .git/modules/x && echo bad > .git/modules/x/config",
    "mkdir -p .friday && echo 'mode = \"auto\"' > .friday/config.toml",
    "ln -s . .friday",
    "cp -r .git copy && rm -rf .git && mv copy .git && echo bad > .git/hooks/pre-commit",
    "mv .git old && cp -r old .git && echo bad > .git/hooks/pre-commit",
]


async def test_files_that_could_run_code_later_cannot_be_changed(
    workspace: LocalWorkspace, choice: SandboxChoice, repository: Path
) -> None:
    if choice.kind == "landlock":
        pytest.skip("NOT TESTED HERE: landlock can only grant; the change is reported (see below)")
    kept = [repository / ".git" / name for name in ("hooks", "info", "modules")] + [repository / ".friday"]
    before = [tree(folder) for folder in kept], (repository / ".git/config").read_text()
    for attack in ATTACKS:
        ran = await run(workspace, attack)
        after = [tree(folder) for folder in kept], (repository / ".git/config").read_text()
        assert after == before, attack
        assert ran.tampered == ()
        assert "$TMPDIR can be written" in ran.blocked or "File exists" in ran.output or ran.exit_code == 0, ran
        assert not (repository / ".friday").is_symlink()
        if not (repository / ".git/HEAD").exists():  # what is not protected was deleted
            await git(repository, "init", "-q", "-b", "main")
            before = [tree(folder) for folder in kept], (repository / ".git/config").read_text()


@pytest.mark.parametrize(
    ("attack", "reported"),
    [
        (ATTACKS[0], ".git/hooks/pre-commit"),
        (ATTACKS[4], ".git/config"),
        (ATTACKS[9], ".friday/config.toml"),
        (ATTACKS[-1], ".git/hooks/pre-commit"),
        ("echo ../evil > .git/commondir", ".git/commondir"),
    ],
)
async def test_a_change_that_cannot_be_prevented_is_reported(
    workspace: LocalWorkspace, choice: SandboxChoice, repository: Path, attack: str, reported: str
) -> None:
    ran = await run(workspace, attack)
    assert ran.tampered == ((reported,) if choice.kind == "landlock" or "commondir" in reported else ())


async def test_the_settings_of_the_users_other_worktrees_cannot_be_changed(
    workspace: LocalWorkspace, choice: SandboxChoice, repository: Path, outside_tmp: Path
) -> None:
    await git(repository, "worktree", "add", "-q", "-b", "feature", str(outside_tmp / "feature"))
    file = repository / ".git/worktrees/feature/commondir"
    ran = await run(workspace, "echo /evil > .git/worktrees/feature/commondir")
    assert file.read_text() == "../..\n"  # under Landlock it was changed and restored
    assert ran.tampered == ((".git/worktrees/feature/commondir",) if choice.kind == "landlock" else ())
    await git(repository, "worktree", "list")
    if choice.kind == "landlock":
        return
    move = "mv .git/worktrees old; cp -r old .git/worktrees"
    await run(workspace, f"{move}; echo /evil > .git/worktrees/feature/commondir")
    assert file.read_text() == "../..\n"


async def test_missing_protected_files_cannot_be_created(
    workspace: LocalWorkspace, choice: SandboxChoice, repository: Path
) -> None:
    if choice.kind == "landlock":
        pytest.skip("NOT TESTED HERE: landlock can only grant; the change is reported (see above)")
    await git(repository, "config", "x.y", "z")
    for name in ("hooks", "info"):
        os.rename(repository / ".git" / name, repository / name)
    await run(
        workspace,
        "mkdir -p .git/hooks .git/info .git/modules .friday; for d in .git/hooks .git/info .git/modules .friday; do echo bad > $d/x; done",
    )
    await workspace.close()
    left = os.listdir(repository / ".git") + os.listdir(repository)
    assert not {"modules", ".friday", "x"} & set(left)
    assert left.count("hooks") == left.count("info") == 1  # only those that the user moved away


async def test_files_that_other_programs_run_are_reported(workspace: LocalWorkspace, root: Path) -> None:
    (root / ".vscode").mkdir()
    (root / ".vscode/tasks.json").write_text("{}")
    names = (
        ".envrc",
        ".github/workflows/ci.yml",
        ".husky/pre-commit",
        ".mcp.json",
        ".claude/settings.json",
        ".vscode/tasks.json",
    )
    writing = "; ".join(f"mkdir -p $(dirname {name}); echo bad > {name}" for name in names)
    ran = await run(workspace, f"{writing}; echo fine > plain")
    assert ran.tampered == tuple(sorted(names))
    assert (await run(workspace, "cat .envrc")).tampered == ()


async def test_hooks_of_a_new_repository_are_reported(workspace: LocalWorkspace, root: Path) -> None:
    ran = await run(workspace, "git init -q . && echo bad > .git/hooks/pre-commit; rm -rf .friday")
    assert (root / ".git/config").exists()
    assert ".git/hooks/pre-commit" in ran.tampered


async def test_in_a_subfolder_of_a_repository_only_commits_are_possible(
    repository: Path, choice: SandboxChoice
) -> None:
    sub = repository / "sub"
    sub.mkdir()
    workspace = LocalWorkspace(sub, CommandHost(sandbox=confined(choice)))
    ran = await run(workspace, f"echo s > s && git add s && {COMMIT} -m sub; echo bad > ../f; git config a.b c")
    looked = await run(workspace, "git status --short; git log --format=%s", access="read_only")
    assert looked.output == "sub\none\n"
    await workspace.close()
    assert await git(repository, "log", "--format=%s") == "sub\none\n"
    assert (repository / "f").read_text() == "one\n"
    assert ran.exit_code != 0 or choice.kind == "landlock"


# ---- worktrees of sub-agents ----------------------------------------------------------


async def test_a_worktree_can_only_commit_on_its_own_branch(
    repository: Path, choice: SandboxChoice, outside_tmp: Path
) -> None:
    own = outside_tmp / "friday"
    workspace = LocalWorkspace(
        repository, CommandHost(overflow_folder=own / "spill", sandbox=confined(choice, own=(own,)))
    )
    trees = Worktrees(own / "worktrees" / "s", session="5e55104", environ=os.environ)
    worktree = await trees.create(workspace)
    child = worktree.workspace
    assert child is not None
    await run(child, "echo /evil > $(git rev-parse --git-dir)/commondir; echo /evil > $(cut -d' ' -f2 .git)/gitdir")
    ran = await run(child, f"echo two > g && git add g && {COMMIT} -m two && git log --format=%s")
    looked = await run(child, "git status --short; git log --format=%s", access="read_only")
    assert (looked.exit_code, looked.output) == (0, "two\none\n")
    assert ran.output.endswith("two\none\n")  # newer versions of git complain first that they cannot lock packed-refs
    common = repository / ".git"
    names = ("HEAD", "config", "refs/heads/main")
    before = {name: (common / name).read_text() for name in names}
    targets = (*(common / name for name in (*names, "hooks/pre-commit")), repository / "f")
    for attack in (
        *(f"echo bad > {target}" for target in targets),
        "git config a.b c",
        "git update-ref refs/heads/main HEAD",
    ):
        assert (await run(child, attack)).exit_code != 0, attack
    assert {name: (common / name).read_text() for name in names} == before
    assert (repository / "f").read_text() == "one\n"
    assert not (common / "hooks/pre-commit").exists()
    await trees.discard(worktree)
    await workspace.close()


MADE_UP = """
ws="$PWD"; common="{at}/x"; admin="$common/worktrees/w"; mkdir -p "$admin"
echo ../.. > "$admin/commondir"; echo "$ws/.git" > "$admin/gitdir"; echo 'ref: refs/heads/main' > "$admin/HEAD"
for name in objects refs logs; do ln -s {outside} "$common/$name"; done
mv .git old 2>/dev/null; echo "gitdir: $admin" > .git
"""
"""A linked worktree of a repository whose folders are links."""


@pytest.mark.parametrize("at", ["$PWD", "$TMPDIR"])
@pytest.mark.parametrize("real", [True, False])
async def test_a_repository_that_a_command_made_up_opens_nothing(
    workspace: LocalWorkspace, root: Path, outside: Path, at: str, real: bool
) -> None:
    if real:
        await git(root, "init", "-q")
    await run(workspace, MADE_UP.format(at=at, outside=outside))
    tries = f"echo bad > {outside}/file; echo bad > {outside}/new; rm -f {outside}/file; echo done"
    assert (await run(workspace, tries)).output.endswith("done\n")
    assert tree(outside) == {"file": "as it was\n"}


async def test_where_git_finds_a_repository_is_never_restored_behind_a_link(
    workspace: LocalWorkspace, root: Path, outside: Path
) -> None:
    """A file `commondir` in the git folder of another repository gives git the settings of the folder that it names."""
    await run(workspace, MADE_UP.format(at="$PWD", outside=outside))
    await run(workspace, f"rm -r x/worktrees/w; ln -s {outside} x/worktrees/w")
    await run(
        workspace, f"rm x/worktrees/w; mv x/worktrees y; mkdir y/w; echo z > y/w/gitdir; ln -s {outside} x/worktrees"
    )
    assert tree(outside) == {"file": "as it was\n"}


def test_a_part_of_a_repository_that_became_a_link_cannot_be_written(
    root: Path, outside_tmp: Path, outside: Path
) -> None:
    other = outside_tmp / "other"
    admin = other / ".git/worktrees/w"
    admin.mkdir(parents=True)
    (admin / "commondir").write_text("../..\n")
    (admin / "gitdir").write_text(f"{root}/.git\n")
    (root / ".git").write_text(f"gitdir: {admin}\n")
    for name in ("objects", "refs", "logs"):
        (other / ".git" / name).symlink_to(outside)
    choice = SandboxChoice("landlock", read_only_kind="landlock")
    plan = confined(choice).plan([root], root, show=None, access="")
    assert plan is not None
    assert [path for path in plan.resolved().write if str(outside_tmp) in path] == [str(root), str(admin)]


def test_a_git_file_that_names_another_repository_grants_nothing(root: Path, outside_tmp: Path) -> None:
    other = outside_tmp / "other"
    (other / ".git/worktrees/w").mkdir(parents=True)
    (other / ".git/worktrees/w/commondir").write_text("../..\n")
    (root / ".git").write_text(f"gitdir: {other}/.git/worktrees/w\n")
    assert protected_paths.writable_folder(str(root)).write == ()
    (other / ".git/worktrees/w/gitdir").write_text(f"{other}/elsewhere/.git\n")
    assert protected_paths.writable_folder(str(root)).write == ()
    (other / ".git/worktrees/w/gitdir").write_text(f"{root}/.git\n")  # only the repository itself can say so
    assert f"{other}/.git/objects" in protected_paths.writable_folder(str(root)).write
    (root / ".git").write_text(f"gitdir: {other}/.git\n")
    assert protected_paths.writable_folder(str(root)).write == ()
