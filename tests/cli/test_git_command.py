"""Commands of a person that use git start no program that a repository names, nor one of a project on PATH."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from friday_cli.system import own_programs
from tests.cli.console import Console
from tests.workspace.worktrees.repo_fixture import commit, git, repository

SETTINGS = """
[core]
	repositoryFormatVersion = 1
	fsmonitor = {evil}
	hooksPath = {folder}
	sshCommand = {evil}
	pager = {evil}
	alternateRefsCommand = {evil}
[log]
	showSignature = true
[gpg]
	program = {evil}
[filter "a=b"]
	clean = {evil}
	smudge = {evil}
	process = {evil}
	required = true
[diff]
	external = {evil}
[diff "x"]
	textconv = {evil}
	command = {evil}
[credential]
	helper = {evil}
[protocol "ext"]
	allow = always
[user]
	name = A
	email = a@example.org
[extensions]
	partialClone = origin
[remote "origin"]
	url = ext::{evil}
	promisor = true
"""
NAMES = ("evil", "git", "ssh-keygen", "post-checkout", "post-index-change", "reference-transaction")


@pytest.fixture
def mark(console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that only a program of the repository makes. One object of the repository is missing, and its newest commit is signed."""
    own_programs._found.clear()
    mark, project, programs = tmp_path / "mark", console.project, console.project / "bin"
    attributes = "* filter=a=b diff=x\n"
    repository(project, **{"code.py": "x = 1\n", "test_code.py": "1\n", ".gitattributes": attributes})
    (project / "receipt.json").write_text(json.dumps(receipt(project)))
    console.ok("ask", "go", "--model", "demo")
    commit(project, **{"code.py": "x = 2\n", "test_code.py": "2\n", "other.txt": "lost\n"})
    tree, parent = (git(project, "rev-parse", name).strip() for name in ("HEAD^{tree}", "HEAD"))
    who = "A <a@example.org> 1700000000 +0000"
    sealed = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{sealed}\nSign it\n"
    (tmp_path / "signed").write_text(text)
    signed = git(project, "hash-object", "-t", "commit", "-w", str(tmp_path / "signed")).strip()
    git(project, "reset", "-q", "--hard", signed)
    lost = git(project, "rev-parse", "HEAD:other.txt").strip()
    (project / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    programs.mkdir()
    for name in NAMES:
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    written = SETTINGS.replace("{evil}", str(programs / "evil")).replace("{folder}", str(programs))
    (project / ".git" / "more").write_text(written)
    with (project / ".git" / "config").open("a") as config:
        config.write("[include]\n\tpath = more\n")
    (project / "code.py").write_text("x = 3\n")
    return mark


def receipt(project: Path) -> dict[str, object]:
    """One without a signature, of the commit of now; it names a file that is missing later."""
    tree = {"name": "git tree", "digest": {"gitTree": git(project, "rev-parse", "HEAD^{tree}").strip()}}
    files = [{"name": name, "digest": {"sha256": "0" * 64}} for name in ("code.py", "other.txt")]
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [tree, *files], "predicateType": "urn:friday-cli:receipt:v1",
                 "predicate": {"session": "s", "agents": []}}  # fmt: skip
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    return {"payloadType": "application/vnd.in-toto+json", "payload": payload}


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("verify",), 0, "no receipt for HEAD"),
        (("verify", "receipt.json", "--unsigned"), 1, "code.py has different content"),
        (("verify", "receipt.json", "--allowed-signers", "code.py"), 1, "not signed"),
        (("eval", "from-git", "--check", "true"), 1, "lazy fetching disabled"),
        (("sessions", "receipt"), 0, "payloadType"),
        (("sessions", "receipt", "--note"), 0, ""),
        (("sessions", "fork", "ID", "--step", "a:1", "--say", "again", "--yes"), 0, "forked as session"),
        (("lsp", "check", "--since", "HEAD~1"), 6, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_nothing_that_a_repository_names_is_started(
    console: Console, mark: Path, argv: Sequence[str], code: int, said: str
) -> None:
    session = console.ok("sessions", "list", "--json").document[0]["id"]
    ran = console(*(session if word == "ID" else word for word in argv))
    assert not mark.exists(), (mark.read_text(), ran)
    assert (ran.code, said in ran.out + ran.err) == (code, True), ran


def test_no_program_of_a_submodule_is_started(console: Console, tmp_path: Path) -> None:
    """It has settings and attributes of its own."""
    from friday_cli.system.git_command import git as asked

    inner, mark = console.project / "inner", tmp_path / "mark"
    repository(inner, **{"code.py": "x = 1\n", ".gitattributes": "* filter=evil\n"})
    repository(console.project, **{"code.py": "x = 1\n"})
    commit(console.project, **{".gitmodules": '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n'})
    git(inner, "config", "filter.evil.clean", f"touch {mark}; cat")
    (inner / "code.py").write_text("x = 2\n")
    asked(console.project, "diff", "--name-only", "-z", "HEAD", "--")
    assert not mark.exists()


def test_a_filter_that_a_repository_requires_is_left_out(console: Console) -> None:
    from friday_cli.system.git_command import git as asked

    repository(console.project, **{"a.sec": "x\n", ".gitattributes": "*.sec filter=own\n"})
    git(console.project, "config", "filter.own.clean", "cat")
    git(console.project, "config", "filter.own.required", "true")
    (console.project / "a.sec").write_text("y\n")
    assert asked(console.project, "diff", "--name-only", "HEAD") == b"a.sec\n"


def test_the_filters_of_the_person_stay(console: Console, mark: Path, tmp_path: Path) -> None:
    """Git LFS is set up in the settings of the person."""
    from friday_cli.system.git_command import git as asked

    assert asked(console.project, "config", "filter.a=b.clean") == b"\n"
    (console.home / ".gitconfig").write_text('[filter "mine"]\n\tclean = cat\n')
    assert asked(console.project, "config", "filter.mine.clean") == b"cat\n"
