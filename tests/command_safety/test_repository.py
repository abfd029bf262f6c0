"""Repositories that were made by somebody else: settings written so that they read otherwise than git reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from friday_cli.command_safety import AnalysisContext
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.tools.files.read import READ_FILE_TOOL
from friday_cli.tools.search.grep import GREP_TOOL
from friday_cli.workspace.local import LocalWorkspace
from tests.command_safety import workspace_fixture
from tests.command_safety.workspace_fixture import passes
from tests.tools.tool_workspace import ToolHarness


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "config",
    [
        b"[core]\n\tx = a\x0c[foo]\n\tfsmonitor = ./run.sh\n",
        b"[core]\n\tx = a\\\n[foo]\n\tfsmonitor = ./run.sh\n",
        b"\xef\xbb\xbf[core]\n\tfsmonitor = ./run.sh\n",
        b'[filter "x"] clean = ./run.sh #"]\n',
        b'[filter "lfs"]\n\tclean = "git-lfs x; ./run.sh"\n',
        b'[filter "a\\"]b"]\n\tclean = ./run.sh\n',
        b"[core]\r[foo]\n\tfsmonitor = ./run.sh\n",
        b"[core]\n\tworktree = /\n",
        b"[core\n\tfsmonitor = ./run.sh\n",
        b'[remote "o"]\n\turl = .\n\tpromisor = true\n\tuploadpack = ./run.sh\n',
        b"[extensions]\n\tpartialClone = o\n[core]\n\tsshCommand = ./run.sh\n",
        b'[remote "o"]\n\turl = ext::./run.sh\n\tpromisor = true\n',
        b"[x][core] fsmonitor = ./run.sh\n",
        b"[x] [include] path = ../inc\n",
        b'[x "a]"] [core] fsmonitor = ./run.sh\n',
        b"[core]\n\tworktree = ../../o # /../ws\n",
        b"[core]\n\tworktree = ../../o ; /../ws\n",
        b'[core]\n\tfsmonitor = "true"x\n',
        b'[core]\n\tfsmonitor = "./r" # "\n',
        b"[core]\n\tfsmonitor = ./run.sh\\\\\n",
        b'[core]\n\tfsmonitor = "\n',
        b"[diff]\n\tsubmodule = diff\n",
        b"[core] fsmonitor=./run.sh",
        b"[core]\n\tfs monitor = ./run.sh\n",
        b"[core]x = 1\n" + b"#" * 2**20,
    ],
)
def test_settings_that_are_written_to_be_misread_are_asked_about(root: Path, config: bytes) -> None:
    (root / ".git/config").write_bytes(config)
    assert not passes("git status", root)
    assert passes("ls", root)


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\tbare = false\n\tworktree = .. ; here\n",
        '[core]\n\tbare\n\tautocrlf = input # x\n[a][b]\n\tx = "a # b" ; c\n',
        '[alias]\n\tl = "!f() { ls; }; f"\n',
        '[filter "lfs"]\n\tsmudge = git-lfs smudge --skip -- %f\n\trequired = true\n',
        '[remote "o"]\n\turl = https://example.org/x.git\n\tpromisor = true\n\tpartialclonefilter = blob:none\n',
        '[branch "a \\"b\\""]\n\tremote = o ; said here\n# [core] fsmonitor = ./x\n',
        '[remote "o"]\n\turl = ../other\n\tuploadpack = x\n',
    ],
)
def test_settings_as_people_have_them_are_not(root: Path, config: str) -> None:
    (root / ".git/config").write_text(config)
    assert passes("git status", root)


def test_a_hook_in_the_folder_that_the_settings_name_with_a_comment_is_found(root: Path) -> None:
    (root / ".git/config").write_text("[core]\n\thooksPath = hk ; c\n")
    assert passes("git status", root)
    (root / "hk").mkdir()
    (root / "hk/post-index-change").write_text("")
    assert not passes("git status", root)


def test_a_folder_that_only_looks_like_a_repository_does_not_hide_the_one_above(root: Path) -> None:
    """git skips it: the settings above count."""
    (root / "sub/.git").mkdir(parents=True)
    (root / "sub/.git/HEAD").write_text("nothing\n")
    assert passes("cd sub && git status", root)
    (root / ".git/config").write_text("[core]\n\tfsmonitor = ./run.sh\n")
    assert not passes("cd sub && git status", root)


@pytest.mark.parametrize(("head", "files"), [
    ("ref: refs/heads/main\n", {"commondir": "../shared\n"}), ("", {"objects/x": "", "refs/x": ""}), ("x" * 40, {"objects/x": "", "refs/x": ""}),
])  # fmt: skip
def test_a_bare_repository_of_any_kind_is_found(root: Path, head: str, files: dict[str, str]) -> None:
    (root / "bare").mkdir()
    (root / "bare/config").write_text('[diff "x"]\n\ttextconv = ./run.sh\n')
    (root / "bare/HEAD").write_text(head) if head else (root / "bare/HEAD").symlink_to("refs/heads/main")
    for name, text in files.items():
        (root / "bare" / name).parent.mkdir(exist_ok=True)
        (root / "bare" / name).write_text(text)
    assert not any(passes(command, root) for command in ("git -C bare log -p", "cd bare && git show"))


@pytest.mark.parametrize("target", ["outside", "secret", "inside"])
@pytest.mark.parametrize("name", [
    "packed-refs", "shallow", "BISECT_LOG", "BISECT_START", "objects/info/alternates", "info/grafts", "info", "branches/x", "remotes/x",
    "rebase-merge/done", "rebase-merge", "rebase-apply/head-name", "sequencer/todo", "worktrees/x/locked", "worktrees/x",
])  # fmt: skip
def test_a_link_in_a_git_folder_shows_no_file_from_elsewhere(root: Path, name: str, target: str) -> None:
    """git prints lines of these files, as a state or in an error."""
    link = root / ".git" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    real = {"outside": root.parent / "outside/key.txt", "secret": root / ".env", "inside": root / "x.txt"}[target]
    link.symlink_to(os.path.relpath(real, link.parent))
    assert passes("git status", root) == (target == "inside")
    assert passes("git -C src log", root) == (target == "inside")


def test_a_link_in_a_bare_repository_is_found_too(root: Path) -> None:
    for name in ("objects", "refs"):
        (root / "bare" / name).mkdir(parents=True)
    (root / "bare/HEAD").write_text("ref: refs/heads/main\n")
    assert passes("git -C bare log", root)
    (root / "bare/packed-refs").symlink_to("../../outside/key.txt")
    assert not passes("git -C bare log", root)


@pytest.mark.parametrize(
    ("file", "allowed"),
    [(".git-blame-ignore-revs", True), ("../outside/key.txt", False), (".env", False), ("~/x", False)],
)
def test_git_shows_no_line_of_a_file_that_blame_would_read(root: Path, file: str, allowed: bool) -> None:
    (root / ".git/config").write_text(f"[blame]\n\tignoreRevsFile = {file}\n")
    assert passes("git blame x.txt", root) == allowed


def test_a_password_in_the_settings_of_the_user_is_not_shown_with_a_url(root: Path, tmp_path: Path) -> None:
    place = AnalysisContext(LocalWorkspace(root), {**workspace_fixture.ENVIRONMENT, "HOME": str(tmp_path)})
    asked = ("git remote -v", "git remote get-url origin")
    assert all(passes(command, place) for command in asked)
    (tmp_path / ".gitconfig").write_text(
        '[url "https://oauth2:glpat-1@example.org/"]\n\tinsteadOf = https://example.org/\n'
    )
    assert not any(passes(command, place) for command in asked)
    assert passes("git config --get user.name", place)


@pytest.mark.parametrize("name", ["a .env", "-rh", "a x.txt"])
def test_names_that_only_the_index_has_are_not_given_to_xargs(tmp_path: Path, name: str) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    git(root, "init", "-q")
    (root / "b").write_text("x\n")
    git(root, "add", "b")
    assert passes("git ls-files | xargs grep x", root)
    (root / name).write_text("x\n")
    git(root, "add", "--", name)
    (root / name).unlink()
    assert not passes("git ls-files | xargs grep x", root)
    assert passes("git ls-files -z | xargs -0 grep x", root) or name.startswith("-")


def test_two_files_outside_a_repository_are_not_compared_unasked(root: Path) -> None:
    assert passes("git diff HEAD x.txt", root)
    assert not passes("git diff docs src", root)


def test_a_hook_that_looking_runs_is_asked_about(root: Path) -> None:
    (root / ".git/hooks").mkdir()
    (root / ".git/hooks/post-index-change.sample").write_text("")
    assert passes("git status", root)
    (root / ".git/hooks/post-index-change").write_text("")
    assert not passes("git status", root)
    assert not passes("cd src && git diff", root)


def test_a_repository_inside_another_that_git_looks_into_is_asked_about(tmp_path: Path) -> None:
    """The index names it as one of its own: `git status` runs what its settings say."""
    root, sub = tmp_path / "ws", tmp_path / "ws/deep/sub"
    sub.mkdir(parents=True)
    for folder in (root, sub):
        git(folder, "init", "-q")
        (folder / "f").write_text("a\n")
        git(folder, "add", "f")
        git(folder, "commit", "-qm", "x")
    (sub / ".git/config").write_text("[core]\n\tfsmonitor = ./run.sh\n")
    assert passes("git status", root)  # not yet one of its own
    (sub / ".git/config").write_text("[core]\n\tbare = false\n")
    git(root, "add", "deep/sub")
    assert passes("git status", root)
    (sub / ".git/config").write_text("[core]\n\tfsmonitor = ./run.sh\n")
    assert not passes("git status", root)
    assert not passes("git diff", root)


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("name", ["/etc/hostname", "../outside/ke", "a/../../out/k", "aaa/.git/conf"])
def test_an_index_that_names_files_outside_is_asked_about(tmp_path: Path, name: str, version: str) -> None:
    """git diff, git grep and git status read them."""
    root, plain = tmp_path / "ws", name.replace("/", "x").replace(".", "y")
    root.mkdir()
    git(root, "init", "-q")
    (root / plain).write_text("a\n")
    git(root, "add", plain)
    git(root, "update-index", "--index-version", version)
    looking = ("git diff", "git grep x", "git status", "git ls-files | xargs grep x")
    assert all(passes(command, root) for command in looking)
    index = root / ".git/index"
    index.write_bytes(index.read_bytes().replace(plain.encode(), name.encode()))
    assert not any(passes(command, root) for command in looking)


def test_tracked_names_below_a_link_out_of_the_workspace_are_not_searched(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    git(root, "init", "-q")
    searching = ("git grep x", "git ls-files | xargs grep x", "diff -r src .")
    assert all(passes(command, root) for command in searching)
    (root / "link").symlink_to("../outside")
    assert not any(passes(command, root) for command in searching)
    assert all(
        passes(command, root)
        for command in ("git grep --cached x", "grep -rn x .", "find . -name '*.py' | xargs grep x", "git diff")
    )


def test_an_index_that_is_not_understood_is_asked_about(root: Path) -> None:
    (root / ".git/index").write_bytes(b"DIRC\0\0\0\4" + b"\0\0\0\1" + b"\0" * 24 + b"\0\0\xe0\0" + b"\0" * 60)
    assert not passes("git status", root)


@pytest.mark.parametrize(
    "setting",
    [
        "url = https://me:s3cr3t@example.org/x.git",
        "url = https://ghp_0123456789abcdefghij@example.org/x",
        "ExtraHeader = Authorization: x",
    ],
)
async def test_a_password_in_git_s_settings_is_not_shown_unasked(root: Path, setting: str) -> None:
    asking = (
        "cat .git/config",
        "cd .git && head con*",
        "cat < .git/config",
        "git remote -v",
        "git config --get remote.o.url",
        "git -C src remote -v",
        "grep -r x .",
        "git config remote.o.url",
    )
    assert [command for command in asking if passes(command, root)] == [
        "cat .git/config",
        "cd .git && head con*",
        "cat < .git/config",
        "git remote -v",
        "git config --get remote.o.url",
        "git -C src remote -v",
        "git config remote.o.url",
    ]
    for name in (".env", "server.pem"):
        (root / name).unlink()
    (root / "linked/out.md").unlink()
    (root / "link.txt").unlink()
    assert passes("grep -r x .", root)
    (root / ".git/config").write_text(f'[remote "o"]\n\t{setting}\n')
    assert [command for command in asking if passes(command, root)] == []
    assert passes("git status", root)
    assert passes("git log", root)
    workspace = LocalWorkspace(root)
    try:
        harness = ToolHarness(root, READ_FILE_TOOL, GREP_TOOL, workspace=workspace)
        for name, arguments in ("read_file", {}), ("grep", {"pattern": "="}):
            text = await harness.text(name, path=".git/config", **arguments)
            assert "[masked]" in text
            assert not any(word in text for word in ("s3cr3t", "ghp_", "Authorization"))
    finally:
        await workspace.close()


@pytest.mark.parametrize(
    "command",
    [
        "git -C src push",
        "git --no-pager push o",
        "git -c a.b=c push",
        "git --git-dir .git push",
        "git --git-dir=.git push",
        "sudo git -C src push",
        "/usr/bin/git -C . -P push",
        "git -C src diff b.py",
    ],
)
def test_a_deny_rule_sees_git_behind_its_options(root: Path, command: str) -> None:
    context = workspace_fixture.context(root)
    rows = (("bash", "allow"), ("bash(git push *)", "deny"), ("read_file(src/b.py)", "deny"))
    rules = Rules(mode="yolo", rules=[parse_rule(text, decision) for text, decision in rows])
    assert rules.decide(workspace_fixture.bash(command, context)).decision == "deny"
    assert rules.decide(workspace_fixture.bash("git -C src diff c.py", context)).decision == "allow"
