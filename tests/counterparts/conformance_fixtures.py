"""The tools that the server scenarios of the conformance package call by name, beside those of `friday mcp serve`."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from friday_cli.frontends.mcp_server.job import Action, Client, Job, JobState, Question
from friday_cli.frontends.mcp_server.server import TASKS
from friday_cli.frontends.mcp_server.tools import FridayTools

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
        "0000000049454e44ae426082"
    )
).decode()
SOUND = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
).decode()
TEXT = types.TextContent(text="This is a simple text response for testing.")
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")
RESOURCE = types.EmbeddedResource(
    resource=types.TextResourceContents(
        uri="test://embedded-resource", mime_type="text/plain", text="An embedded resource."
    )
)
CONTENT: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [TEXT],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=SOUND, mime_type="audio/wav")],
    "test_embedded_resource": [RESOURCE],
    "test_multiple_content_types": [TEXT, IMAGE, RESOURCE],
}
ANY: dict[str, Any] = {"type": "object", "properties": {}}
ONE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WHO = {
    "type": "object",
    "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
    "required": ["username", "email"],
}
YES = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}


class FixtureJob:
    """A job that `work` does. Its exception `ValueError` is the tool's error, any other one the loss of the job."""

    def __init__(self, work: Callable[[FixtureJob], Awaitable[str]], *, as_task: bool = True) -> None:
        self.id, self.as_task = str(uuid.uuid4()), as_task
        now = time.time()
        self._state = JobState("working", "started", now, now, ttl_ms=3_600_000)
        self._open: dict[str, tuple[Question, asyncio.Future[dict[str, Any]]]] = {}
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run(work))

    def state(self) -> JobState:
        return self._set(questions=tuple(question for question, _ in self._open.values()), quiet=True)

    async def changed(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            pass
        self._news.clear()

    async def answer(self, question: str, action: Action, content: dict[str, Any]) -> None:
        if question in self._open:
            self._open.pop(question)[1].set_result({"action": action, "content": content})
            await asyncio.sleep(0)
            self._news.set()

    async def cancel(self) -> None:
        self._task.cancel()

    async def abandon(self) -> None:
        self._task.cancel()

    async def ask(self, message: str, schema: dict[str, Any], name: str = "") -> dict[str, Any]:
        """The answer of the client's person. `name`: the id of the question, else any."""
        question = Question(name or str(uuid.uuid4()), message, schema)
        self._open[question.id] = question, asyncio.get_running_loop().create_future()
        self._news.set()
        return await self._open[question.id][1]

    def say(self, message: str) -> None:
        """Change what the job shows."""
        self._set(message=message)

    def _set(self, *, quiet: bool = False, **changes: Any) -> JobState:
        fields = {name: getattr(self._state, name) for name in JobState.__struct_fields__}
        self._state = JobState(**(fields | changes | ({} if quiet else {"updated": time.time()})))
        if not quiet:
            self._news.set()
        return self._state

    async def _run(self, work: Callable[[FixtureJob], Awaitable[str]]) -> None:
        try:
            text = await work(self)
            self._set(status="completed", result=types.CallToolResult(content=[types.TextContent(text=text)]))
        except asyncio.CancelledError:
            self._set(status="cancelled")
        except ValueError as error:
            failed = types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
            self._set(status="completed", result=failed)
        except Exception as error:
            self._set(status="failed", error=str(error))


class FixtureTools:
    """`friday_tools` with the fixture tools beside its own."""

    def __init__(self, friday_tools: FridayTools) -> None:
        self.instructions = friday_tools.instructions
        self._friday = friday_tools
        self._jobs: dict[str, FixtureJob] = {}
        self._schemas = dict.fromkeys((*CONTENT, *DIRECT, *JOBS, *ASKS_FIRST, "test_missing_capability"), ANY)
        self._schemas["greet"] = ONE

    async def tools(self) -> Sequence[types.Tool]:
        mine = [
            types.Tool(name=n, description=f"Fixture {n}.", input_schema=s) for n, s in sorted(self._schemas.items())
        ]
        return [*await self._friday.tools(), *mine]

    async def call(self, name: str, arguments: dict[str, Any], client: Client) -> types.CallToolResult | Job:
        if name in CONTENT:
            return types.CallToolResult(content=CONTENT[name])
        if name in DIRECT:
            return DIRECT[name](arguments)
        if name == "test_missing_capability":
            raise _missing({"sampling": {}})
        if name == "failing_job" and not client.tasks:
            raise _missing({"extensions": {TASKS: {}}})
        if name in ASKS_FIRST:
            return self._keep(FixtureJob(_asks_first, as_task=False))
        if name in JOBS:
            return self._keep(FixtureJob(lambda job: JOBS[name](job, arguments)))
        return await self._friday.call(name, arguments, client)

    async def job(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id) or await self._friday.job(job_id)

    async def resources(self) -> Sequence[types.Resource]:
        return await self._friday.resources()

    def resource_templates(self) -> Sequence[types.ResourceTemplate]:
        return self._friday.resource_templates()

    async def read(self, uri: str) -> tuple[str, str] | None:
        return await self._friday.read(uri)

    def _keep(self, job: FixtureJob) -> FixtureJob:
        self._jobs[job.id] = job
        return job


def _missing(capabilities: dict[str, Any]) -> MCPError:
    data = {"requiredCapabilities": capabilities}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "A capability is missing.", data)


