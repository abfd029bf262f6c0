"""A connection to a small stdio server: eras, answers, failures, and its process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from friday_cli.mcp.catalog import Catalog
from friday_cli.mcp.connection import ConnectionHost, ServerCall, ServerConnection, ServerError
from friday_cli.mcp.entry import ServerEntry
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.server import ServerProgram
from tests.servers import mcp_stdio


class Bench:
    """Makes connections to servers that write a log."""

    def __init__(self, workspace: LocalWorkspace, folder: Path) -> None:
        self.log, self.reports = folder / "log", list[str]()
        self._workspace = workspace
        self._host = ConnectionHost(self._start, roots=("file:///work",), report=self.reports.append)
        self.made: list[ServerConnection] = []

    async def _start(self, entry: ServerEntry) -> Any:
        program = ServerProgram((entry.command, *entry.args), {"PATH": os.environ["PATH"]})
        return await self._workspace.serve(program, "mcp")

    def connection(self, *words: str, known: Catalog | None = None, **more: Any) -> ServerConnection:
        args = ("-S", "-E", str(mcp_stdio.__file__), f"log={self.log}", *words)
        entry = ServerEntry("small", "stdio", command=sys.executable, args=args, **more)
        self.made.append(ServerConnection(entry, self._host, known))
        return self.made[-1]

    def methods(self) -> list[str]:
        """The methods of the messages that servers got, "start" for a process, without those to be told of changes."""
        found = [line.split()[0] for line in self.log.read_text().splitlines()]
        return [method for method in found if method != "subscriptions/listen"]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    workspace = LocalWorkspace(tmp_path)
    made = Bench(workspace, tmp_path)
    yield made
    for connection in made.made:
        await connection.close()
    await workspace.close()


async def answers(question: str, choices: Sequence[str]) -> str:
    return {"| level": "high", "| sure": "Yes", "| name": "Bob"}.get(
        question.split("\n")[-1], choices[0] if choices else ""
    )


PERSON = '{"action": "accept", "content": {"name": "Bob", "level": "high", "sure": true}}'
BOTH = {
    "echo": "hi",
    "fail": "It did not work.",
    "slow": "done",
    "huge": "ERROR its answer is longer than 16 MB",
    "crowded": "ERROR its answer is longer than 16 MB or has more than 500,000 parts",
}
LEGACY = {
    **BOTH, "data": '{"two": 3}', "form": PERSON, "link": '{"action": "accept"}', "sample": "Sampling not supported",
    "roots": "file:///work",
}  # fmt: skip
MODERN = {**BOTH, "data": '[1, {"two": 3}]', "ask": PERSON, "task": "the task is done", "asktask": PERSON}


@pytest.mark.parametrize(("era", "wanted"), [("legacy", LEGACY), ("modern", MODERN)])
async def test_answers_of_both_eras_and_the_end_in_a_call(bench: Bench, era: str, wanted: dict[str, str]) -> None:
    connection, live = bench.connection(f"era={era}"), list[str]()
    for tool, part in wanted.items():
        call = ServerCall(10, agent="a.1", show=live.append, ask=answers)
        try:
            text = (await connection.call(tool, {"text": "hi"}, call)).text
        except ServerError as error:
            text = f"ERROR {str(error).removeprefix('MCP server small: ')}"
        assert part in text, (tool, text)
    assert "busy (2/2)\n" in live
    with pytest.raises(ServerError, match=r'it ended during the call \(exit code 7\): "out of luck"'):
        await connection.call("die", {})
    assert (await connection.call("echo", {"text": "again"})).text == "again"
    assert bench.methods().count("start") == 2  # the call that failed was not repeated


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_servers_pattern_that_would_be_matched_for_ever_is_given_up(bench: Bench, era: str) -> None:
    connection = bench.connection(f"era={era}", "pattern")
    assert "aaa" in (await connection.call("pattern", {"text": "aaa"})).text
    with pytest.raises(ServerError, match="cannot be checked within 1 s; a pattern of the schema may be too slow"):
        await connection.call("pattern", {"text": "a" * 50 + "!"})
    assert "aaa" in (await connection.call("pattern", {"text": "aaa"})).text, "the connection is still there"


async def test_progress_without_end_does_not_hold_a_call_for_ever(bench: Bench) -> None:
    connection, call = bench.connection("era=legacy"), ServerCall(10)
    assert call.longest_s == 3600
    call.longest_s = 0.2
    async with asyncio.timeout(30):
        with pytest.raises(ServerError, match=r"no answer within 0\.2 s, only progress; the call was cancelled"):
            await connection.call("endless", {}, call)


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.mcp.connection.END_S", 3600)
    silent = bench.connection("silent", startup_timeout_s=3600)
    opening = asyncio.create_task(silent.open())
    while not bench.log.exists() or "server/discover" not in bench.log.read_text():  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.02)
    async with asyncio.timeout(60):
        await silent.close()
        with pytest.raises(ServerError):
            await opening


async def test_the_era_is_probed_once_and_remembered(bench: Bench) -> None:
    for era, wanted in (("legacy", ["start", "initialize"]), ("modern", ["start", "tools/list"])):
        known = await bench.connection(f"era={era}").catalog()
        assert bench.methods()[:2] == ["start", "server/discover"]
        bench.log.write_text("")
        await bench.connection(f"era={era}", known=known).catalog()
        assert bench.methods()[:2] == wanted
        other = "modern" if era == "legacy" else "strict"
        if era == "legacy":  # the server was updated
            assert (await bench.connection(f"era={other}", known=known).catalog()).discovered
        bench.log.write_text("")
    assert (await bench.connection("era=strict").catalog()).protocol == "2025-11-25"


@pytest.mark.parametrize(
    ("era", "tool", "begun", "sent"),
    [
        ("legacy", "forever", "tools/call", "notifications/cancelled"),
        ("modern", "forevertask", "tasks/get", "tasks/cancel"),
    ],
)
async def test_a_cancelled_call_is_cancelled_at_the_server(
    bench: Bench, era: str, tool: str, begun: str, sent: str
) -> None:
    connection = bench.connection(f"era={era}")
    await connection.open()
    task = asyncio.create_task(connection.call(tool, {}))
    async with asyncio.timeout(10):
        while begun not in bench.methods():  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        while sent not in bench.methods():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert task.cancelled()
    assert (await connection.call("echo", {"text": "still here"})).text == "still here"


@pytest.mark.parametrize(
    ("words", "more", "problem"),
    [
        (["silent"], {"startup_timeout_s": 0.2}, "it did not answer within 0.2 s."),
        (["die"], {}, 'it ended at the start (exit code 1): "no configuration found".'),
        ([], {"timeout_s": 0.1}, "no answer within 0.1 s; the call was cancelled."),
    ],
)
async def test_a_server_that_does_not_work_is_one_line(
    bench: Bench, words: list[str], more: dict[str, Any], problem: str
) -> None:
    connection = bench.connection(*words, **more)
    with pytest.raises(ServerError) as caught:
        await connection.call("forever", {})
    assert str(caught.value) == f"MCP server small: {problem}"
    assert connection.last_error == str(caught.value)


async def test_a_closed_connection_leaves_no_process(bench: Bench) -> None:
    connection = bench.connection()
    await connection.open()
    pid = int(bench.log.read_text().split()[1])
    await connection.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ServerError, match="the session is closed"):
        await connection.open()
