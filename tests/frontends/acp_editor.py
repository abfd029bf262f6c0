"""A client of `friday acp` in this process, over pipes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from friday_cli.frontends.acp.agent import AcpAgent
from friday_cli.frontends.acp.run import StdioChannel
from friday_cli.session.session import Options

Answer = Callable[[dict[str, Any]], Any]


class Client:
    """The other end. `frames` are all messages that came; requests are answered by `answers`, by method."""

    def __init__(self, out: int, back: int, answers: dict[str, Answer]) -> None:
        self._out, self._back, self._answers = out, os.fdopen(back, "rb"), answers
        self.frames: list[dict[str, Any]] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._came = asyncio.Event()

    async def read(self) -> None:
        while line := await asyncio.to_thread(self._back.readline):
            frame = json.loads(line)
            self.frames.append(frame)
            self._came.set()
            if "method" not in frame:
                if frame["id"] is not None:
                    self._waiting.pop(frame["id"]).set_result(frame)
            elif "id" in frame:
                answer = self._answers[frame["method"]](frame["params"])
                if answer is not None:
                    self.send({"id": frame["id"], **answer})

    def send(self, message: dict[str, Any]) -> None:
        os.write(self._out, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request now; the future is the whole answer."""
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self.send({"id": self._number, "method": method, "params": params})
        return future

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer."""
        return await asyncio.wait_for(self.ask(method, **params), 15)

    async def new(self, cwd: Path, **more: Any) -> str:
        found = await self.call("session/new", cwd=str(cwd), mcpServers=[], **more)
        return str(found["result"]["sessionId"])

    async def prompt(self, session: str, text: str = "go") -> dict[str, Any]:
        return await self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def updates(self, kind: str = "", session: str = "") -> list[dict[str, Any]]:
        """The updates so far, of one kind and one session."""
        found = [frame["params"] for frame in self.frames if frame.get("method") == "session/update"]
        rows = [one for one in found if not session or one["sessionId"] == session]
        return [one["update"] for one in rows if not kind or one["update"]["sessionUpdate"] == kind]

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [frame["params"] for frame in self.frames if frame.get("method") == method]

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(15):
            while not met():
                self._came.clear()
                await self._came.wait()


GO = [{"type": "text", "text": "go"}]
SUBAGENTS = {"subagents": {}, "elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}}}


def chosen(option: str) -> Answer:
    return lambda _: {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


@asynccontextmanager
async def editor(
    project: Path, play: dict[str, Any], *, can: dict[str, Any] | None = None, **answers: Answer
) -> AsyncIterator[Client]:
    """A client of an agent whose model plays `play`."""
    scenario = project.parent / "play.json"
    scenario.write_text(json.dumps({"agents": play, "price": {"input": 1.0, "output": 1.0}}), encoding="utf-8")
    (theirs, ours), (back, sink) = os.pipe(), os.pipe()
    names = {"permission": "session/request_permission", "question": "elicitation/create"}
    with os.fdopen(theirs, "rb") as source, os.fdopen(sink, "wb", buffering=0) as out:
        agent = AcpAgent(Options(project, model=f"scripted:{scenario}"), StdioChannel(source, out))
        client = Client(ours, back, {names[name]: answer for name, answer in answers.items()})
        serving, reading = asyncio.create_task(agent.connection.serve()), asyncio.create_task(client.read())
        try:
            await client.call("initialize", protocolVersion=1, clientCapabilities=SUBAGENTS if can is None else can)
            yield client
        finally:
            os.close(ours)
            await serving
            await agent.close()
    await reading
    client._back.close()


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def delegates(task: str, profile: str = "general", **more: Any) -> dict[str, Any]:
    return calls("delegate_task", profile=profile, task=task, **more)
