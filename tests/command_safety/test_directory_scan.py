"""Commands on many files: what none of their words names, they must not show either."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.command_safety import directory_scan
from tests.command_safety.workspace_fixture import passes

READING = (
    "find . -exec grep -n '' {} +", "find . -name '*.txt' | xargs grep -n ''", "git ls-files | xargs grep -n ''", "grep -rn '' .",
    "find . -type f -exec cat {} +", "find . -type f -print0 | xargs -0 cat", "rg --hidden x", "rg -uu x", "grep -r '' --include='*' .",
    "find . -not -name '*.py' -exec grep x {} +", "find . -name '*.py' -o -true -exec grep x {} +", "grep -d recurse x .",
)  # fmt: skip
NARROW = (
    "find . -name '*.py' | xargs grep -n x", "find src -type f -exec cat {} +", "grep -rn x src", "grep -rn x --include='*.py' .",
    "find . \\( -name '*.py' -o -name '*.js' \\) -exec grep x {} +", "git ls-files '*.py' | xargs grep x", "rg x", "find . -type f | xargs wc -l",
    "find . -type f -name '*.py' -not -path './node_modules/*' -exec cat {} +",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("x\n")
    (tmp_path / "secret.txt").write_text("x\n")
    return tmp_path / "ws"


@pytest.mark.parametrize("command", READING + NARROW)
def test_where_there_is_nothing_to_hide_all_of_it_passes(root: Path, command: str) -> None:
    assert passes(command, root)


@pytest.mark.parametrize("command", [c for c in READING if "git" not in c])
def test_a_file_that_may_hold_secrets_is_not_shown_unnamed(root: Path, command: str) -> None:
    (root / ".env").write_text("KEY=1\n") if "txt" not in command else (root / "x.txt").symlink_to("../secret.txt")
    assert not passes(command, root)


@pytest.mark.parametrize("command", NARROW)
def test_a_search_that_cannot_meet_it_passes(root: Path, command: str) -> None:
    (root / ".env").write_text("KEY=1\n")
    (root / "node_modules").mkdir()
    (root / "node_modules/ca.pem").write_text("example\n")
    assert passes(command, root)


def test_a_link_that_leads_out_is_not_followed_unnamed(root: Path) -> None:
    (root / "notes.txt").symlink_to("../secret.txt")
    for command in (
        "git ls-files | xargs grep ''",
        "find . | xargs grep ''",
        "find . -exec grep '' {} +",
        "diff -rN src .",
    ):
        assert not passes(command, root)
    for command in (
        "find . -type f | xargs grep ''",
        "grep -rn x .",
        "diff -rq src .",
        "find . -name '*.py' | xargs grep ''",
    ):
        assert passes(command, root)


@pytest.mark.parametrize("name", ["a ", "a -f", "a ..", "x\n", "a '"])
def test_a_name_that_xargs_would_part_is_asked_about(root: Path, name: str) -> None:
    (root / name / "etc").mkdir(parents=True)
    (root / name / "etc/passwd").write_text("")
    assert not passes("find . -type f | xargs grep root", root)
    assert not passes("git ls-files | xargs wc -l", root)
    assert passes("find . -type f -print0 | xargs -0 grep root", root)


def test_a_tree_that_is_too_large_is_asked_about(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_scan, "MAX_NAMES", 1)
    monkeypatch.setattr(directory_scan, "MAX_UNIGNORED_NAMES", 1)
    assert not passes("find . -exec grep x {} +", root)
    assert passes("ls -R", root)
    assert passes("rg x", root)


RG = (
    "rg x",
    "rg -n x .",
    "rg -l x",
    "rg x src .",
    "rg --files | xargs grep x",
    "rg -i x -g '*.p*'",
    "rg -t py -g '*.p?m' x",
    "rg -t config x",
)
"""Searches that would look into `server.pem`."""
RG_APART = (
    "rg -t py x",
    "rg -g '*.py' x",
    "rg --files",
    "rg x src",
    "rg -t py -t md x",
    "rg --files src | xargs grep x",
)


def test_a_search_shows_no_secret_that_is_neither_hidden_nor_ignored(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".env").write_text("x\n")
    assert all(passes(command, root) for command in RG + RG_APART)
    (root / "server.pem").write_text("x\n")
    assert not any(passes(command, root) for command in RG)
    assert all(passes(command, root) for command in RG_APART)
    for ignore, fine in (
        ("*.pem\n", True),
        ("/server.pem\n", True),
        ("*.pem/\n", False),
        ("# *.pem\n", False),
        ("*.pem\n!server.pem\n", False),
        ("src/server.pem\n", False),
    ):
        (root / ".gitignore").write_text(ignore)
        assert passes("rg x", root) is fine, ignore
    (root / ".gitignore").write_text("*.pem\n")
    (root / ".rgignore").write_text("!server.pem\n")
    assert not passes("rg x", root)


@pytest.mark.parametrize(("name", "kind", "other"), [
    (".env.json", "json", "md"), (".yarnrc.yml", "yaml", "md"), (".env.toml", "toml", "py"), ("src/.env.txt", "txt", "json"), (".env.py", "py", "go"),
])  # fmt: skip
def test_a_file_of_a_wanted_type_is_searched_though_it_is_hidden(root: Path, name: str, kind: str, other: str) -> None:
    assert passes(f"rg -t {kind} x", root)
    (root / name).write_text("x\n")
    assert not passes(f"rg -t {kind} x", root)
    assert not passes(f"rg x -t {other} -t {kind}", root)
    assert not passes(f"rg -l x -t {kind} | xargs grep x", root)
    assert passes("rg x", root)


def test_what_is_named_is_searched_though_it_is_hidden_or_ignored(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("build/\n")
    for folder in ("build", ".hidden"):
        (root / folder).mkdir()
        (root / folder / "secrets.yml").write_text("x\n")
    assert passes("rg x", root)
    assert passes("rg x src", root)
    for command in (
        "rg x build",
        "rg x .hidden",
        "cd build && rg x",
        "rg --files build | xargs grep x",
        "rg x src .hidden",
    ):
        assert not passes(command, root), command


@pytest.mark.parametrize("name", ["src/a .env", "src/.npmrc x", "src/a list.txt", "src/a sub/key"])
def test_a_name_whose_words_are_other_files_is_not_split(root: Path, name: str) -> None:
    searches = ("find src -type f | xargs grep ''", "grep -rl x src | xargs grep ''")
    (root / "list.txt").write_text("x\n")
    (root / "sub").symlink_to("..")
    assert all(passes(command, root) for command in searches)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("x\n")
    assert not any(passes(command, root) for command in searches)


def test_a_negated_line_above_the_workspace_shows_a_hidden_file(root: Path) -> None:
    (root.parent / ".git").mkdir()
    (root / ".env").write_text("KEY=1\n")
    assert passes("rg KEY", root)
    (root.parent / ".gitignore").write_text("!.env\n")
    assert not passes("rg KEY", root)
