"""`friday mcp serve` through the library's own client, in both eras of the protocol, and as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import jsonschema
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from friday_cli.core.protocol.errors import ToolError
from friday_cli.frontends.mcp_server.job import Client as Peer
from friday_cli.frontends.mcp_server.options import OPTIONS
from friday_cli.frontends.mcp_server.serve_settings import ServeSettings
from friday_cli.frontends.mcp_server.server import TASKS, build_server
from friday_cli.frontends.mcp_server.tools import FridayTools
from friday_cli.frontends.options import defaults
from friday_cli.system.paths import config_dir
from friday_cli.view import SessionView
from tests.session.harness import Harness, does, wait_for

Elicit = Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]
DONE = {"text": "Done.", "usage": {"input": 1000, "output": 100}}


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    project = tmp_path / "project"
    project.mkdir()
    return Harness(project.resolve(), {"a.*": [DONE]})


def _host(harness: Harness, **values: Any) -> FridayTools:
    given = {"cwd": str(harness.project), "model": f"scripted:{harness.scenario}"} | values
    return FridayTools(ServeSettings.read(defaults(OPTIONS) | given))


@asynccontextmanager
async def _served(
    harness: Harness, mode: str = "auto", *, options: Mapping[str, Any] | None = None, **client: Any
) -> Any:
    """A client and the server that it talks to."""
    host = _host(harness, **(options or {}))
    try:
        async with Client(build_server(host), mode=mode, **client) as connected:
            yield connected, host
    finally:
        await host.delegations.close()


def _person(*answers: dict[str, Any] | str) -> tuple[list[types.ElicitRequestFormParams], Elicit]:
    """A person that answers forms: with content, or "decline" or "cancel"; and what was asked."""
    asked: list[types.ElicitRequestFormParams] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        given = answers[len(asked)]
        asked.append(params)
        if isinstance(given, str):
            return types.ElicitResult(action=given)  # type: ignore[arg-type]
        return types.ElicitResult(action="accept", content=given)

    return asked, answer


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_every_tool_has_an_output_schema_and_its_results_fit_it(harness: Harness, mode: str) -> None:
    harness.plays(
        {"a.1": [does(("list_dir", {"path": "."})), DONE], "a.2": [{"fail": {"kind": "auth", "message": "no"}}]}
    )
    async with _served(harness, mode) as (client, _):
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}

        async def call(name: str, **arguments: Any) -> Any:
            made = await client.call_tool(name, arguments)
            assert not made.is_error, made
            jsonschema.validate(made.structured_content, schemas[name])
            return made.structured_content

        profiles = (await call("list_profiles"))["profiles"]
        assert "researcher" in [row["name"] for row in profiles]
        one = await call("delegate_task", profile="researcher", task="look")
        assert (one["status"], one["result"], one["receipt"]["tools"]) == ("completed", "Done.", {"list_dir": 1})
        assert one["budget_left"]["tokens"] == 50_000 - one["usage"]["billed"]
        many = await call("delegate_tasks", tasks=[{"task": "look"}, {"task": "fail"}])
        assert [row["status"] for row in many["delegations"]] == ["completed", "failed"]
        assert await call("get_delegation_result", id=one["id"]) == one
        rows = (await call("list_sub_agents"))["sub_agents"]
        assert {row["id"] for row in rows} == {one["id"], *(row["id"] for row in many["delegations"])}

        session = one["id"].partition(":")[0]
        receipts = (await client.read_resource(f"friday://{session}/receipts")).contents[0].text
        assert json.loads(receipts)["agents"][0]["receipt"]["tools"] == {"list_dir": 1}
        assert "list\\_dir" in (await client.read_resource(f"friday://{session}/a.1")).contents[0].text
        listed = {resource.uri for resource in (await client.list_resources()).resources}
        assert {f"friday://{session}/receipts", f"friday://{session}/a.1"} <= listed
        with pytest.raises(MCPError, match="no such resource"):
            await client.read_resource("friday://00000000/receipts")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("answer", "written", "said"),
    [
        ({"decision": "allow once"}, True, "Done."),
        ({"decision": "deny", "reason": "not this file"}, False, "not this file"),
        ("decline", False, "The user denied"),
        ({"decision": "always"}, False, "The user denied"),
    ],
)
async def test_a_question_of_a_sub_agent_reaches_the_person_at_the_client(
    harness: Harness, mode: str, answer: dict[str, Any] | str, written: bool, said: str
) -> None:
    write = does(("write_file", {"path": "new.txt", "content": "x"}))
    harness.plays(
        {"a.1": [does(("delegate_task", {"profile": "writer", "task": "write"})), DONE], "a.1.*": [write, DONE]}
    )
    harness.profile("lead", "subAgents: ['writer']", 'allowedTools: "*"')
    harness.profile("writer", 'allowedTools: "*"')
    asked, elicit = _person(answer)
    async with _served(harness, mode, elicitation_callback=elicit) as (client, _):
        made = await client.call_tool("delegate_task", {"profile": "lead", "task": "go"})
        session = made.structured_content["id"].partition(":")[0]
        assert said in (await client.read_resource(f"friday://{session}/a.1.1")).contents[0].text
    assert (harness.project / "new.txt").exists() == written
    assert "a.1.1 (writer) wants to use write_file:\nnew.txt" in asked[0].message
    assert asked[0].requested_schema["properties"]["decision"]["enum"] == ["allow once", "deny"]


async def test_without_a_person_sub_agents_only_read_and_no_call_raises_the_caps(harness: Harness) -> None:
    write = does(("write_file", {"path": "new.txt", "content": "x"}), ("list_dir", {"path": "."}))
    harness.plays({"a.*": [write, {"text": "Done.", "usage": {"input": 30_000, "output": 100}}]})
    harness.profile("writer", 'allowedTools: "*"')
    reports: list[str | None] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    async with _served(harness, "legacy", options={"max_tokens": 40_000, "profile": ("writer",)}) as (client, host):
        call = {"profile": "writer", "task": "go", "max_tokens": 1_000_000}
        made = (await client.call_tool("delegate_task", call, progress_callback=progress)).structured_content
        assert (made["receipt"]["denied"], made["receipt"]["tools"]) == (1, {"list_dir": 1})
        assert not (harness.project / "new.txt").exists()
        assert reports
        assert "tokens" in str(reports[0])
        left = host._settings.budget.left("tokens")
        assert made["server_budget_left"]["tokens"] == left < 10_000
        host._settings.budget.charge(int(left), 0.0)
        refused = await client.call_tool("delegate_task", call)
        assert refused.is_error
        assert "the tokens budget of friday mcp serve is used up" in refused.content[0].text
        wrong = await client.call_tool("delegate_task", {"profile": "researcher", "task": "go"})
        assert wrong.is_error
        assert "'researcher' is not one of ['writer']" in wrong.content[0].text


@pytest.mark.parametrize("name", ["max_cost", "timeout_s", "max_tokens"])
async def test_a_number_that_is_none_is_no_limit(harness: Harness, name: str) -> None:
    host = _host(harness)
    try:
        with pytest.raises(ToolError, match="Wrong arguments"):
            await host.call("delegate_task", {"task": "go", name: float("nan")}, Peer("peer"))
    finally:
        await host.delegations.close()


async def test_calls_at_the_same_moment_are_as_many_as_one_after_the_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.frontends.mcp_server.delegations.MAX_OPEN", 2)
    async with _served(harness) as (client, _):
        call = {"profile": "researcher", "task": "look"}
        made = await asyncio.gather(*(client.call_tool("delegate_task", call) for _ in range(5)))
    assert sorted(one.is_error for one in made) == [False, False, True, True, True]
    assert {one.content[0].text.partition("\n")[0] for one in made if one.is_error} == {
        "2 calls are running. Wait until one has ended, or cancel one."
    }


async def test_another_session_is_not_shown_to_a_client(harness: Harness, tmp_path: Path) -> None:
    harness.plays({"a": [does(("delegate_task", {"task": "mine"})), DONE], "a.*": [DONE]})
    mine = await harness.ran()  # a session of the person, with a sub-agent
    other = tmp_path / "other"
    other.mkdir()
    async with _served(harness, options={"cwd": str(other)}) as (client, _):
        elsewhere = (await client.call_tool("delegate_task", {"task": "look"})).structured_content["id"]
    async with _served(harness) as (client, _):
        assert (await client.call_tool("list_sub_agents", {})).structured_content == {"sub_agents": []}
        for name in (f"{mine.id}:a.1", elsewhere):
            for tool in ("get_delegation_result", "cancel_sub_agent", "apply_delegation"):
                refused = await client.call_tool(tool, {"id": name})
                assert refused.is_error
                assert "There is no sub-agent" in refused.content[0].text
            with pytest.raises(MCPError, match="no such resource"):
                await client.read_resource(f"friday://{name.replace(':', '/')}")


async def test_deep_inside_agents_of_friday_nothing_is_started(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.plays({"a.*": [does(("bash", {"command": "echo depth $FRIDAY_DEPTH trace $TRACEPARENT"})), DONE]})
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    harness.profile("runner", 'allowedTools: "*"')
    monkeypatch.setenv("FRIDAY_DEPTH", "1")
    async with _served(harness, options={"allow": ("bash",)}) as (client, _):
        call = {"profile": "runner", "task": "go"}
        made = (await client.call_tool("delegate_task", call, meta={"traceparent": trace})).structured_content
        session = made["id"].partition(":")[0]
        assert f"depth 3 trace {trace}" in (await client.read_resource(f"friday://{session}/a.1")).contents[0].text
    monkeypatch.setenv("FRIDAY_DEPTH", "3")
    async with _served(harness) as (client, _):
        refused = await client.call_tool("delegate_task", {"task": "go"})
    assert refused.is_error
    assert "FRIDAY_DEPTH=3" in refused.content[0].text


async def test_delegation_that_is_switched_off_is_the_reason_also_inside_agents_of_friday(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "config.toml").write_text("agents.delegation.enabled = false\n")
    monkeypatch.setenv("FRIDAY_DEPTH", "1")
    async with _served(harness) as (client, _):
        refused = await client.call_tool("delegate_task", {"task": "go"})
    assert refused.is_error
    assert "agents.delegation is switched off" in refused.content[0].text
    assert "friday config set agents.delegation.enabled true" in refused.content[0].text


def _make_repository(folder: Path) -> None:
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True)


async def test_a_worktree_is_applied_in_the_session_of_its_agent(harness: Harness) -> None:
    await asyncio.to_thread(_make_repository, harness.project)
    harness.plays({"a.*": [does(("write_file", {"path": "new.txt", "content": "x\n"})), DONE]})
    harness.profile("writer", 'allowedTools: "*"')
    asked, elicit = _person(*[{"decision": "allow once"}] * 2)
    async with _served(harness, options={"allow": ("write_file",)}, elicitation_callback=elicit) as (client, _):
        call = {"profile": "writer", "task": "go", "isolation": "worktree"}
        made = (await client.call_tool("delegate_task", call)).structured_content
        assert (made["worktree"]["state"], made["worktree"]["files"][0]["path"]) == ("changed", "new.txt")
        assert not (harness.project / "new.txt").exists()
        applied = await client.call_tool("apply_delegation", {"id": made["id"]})
        assert "Applied the changes of a.1" in applied.structured_content["text"]
        assert (harness.project / "new.txt").read_text() == "x\n"
        again = await client.call_tool("apply_delegation", {"id": made["id"]})
        assert again.is_error
    assert "apply_delegation" in asked[0].message


async def test_a_background_call_is_messaged_waited_for_cancelled_and_resumed(harness: Harness) -> None:
    gate = harness.project / "gate"
    wait = does(("bash", {"command": wait_for(gate)}))
    harness.plays({"a.*": [wait, DONE]})
    harness.profile("runner", 'allowedTools: "*"')
    async with _served(harness, options={"allow": ("bash",)}) as (client, _):
        call = {"profile": "runner", "task": "go", "background": True}
        first, second = [(await client.call_tool("delegate_task", call)).structured_content["id"] for _ in range(2)]
        sent = await client.call_tool("message_sub_agent", {"id": first, "text": "hurry #up"})
        assert sent.structured_content["status"] == "sent"
        stopped = await client.call_tool("cancel_sub_agent", {"id": second, "mode": "abort"})
        assert stopped.structured_content["status"] == "cancelled"
        gate.touch()
        done = await client.call_tool("get_delegation_result", {"id": first, "wait_s": 60})
        assert (done.structured_content["status"], done.structured_content["result"]) == ("completed", "Done.")
        text = (await client.read_resource(f"friday://{first.replace(':', '/')}")).contents[0].text
        assert "hurry #up" in text
        late = await client.call_tool("message_sub_agent", {"id": first, "text": "too late"})
        assert late.is_error
        assert "delegate_task(resume=...)" in late.content[0].text
        again = await client.call_tool("delegate_task", {"resume": second, "task": "go on"})
        assert (again.structured_content["id"], again.structured_content["status"]) == (second, "completed")


class Created(types.Result):
    """The result of a call that made a task."""

    result_type: Literal["task"] = "task"
    task_id: str


class TaskRequest(types.Request[dict[str, Any], str]):
    """A request of the tasks extension."""

    method: str
    params: dict[str, Any]


class Tasks(ClientExtension):
    """The tasks extension of a client: `states` are the tasks that it got; `act` may answer or cancel one."""

    identifier = TASKS

    def __init__(self, act: Callable[[Tasks, dict[str, Any]], Awaitable[None]]) -> None:
        self.states: list[dict[str, Any]] = []
        self._act = act
        self.send: Callable[..., Awaitable[dict[str, Any]]]

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._resolve)]

    async def _resolve(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        async def send(method: str, **params: Any) -> dict[str, Any]:
            request = TaskRequest(method=f"tasks/{method}", params={"taskId": created.task_id, **params})
            return await context.session.send_request(request, TypeAdapter(dict[str, Any]))

        self.send = send
        while True:
            state = await send("get")
            self.states.append(state)
            if state["status"] not in ("working", "input_required"):
                break
            await self._act(self, state)
        return types.CallToolResult.model_validate(state.get("result") or {"content": [], "isError": True})


async def test_a_task_asks_is_answered_and_cancelled(harness: Harness) -> None:
    harness.plays({"a.*": [does(("write_file", {"path": "new.txt", "content": "x"})), DONE]})
    harness.profile("writer", 'allowedTools: "*"')

    async def act(tasks: Tasks, state: dict[str, Any]) -> None:
        if state["status"] == "input_required":
            ((key, request),) = state["inputRequests"].items()
            assert request["method"] == "elicitation/create"
            content = {"decision": "allow once"}
            responses = {"unknown": {"action": "accept"}, key: {"action": "accept", "content": content}}
            if cancels:
                assert (await tasks.send("cancel"))["resultType"] == "complete"
            else:
                assert (await tasks.send("update", inputResponses=responses))["resultType"] == "complete"

    async def nobody(context: Any, params: Any) -> types.ElicitResult:
        raise AssertionError("a task is asked for, not asked")

    for cancels in (False, True):
        tasks = Tasks(act)
        async with _served(harness, elicitation_callback=nobody, extensions=[tasks]) as (client, host):
            made = await client.call_tool("delegate_task", {"profile": "writer", "task": "go"})
            last = tasks.states[-1]
            assert last["status"] == ("cancelled" if cancels else "completed")
            assert (last["pollIntervalMs"], last["ttlMs"]) == (1000, 90 * 86_400_000)
            if not cancels:
                assert made.structured_content["id"] == last["taskId"]
                assert (harness.project / "new.txt").read_text() == "x"
                (harness.project / "new.txt").unlink()
        stored = await host.delegations.find(last["taskId"], host._make)  # after the server's end
        assert stored is not None
        assert stored.state().status == last["status"]


@asynccontextmanager
async def _process(harness: Harness) -> Any:
    """The command as a process, and a function that sends it a request and returns the result."""
    harness.profile("runner", 'allowedTools: "*"')
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {TASKS: {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
    }
    words = ["-m", "friday_cli", "mcp", "serve", "--allow", "bash", "-m", f"scripted:{harness.scenario}"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=pipe, stdout=pipe, cwd=harness.project, limit=2**20
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reading, writing = process.stdout, process.stdin

    async def send(method: str, **params: Any) -> dict[str, Any]:
        frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        writing.write(json.dumps(frame).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await reading.readline())
        return answer["result"]

    yield process, send
    await process.wait()
    assert await reading.read() == b""  # nothing but frames
    writing.close()


async def test_the_task_of_a_killed_server_can_be_read_from_the_next_one(harness: Harness, tmp_path: Path) -> None:
    harness.plays({"a.*": [does(("bash", {"command": wait_for(tmp_path / "never")}))]})
    async with _process(harness) as (process, send):
        task = await send("tools/call", name="delegate_task", arguments={"profile": "runner", "task": "go"})
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert (await send("tasks/get", taskId=task["taskId"]))["status"] == "working"
        process.kill()
    async with _served(harness, extensions=[Tasks(_ignore)]) as (client, _):
        state = await _get(client, task["taskId"])
        with pytest.raises(MCPError, match="Unknown task"):
            await _get(client, "12345678-nothing")
        again = await client.call_tool("get_delegation_result", {"id": task["taskId"]})
    assert (state["status"], state["taskId"]) == ("failed", task["taskId"])
    assert "process" in state["error"]["message"]
    assert again.structured_content["status"] == "interrupted"


@pytest.mark.parametrize("answer", [{"result": None}, {}, {"result": "yes"}])
async def test_an_answer_without_a_result_is_a_denial(harness: Harness, answer: dict[str, Any]) -> None:
    harness.plays({"a.*": [does(("write_file", {"path": "new.txt", "content": "x"})), DONE]})
    harness.profile("writer", 'allowedTools: "*"')
    words = ["-m", "friday_cli", "mcp", "serve", "-m", f"scripted:{harness.scenario}"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=pipe, stdout=pipe, cwd=harness.project, limit=2**20
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def send(**frame: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0"} | frame).encode() + b"\n")

    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    send(id=1, method="initialize", params=client)
    assert json.loads(await process.stdout.readline())["id"] == 1
    send(method="notifications/initialized")
    send(id=2, method="tools/call", params={"name": "delegate_task", "arguments": {"profile": "writer", "task": "go"}})
    result = None
    while result is None:
        frame = json.loads(await process.stdout.readline())
        if frame.get("method") == "elicitation/create":
            send(id=frame["id"], **answer)
        elif frame.get("id") == 2:
            result = frame["result"]
    assert not (harness.project / "new.txt").exists()
    process.stdin.close()
    await process.wait()


async def test_a_signal_ends_the_server_and_what_it_runs(harness: Harness, tmp_path: Path) -> None:
    harness.plays({"a.*": [does(("bash", {"command": wait_for(tmp_path / "never")}))]})
    async with _process(harness) as (process, send):
        call = {"profile": "runner", "task": "go", "background": True}
        made = await send("tools/call", name="delegate_task", arguments=call)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    view = SessionView.of(await harness.log(made["structuredContent"]["id"].partition(":")[0]))
    assert view.agents["a.1"].status == "cancelled"


async def _get(client: Client, task: str) -> dict[str, Any]:
    request = TaskRequest(method="tasks/get", params={"taskId": task})
    return await client.session.send_request(request, TypeAdapter(dict[str, Any]))


async def _ignore(tasks: Tasks, state: dict[str, Any]) -> None:
    """Wait for the task."""


def test_the_view_of_a_served_session_reads_as_one_call(harness: Harness) -> None:
    """What `sessions show` prints is folded from the log of a real session."""

    async def run() -> SessionView:
        async with _served(harness, client_info=types.Implementation(name="claude-code", version="1")) as (client, _):
            made = await client.call_tool("delegate_task", {"task": "find retry logic"})
        session = made.structured_content["id"].partition(":")[0]
        return SessionView.of(await harness.log(session))

    view = asyncio.run(run())
    root = view.agents["a"]
    assert root.task == "find retry logic\n\n(delegate_task, called by claude-code)"
    assert [type(item).__name__ for item in root.transcript] == ["MessageItem", "ToolRun", "MessageItem"]
    assert root.transcript[-1].text == "The result was returned to claude-code."  # type: ignore[union-attr]
