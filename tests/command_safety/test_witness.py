"""What passes as read-only is run in bash: it changes nothing in a folder, runs nothing of it, and shows no secret."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command_safety import workspace_fixture
from tests.command_safety.rows import MUST_ASK
from tests.command_safety.witness_rows import ASKED, CHANGES, LOOKING, USES
from tests.command_safety.workspace_fixture import passes

SECRET = "the-content-of-a-secret"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with secrets, a repository, others hidden in it, and links that mislead `cd`."""
    root = workspace_fixture.create_project(tmp_path_factory.mktemp("witness"))
    for folder in ("trash", "folders/a/b", "bare", "linkhead/objects", "linkhead/refs", "sub/.git", "../objects/refs"):
        (root / folder).mkdir(parents=True)
    for secret in (".env", "server.pem", "../outside/key.txt"):
        (root / secret).write_text(f"{SECRET}\n")
    (root / "short").symlink_to("folders/a/b")
    (root / "trash/old").write_text("")
    (root / "list.txt").write_text(".env\n")
    (root / "run.sh").write_text("#!/bin/sh\ntouch ran\n")
    (root / "run.sh").chmod(0o755)
    for name in ("bare", "linkhead"):
        (root / name / "config").write_text("[diff]\n\texternal = ./run.sh\n[core]\n\tfsmonitor = ./run.sh\n")
    (root / "bare/HEAD").write_text("ref: refs/heads/main\n")
    (root / "bare/commondir").write_text("../evil\n")
    (root / "linkhead/HEAD").symlink_to("refs/heads/main")
    (root / ".git/config").unlink()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "src", "docs", "x.txt"), (*who, "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, timeout=60)
    (root / "x.txt").write_text("changed\n")
    return root


def state(root: Path) -> dict[str, tuple[int, int]]:
    """Every file beside and below the folder; git may refresh its index."""
    found = {str(path): path.lstat() for path in root.parent.rglob("*") if path.name not in ("index", ".git")}
    return {name: (status.st_mtime_ns, status.st_mode) for name, status in found.items()}


def run(root: Path, commands: Sequence[str]) -> None:
    """Run the commands in one process, and look at what they did."""
    before = state(root)
    lines = (f"echo '=== {at}'; timeout 5 bash -c {shlex.quote(c)} 2>&1" for at, c in enumerate(commands))
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=root,
        env=workspace_fixture.ENVIRONMENT,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
    )
    shown = done.stdout.decode(errors="replace").split("=== ")
    assert [commands[int(part.split("\n")[0])] for part in shown[1:] if SECRET in part] == []
    assert state(root) == before, commands


@pytest.mark.parametrize("kind", ASKED)
def test_what_would_do_harm_is_asked_about(root: Path, kind: str) -> None:
    assert [command for command in ASKED[kind] if passes(command, root)] == []


@pytest.mark.parametrize("kind", LOOKING)
def test_what_people_write_passes_and_only_looks(root: Path, kind: str) -> None:
    assert [command for command in LOOKING[kind] if not passes(command, root)] == []
    run(root, LOOKING[kind])


@pytest.mark.parametrize("use", USES, ids=str)
def test_the_value_that_was_judged_is_the_one_that_counts(root: Path, use: tuple[str, str, str]) -> None:
    bad, good, command = use
    texts = [
        f"{way.format(a=a, b=b)}{end}{command}"
        for way in CHANGES
        for a, b in ((bad, good), (good, bad))
        for end in ("; ", "\n", " && ")
    ]
    passed = [text for text in texts if passes(text, root)]
    run(root, passed)
    assert passed, "none of the ways is harmless"


def test_the_tables_are_as_large_as_they_should_be() -> None:
    own = [command for commands in (*ASKED.values(), *LOOKING.values()) for command in commands]
    shipped = {command for *_, commands in MUST_ASK for command in commands}
    assert len(set(own) - shipped) >= 350
