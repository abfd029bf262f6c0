"""Programs that a trusted project starts and whose text does not say what they run: marked, and not run after agents changed files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import HookRan
from friday_cli.extensions import trust, trust_review
from friday_cli.extensions.started_programs import UNCHECKED, ProgramText, is_unchecked, scripts_of
from tests.agents.hooks.hook_files import hook, project_hooks
from tests.servers import mcp_stdio
from tests.session.harness import Harness, does, says

UNREAD = (
    "$(pwd)/scripts/g.sh", "${CLAUDE_PROJECT_DIR:-.}/scripts/g.sh", "./scripts/g*.sh", "s=scripts; ./$s/g.sh", "cd scripts; ./g.sh",
    "find scripts -name g.sh -exec {} \\;", "for f in scripts/*; do $f; done", "make", "python3 -m scripts.g", "npx guard",
    "eval \"$(cat scripts/g.sh)\"", "cat scripts/g.sh | sh", "xargs -a scripts/list sh", "sh < scripts/g.sh", "env -S ./scripts/g.sh",
    "ls scripts | head -1 | xargs -I{} sh scripts/{}", "python3 -c 'import scripts.g'", ". $PWD/scripts/g.sh", "node --require ./x -e 1",
    "git status", "perl -Iscripts -e 1", "bash -c \"./scripts/$(echo g).sh\"", "nohup make", "timeout 5 npm test", "printf x | $SHELL",
    "cat scripts/list | sh -s scripts/g.sh", "perl -I scripts/g.py scripts/list", "node -r scripts/g.sh x", "ruby -e scripts/g.sh",
)  # fmt: skip
READ = (
    "./scripts/g.sh", "sh scripts/g.sh x", "$CLAUDE_PROJECT_DIR/scripts/g.sh", '"${FRIDAY_PROJECT_DIR}"/scripts/g.sh', "python3 -u scripts/g.py",
    "cat >/dev/null; echo '{}'", "if grep -q rm; then exit 2; fi", "jq -r .tool_name | grep -q x && exit 2", "timeout 5 ./scripts/g.sh",
    "cat > log; ./scripts/g.sh", ". scripts/g.sh",
)  # fmt: skip


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    for name in ("g.sh", "g.py", "list"):
        (tmp_path / "scripts" / name).write_text("true\n")
    return tmp_path


@pytest.mark.parametrize("command", UNREAD)
def test_a_program_that_its_text_does_not_name_is_unchecked(scripts: Path, command: str) -> None:
    assert is_unchecked(ProgramText(command), scripts)


@pytest.mark.parametrize("command", READ)
def test_a_program_that_its_text_names_is_checked(scripts: Path, command: str) -> None:
    assert not is_unchecked(ProgramText(command), scripts)


LOADS = {
    "a.py": "from lib import more\nimport helpers.one, other\n", "lib/more.py": "", "helpers/one.py": "", "other.py": "import json\n",
    "a.sh": '. "$(dirname "$0")/lib.sh"\nsource lib/b.sh; echo\n', "lib.sh": "", "lib/b.sh": "",
    "a.js": "const x = require('./x'); import y from './y.mjs'\n", "x.js": "", "y.mjs": "", "unrelated.py": "", "README.md": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "loaded"),
    [("python3 a.py", {"a.py", "lib/more.py", "helpers/one.py", "other.py"}), ("./a.sh", {"a.sh", "lib.sh", "lib/b.sh"}),
     ("node a.js", {"a.js", "x.js", "y.mjs"})],
)  # fmt: skip
def test_what_a_script_loads_is_hashed_with_it(tmp_path: Path, command: str, loaded: set[str]) -> None:
    for name, text in LOADS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project_hooks(tmp_path, {"SessionStart": [hook(command)]})
    assert {name for name, _ in scripts_of(ProgramText(command), tmp_path, {})} == loaded
    assert loaded <= trust.decide(tmp_path, True).files.keys()
    (tmp_path / sorted(loaded)[-1]).write_text("changed")
    assert trust.is_trusted(tmp_path).state == "changed"


@pytest.mark.parametrize(
    "name", ["socket.py", "json/__init__.py", "asyncio.cpython-311-x86_64-linux-gnu.so", "queue.pyc"]
)
@pytest.mark.parametrize("script", ["g.py", "guard"])
def test_a_module_beside_a_script_of_python_that_replaces_one_of_its_library_is_hashed_with_it(
    tmp_path: Path, script: str, name: str
) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / script).write_text("#!/usr/bin/env python3\nimport mcp\n")
    (tmp_path / "hooks/other.py").touch()
    project_hooks(tmp_path, {"SessionStart": [hook(f"hooks/{script}")]})
    assert f"hooks/{script}" in trust.decide(tmp_path, True).files
    assert trust.is_trusted(tmp_path).ok
    path = tmp_path / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("import os")
    assert trust.is_trusted(tmp_path).changed == (f"+ hooks/{name}",)


def write(path: str = "new.txt") -> dict[str, Any]:
    return does(("write_file", {"path": path, "content": "x"}))


OFF = {"sandbox.kind": "none"}
SERVER = Path(mcp_stdio.__file__).read_text()


async def runs(harness: Harness, session: str) -> list[str]:
    """The problem of each run of a hook, "" for none."""
    return [e.event.problem for e in await harness.log(session) if isinstance(e.event, HookRan)]


@pytest.mark.parametrize("command", ["$(echo ./g.sh)", "./g.sh"])
async def test_an_unchecked_hook_that_could_do_harm_does_not_run_after_a_change(harness: Harness, command: str) -> None:
    script = harness.project / "g.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)
    project_hooks(harness.project, {"PreToolUse": [hook(command)]})
    trust.decide(harness.project, True)
    harness.plays({"a": [does(("list_dir", {})), write(), does(("list_dir", {})), says("done")]})
    session = await harness.ran(allow=("write_file",), flags=OFF)
    first, second, third = await runs(harness, session.id)
    assert (first, second) == ("", "")
    assert ("agents changed files" in third) == (command != "./g.sh")
    standing = trust.is_trusted(harness.project)
    assert (trust_review.needs_decision(standing), standing.ok) == (command != "./g.sh", True)
    harness.plays({"a": [does(("list_dir", {})), says("done")]})
    again = await harness.ran(flags=OFF)
    assert any("agents changed files" in problem for problem in await runs(harness, again.id)) == (command != "./g.sh")
    trust.decide(harness.project, True)
    assert await runs(harness, (await harness.ran(flags=OFF)).id) == [""]


async def test_an_unchecked_hook_that_only_reads_goes_on(harness: Harness, landlock: dict[str, str]) -> None:
    project_hooks(harness.project, {"PreToolUse": [hook("$(echo true)")]})
    trust.decide(harness.project, True)
    harness.plays({"a": [write(), does(("list_dir", {})), says("done")]})
    session = await harness.ran(allow=("write_file",), flags=landlock)
    assert await runs(harness, session.id) == ["", ""]
    assert not trust.is_trusted(harness.project).stale


def project_server(project: Path, *words: str, **more: Any) -> None:
    entry = {"command": sys.executable, "args": list(words), **more}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))


async def learn(harness: Harness, flags: dict[str, str]) -> None:
    """Let the catalog of the server be in the cache, so that a session starts it only for a call."""
    harness.plays({"a": [says("hello")]})
    async with harness.after_run(flags=flags) as session:
        assert session.servers is not None
        await session.servers.idle()


async def test_an_unchecked_server_is_not_started_after_a_change(harness: Harness, landlock: dict[str, str]) -> None:
    (harness.project / "server.py").write_text(SERVER)
    project_server(harness.project, "-m", "server")
    trust.decide(harness.project, True)
    await learn(harness, landlock)
    harness.plays({"a": [write(), does(("mcp__s__echo", {"text": "hi"})), says("done")]})
    session = await harness.ran(allow=("write_file", "mcp__*"), flags=landlock)
    assert "agents changed files" in (await harness.results(session.id, "a"))[1][1]
    harness.plays({"a": [does(("mcp__s__echo", {"text": "hi"})), says("done")]})
    session = await harness.ran(allow=("mcp__*",), flags=landlock)
    assert "agents changed files" in (await harness.results(session.id, "a"))[0][1]


async def test_a_changed_script_of_a_server_is_not_started(harness: Harness, landlock: dict[str, str]) -> None:
    (harness.project / "server.py").write_text(SERVER)
    project_server(harness.project, "server.py")
    trust.decide(harness.project, True)
    await learn(harness, landlock)
    harness.plays(
        {
            "a": [
                does(("read_file", {"path": "server.py"})),
                write("server.py"),
                does(("mcp__s__echo", {"text": "hi"})),
                says("done"),
            ]
        }
    )
    session = await harness.ran(allow=("write_file", "mcp__*"), mode="yolo", flags=landlock)
    assert "server.py has changed since it was trusted" in (await harness.results(session.id, "a"))[2][1]


async def test_a_server_that_may_write_behind_a_link_is_not_started(harness: Harness, landlock: dict[str, str]) -> None:
    (harness.project / "server.py").write_text(SERVER)
    (harness.project / "out").mkdir()
    project_server(harness.project, "server.py", writes=["out"])
    trust.decide(harness.project, True)
    await learn(harness, landlock)
    harness.plays(
        {
            "a": [
                does(("bash", {"command": "rmdir out; ln -s .. out"})),
                does(("mcp__s__echo", {"text": "hi"})),
                says("done"),
            ]
        }
    )
    session = await harness.ran(allow=("bash", "mcp__*"), mode="auto", flags=landlock)
    assert "it may write out, which is a link" in (await harness.results(session.id, "a"))[1][1]


def test_the_trust_question_marks_what_nobody_can_check(scripts: Path) -> None:
    project_hooks(scripts, {"SessionStart": [hook("make"), hook("sh scripts/g.sh")]})
    project_server(scripts, "-m", "scripts.g")
    rows = [text for _, text in trust_review.lines(trust.is_trusted(scripts))]
    assert [UNCHECKED in row for row in rows if "make" in row or "sh scripts" in row] == [True, False]
    assert [UNCHECKED in row for row in rows if "MCP server" in row] == [True]
