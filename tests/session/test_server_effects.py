"""What a project's MCP server changes where it may write: in the receipt, reported, and undone by a rewind, as for commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import Notice, ToolFinished
from friday_cli.extensions import trust
from friday_cli.session.session import Session
from tests.servers import mcp_stdio
from tests.session.harness import Harness, does, says
from tests.session.test_project_programs import learn

SERVER = (
    Path(mcp_stdio.__file__)
    .read_text()
    .replace('        "echo",', '        "echo",\n        "shell",')
    .replace(
        '    if name == "echo":',
        '    if name == "shell":\n        import subprocess\n        subprocess.run(given["command"], shell=True, stdout=2)\n'
        '        return twice("done")\n    if name == "echo":',
    )
)


@pytest.fixture
def server(harness: Harness, tmp_path: Path) -> Path:
    """A folder of the trusted project that its server may write, which runs the shell commands that it is called with."""
    script = tmp_path / "shell_server.py"
    script.write_text(SERVER)
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-S", "-E", str(script)], "writes": ["out"]}
    (harness.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    folder = harness.project / "out"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    trust.decide(harness.project, True)
    return folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def shell(command: str) -> dict[str, Any]:
    return does(("mcp__s__shell", {"command": command}))


async def notices(harness: Harness, session: Session) -> list[str]:
    return [
        e.event.text
        for e in await harness.log(session.id)
        if isinstance(e.event, Notice) and "run code" in e.event.text
    ]


async def test_a_call_is_in_the_receipt_and_a_rewind_undoes_it(
    harness: Harness, server: Path, landlock: dict[str, str]
) -> None:
    await learn(harness, landlock)
    command = "cd out; echo new > old.txt; echo x > made.txt; echo x > .envrc; echo x > ../outside.txt"
    harness.plays({"a": [shell(command), says("done")]})
    async with harness.session(allow=("mcp__*",), flags=landlock) as session:
        await session.prompt("go")
        assert (server / "old.txt").read_text() == "new\n"
        done = await session.rewind.to(1)
        assert (done.done, done.conflicts, done.lost) == (True, (), ())
    assert content(server) == {"old.txt": "old\n"}
    assert not (harness.project / "outside.txt").exists()
    (finished,) = (e.event for e in await harness.log(session.id) if isinstance(e.event, ToolFinished))
    assert {row.path for row in finished.facts.files} == {"out/old.txt", "out/made.txt", "out/.envrc"}
    (told,) = await notices(harness, session)
    assert told.startswith("out/.envrc changed while a command ran and can run code later")


async def test_what_it_does_between_calls_is_reported(harness: Harness, server: Path, landlock: dict[str, str]) -> None:
    await learn(harness, landlock)
    later = "(until test -e go; do sleep 0.02; done; echo x > out/.envrc; echo x > out/end) >&2 </dev/null &"
    wait = "touch go; until test -e out/end || test $SECONDS -ge 20; do sleep 0.02; done"
    harness.plays({"a": [shell(later), does(("bash", {"command": wait})), shell("true"), says("done")]})
    session = await harness.ran(allow=("mcp__*", "bash"), flags=landlock)
    assert any(
        "out/.envrc" in text and "the MCP server s ran, but no call of it" in text
        for text in await notices(harness, session)
    )


async def test_what_it_does_until_its_end_is_reported(harness: Harness, server: Path, landlock: dict[str, str]) -> None:
    await learn(harness, landlock)
    later = (
        "trap '' HUP; (until test -e go; do sleep 0.02; done; echo x > out/.envrc; echo x > out/end) >&2 </dev/null &"
    )
    wait = "touch go; until test -e out/end || test $SECONDS -ge 20; do sleep 0.02; done"
    harness.plays({"a": [shell(later), does(("bash", {"command": wait})), says("done")]})
    session = await harness.ran(allow=("mcp__*", "bash"), flags=landlock)
    assert any("out/.envrc" in text for text in await notices(harness, session))
