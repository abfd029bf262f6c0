"""A language server in a real sandbox: what it can read, write and reach; also in a worktree, which is in one of Friday's folders."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from friday_cli.system.paths import config_dir
from tests.lsp.test_changes import OLD, TRUSTED, edits
from tests.lsp.test_commands import entry, git, write
from tests.session.conftest import harness as harness
from tests.session.conftest import landlock as landlock
from tests.session.harness import Harness, does, says
from tests.workspace.worktrees.steps import isolated


async def run(project: Harness, landlock: dict[str, str], *turns: object, **play: list[object]) -> list[str]:
    project.plays({"a": [*turns, says("done")], **{path.replace("_", "."): steps for path, steps in play.items()}})  # type: ignore[arg-type]
    flags = TRUSTED["flags"] | landlock
    session = await project.ran(**TRUSTED | {"flags": flags})
    return [text for path in ("a", "a.1") for _, text in await project.results(session.id, path)]


@pytest.mark.parametrize("of_project", [False, True])
async def test_it_writes_nothing_and_reads_no_key(
    of_project: bool, harness: Harness, landlock: dict[str, str], home: Path
) -> None:
    """Also a program in the project, which an agent can have made, where the person's settings want no sandbox."""
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("key")
    (harness.project / ".env").write_text("TOKEN=abc")
    server = entry("evil", sandbox=True)
    if of_project:
        program = harness.project / ".venv" / "bin" / "script-server"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        server |= {"command": "script-server", "sandbox": False}
    write(config_dir(), "lsp.json", {"script": server})
    source = harness.project / "src" / "model.bad"  # beside a secret, the server could not read what replaces a file
    source.parent.mkdir()
    source.write_text(OLD)
    read = does(("read_file", {"path": "src/model.bad"}))
    results = await run(harness, landlock, read, does(edits("area 1", "BAD 1", "src/model.bad")))
    said = results[1].partition("evil: ")[2].partition(" [")[0]
    assert said == "read source; no key; no .env; no write; no network", results
    assert not list(harness.project.rglob("evil.txt"))


async def test_a_program_that_the_sandbox_hides_says_what_to_do(
    harness: Harness, landlock: dict[str, str], home: Path
) -> None:
    program = home / ".tools" / "script-server"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    write(config_dir(), "lsp.json", {"script": entry("none", command=str(program), sandbox=True)})
    turns = does(("read_file", {"path": "model.bad"})), does(edits("area 1", "BAD 1"))
    (harness.project / "model.bad").write_text(OLD)
    results = await run(harness, landlock, *turns)
    assert "it did not start" in results[1], results
    assert "[sandbox] read" in results[1], results
    (harness.project / "model.bad").write_text(OLD)
    results = await run(harness, landlock | {"sandbox.read": [str(program.parent)]}, *turns)  # type: ignore[dict-item]
    assert "script: 1 new problem" in results[1], results


async def test_it_reads_a_worktree(harness: Harness, landlock: dict[str, str]) -> None:
    write(config_dir(), "lsp.json", {"script": entry("none", sandbox=True)})
    (harness.project / "model.bad").write_text(OLD)
    (harness.project / "one.bad").write_text("use area 1\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        await asyncio.to_thread(git, harness.project, *words)
    harness.profile("worker", 'allowedTools: "*"')
    child = [does(("read_file", {"path": "model.bad"})), does(edits("area 1", "area 2")), says("done")]
    results = await run(harness, landlock, isolated(), a_1=child)
    assert "script: 1 new problem\none.bad:1 bad: use area 1 [bad]" in results[-1], results
