"""Servers that deceive, flood, look around and survive, in sessions."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import Notice, PermissionAsked, QuestionAsked, ToolFinished
from friday_cli.extensions.trust import decide
from friday_cli.frontends.mcp_server.delegations import Delegations
from friday_cli.mcp.catalog import Catalog, CatalogCache, OfferedTool
from friday_cli.mcp.entry import ServerEntry
from friday_cli.system.paths import config_dir
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.servers import mcp_hostile
from tests.session.harness import Harness, does, says
from tests.session.test_mcp import ALLOW, calls, events, learn, servers
from tests.workspace.process.test_survivors import gone, mark, started
from tests.workspace.sandbox.conftest import choice

__all__ = ["choice", "mark"]


def hostile(kind: str, *words: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", "-E", str(mcp_hostile.__file__), kind, *words], **more}


async def notices(harness: Harness, session: str) -> list[str]:
    return [event.text for event in await events(harness, session, Notice) if "MCP" in event.text]


async def test_a_tool_that_is_described_otherwise_is_named_also_beside_new_ones(harness: Harness) -> None:
    servers(small=hostile("rug", expose="direct"))
    harness.plays({"a": [calls("small", "echo"), says("one")]})
    await learn(harness)
    async with harness.session(allow=ALLOW) as session:
        await session.prompt("one")
        assert session.servers is not None
        await session.servers.idle()
    assert await notices(harness, session.id) == [
        "MCP server small: its tools changed (1 new, 0 gone). The descriptions of these tools changed, and your rules for them"
        " still apply: echo. This applies from your next message on."
    ]


async def test_lists_that_change_without_end_are_one_line(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("friday_cli.mcp.pool.CHANGE_S", 0.0)
    servers(small=hostile("lists", expose="direct"))
    harness.plays({"a": [calls("small", "echo"), says("one")]})
    await learn(harness)
    async with harness.session(allow=ALLOW) as session:
        await session.prompt("one")
        pool = session.servers
        assert pool is not None
        for _ in range(5):
            await pool.idle()
            pool._read(pool._get("small"))
        await pool.idle()
    assert len(await notices(harness, session.id)) == 1


async def test_lists_that_change_without_end_are_read_less_and_less(harness: Harness) -> None:
    servers(small=hostile("lists"))
    async with harness.after_run() as session:
        pool = session.servers
        assert pool is not None
        for _ in range(2):
            waits = [pool._get("small").next_change_s() for _ in range(12)]
            assert (waits[:3], waits[-1]) == ([0.3, 0.6, 1.2], 5.0)
            pool.person_wrote()


def known_of_project(harness: Harness) -> None:
    """A project with a server whose tool is known, and that does not answer."""
    url = "http://127.0.0.1:9/mcp"
    (harness.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"small": {"url": url, "expose": "direct"}}}))
    decide(harness.project, True)
    entry = ServerEntry("small", "http", url=url, cwd=os.path.realpath(harness.project), sandbox=True)
    CatalogCache().write(entry, Catalog(tools=(OfferedTool("echo"),), fetched=time.time()))


async def test_a_kept_rule_does_not_hold_for_the_server_of_a_project(harness: Harness) -> None:
    known_of_project(harness)
    harness.plays({"a": [calls("small", "echo"), calls("small", "echo"), says("done")]})
    kept = {"permissions.allow": ["mcp__small__echo", "mcp__small"]}
    asked: list[str] = []
    finished = 0
    async with harness.session(attended=True, flags=kept) as session:
        run = session.start("go")
        async for envelope in session.events():
            if isinstance(event := envelope.event, PermissionAsked):
                asked.append(event.rule)
                await session.answer(event.id, ApprovalAnswer("allow", "always"))
            finished += isinstance(event, ToolFinished)
            if finished == 2:
                break
        await session.result(run)
    assert asked == ["mcp__small__echo"]
    assert [status for status, _ in await harness.results(session.id, "a")] == [
        "error",
        "error",
    ]  # nobody listens there
    assert not (config_dir() / "config.toml").exists()
    told = "The rule mcp__small__echo applies to this session only: the MCP server small is the project's."
    assert told in await notices(harness, session.id)


async def test_a_flood_of_questions_ends(harness: Harness) -> None:
    servers(small=hostile("asks", expose="direct"))
    harness.plays({"a": [calls("small", "echo"), says("done")]})
    await learn(harness)
    async with harness.session(allow=ALLOW, attended=True) as session:
        run = session.start("go")
        asked = asyncio.create_task(_decline(session))
        await session.result(run)
    assert await asked == 20
    ((status, text),) = await harness.results(session.id, "a")
    assert (status, "200 declined" in text) == ("ok", True), text


async def _decline(session: Any) -> int:
    count = 0
    async for envelope in session.events():
        if isinstance(event := envelope.event, QuestionAsked):
            count += 1
            await session.answer(event.id, "Decline")
    return count


async def test_a_question_with_two_calls_open_names_both_agents(harness: Harness) -> None:
    servers(small=hostile("shared", expose="direct"))
    harness.profile("helper", "mcpServers: [small]")
    child = [calls("small", "echo"), says("x")]
    task = ("delegate_task", {"profile": "helper", "task": "ask"})
    harness.plays({"a": [does(task, task), says("done")], "a.1": child, "a.2": child})
    await learn(harness)
    questions = []
    async with harness.session(allow=ALLOW, attended=True) as session:
        run = session.start("go")
        async for envelope in session.events():
            if isinstance(event := envelope.event, QuestionAsked):
                questions.append(event.question)
                await session.answer(event.id, "Decline")
                break
        await session.result(run)
    (question,) = questions
    assert question.startswith(
        ("MCP server small (called by agent a.1 or a.2) asks", "MCP server small (called by agent a.2 or a.1) asks")
    )


async def test_a_projects_server_reads_no_key_and_writes_nothing_outside(
    harness: Harness, choice: SandboxChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    folder = Path(os.environ["HOME"]) / ".ssh"
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "id_rsa"
    key.write_text("a private key")
    shutil.copy(str(mcp_hostile.__file__), harness.project / "looks.py")
    (harness.project / "open.txt").write_text("to read")
    entry = {
        "command": sys.executable,
        "args": ["-S", "-E", "looks.py", "looks", str(key), "open.txt"],
        "expose": "direct",
    }
    (harness.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
    decide(harness.project, True)
    harness.plays({"a": [calls("small", "echo"), says("done")]})
    session = await harness.ran(allow=ALLOW, flags={"sandbox.kind": choice.kind})
    ((status, text),) = await harness.results(session.id, "a")
    assert status == "ok", (text, await notices(harness, session.id))
    seen = json.loads(text.partition("\n")[2].rpartition("\n")[0])
    assert seen[str(key)][0] in ("PermissionError", "FileNotFoundError")
    assert seen["open.txt"] == ["to read"]
    assert "SOME_API_KEY" not in seen["environment"]
    assert not (folder / "written").exists()


@pytest.mark.parametrize("killed", [False, True], ids=["a session that ends", "kill -9 of friday"])
async def test_what_a_server_left_behind_ends_with(harness: Harness, tmp_path: Path, mark: str, killed: bool) -> None:
    servers(small=hostile("forks", mark, expose="direct"))
    script = tmp_path / "script.json"
    wait = {"turns": [does(("bash", {"command": "sleep 600"})), says("done")]} if killed else {"turns": [says("done")]}
    script.write_text(json.dumps({"agents": {"a": wait}}))
    friday = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "friday_cli",
        "ask",
        "-m",
        f"scripted:{script}",
        "--allow",
        "bash",
        "go",
        cwd=harness.project,
        env=dict(os.environ),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        if killed:
            await started(mark)
        else:
            assert await asyncio.wait_for(friday.wait(), 60) == 0
    finally:
        if friday.returncode is None:
            friday.kill()
            await friday.wait()
    await gone(mark)


def test_the_beginning_of_two_ids_is_no_id() -> None:
    retention = SimpleNamespace(settings=SimpleNamespace(retention=SimpleNamespace(days=1.0)))
    delegations = Delegations(cast(Any, retention))
    delegations._open = cast(Any, {"20261122-aaaa": "first", "20261122-aaab": "second", "20261122-aaaab": "third"})
    names = ("20261122-aaab", "20261122-aaaa", "20261122", "20261122-aaaab", "20261122-b")
    assert [delegations.running(name) for name in names] == ["second", "first", None, "third", None]