def _fails(arguments: dict[str, Any]) -> types.CallToolResult:
    text = "This tool intentionally returns an error for testing"
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _greets(arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=f"Hello, {arguments.get('name', 'World')}!")])


async def _computes(job: FixtureJob, arguments: dict[str, Any]) -> str:
    await asyncio.sleep(float(arguments.get("seconds", 1)))
    return f"Computed {arguments.get('label', '')}."


async def _progresses(job: FixtureJob, arguments: dict[str, Any]) -> str:
    for part in (0, 50, 100):
        job.say(f"{part} of 100")
        await asyncio.sleep(1.2)
    return "Done."


async def _error_job(job: FixtureJob, arguments: dict[str, Any]) -> str:
    await asyncio.sleep(1)
    raise ValueError("The job failed.")


async def _lost_job(job: FixtureJob, arguments: dict[str, Any]) -> str:
    await asyncio.sleep(1)
    raise RuntimeError("The job was lost.")


async def _confirms(job: FixtureJob, arguments: dict[str, Any]) -> str:
    return f"Deleted: {(await job.ask('Delete it?', YES))['content']}"


async def _asks_two(job: FixtureJob, arguments: dict[str, Any]) -> str:
    answers = await asyncio.gather(job.ask("Your name?", ONE), job.ask("Really?", YES))
    return f"Answers: {[answer['content'] for answer in answers]}"


async def _elicits(job: FixtureJob, arguments: dict[str, Any]) -> str:
    return f"User response: {await job.ask(str(arguments.get('message', '')), WHO)}"


async def _asks_first(job: FixtureJob) -> str:
    answer = await job.ask("Your name?", ONE, "user_name")
    job.as_task = True
    await asyncio.sleep(1)
    return f"Hello, {answer['content'].get('name')}!"


ASKS_FIRST = ("test_tool_with_task", "test_input_required_result_elicitation")
DIRECT = {"test_error_handling": _fails, "greet": _greets, "test_logging_tool": _greets}
JOBS: dict[str, Callable[[FixtureJob, dict[str, Any]], Awaitable[str]]] = {
    "slow_compute": _computes, "test_tool_with_progress": _progresses, "failing_job": _error_job,
    "protocol_error_job": _lost_job, "confirm_delete": _confirms, "multi_input": _asks_two,
    "test_elicitation": _elicits, "test_streaming_elicitation": _elicits,
}  # fmt: skip
