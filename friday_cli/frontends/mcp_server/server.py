"""Serves a `ToolHost` over MCP, in both eras of the protocol: with a handshake, and stateless (2026-07-28).

A long call ends in one of three ways. A client of the tasks extension gets a task, and asks for its state. A stateless
client gets questions as the result of its request, and repeats the request with the answers. Any other client waits,
gets progress at least every `PROGRESS_S` seconds, and is sent questions as elicitation requests.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any, Literal

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError

from .job import Action, Client, Job, JobState, Question, ToolHost

TASKS = "io.modelcontextprotocol/tasks"
POLL_MS = 1000
PROGRESS_S = 4.0
LIST_TTL_MS = 3_600_000
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Context = ServerRequestContext[Any, Any]


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class TaskAnswers(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] | None = None


def build_server(host: ToolHost) -> Server[Any]:
    """The MCP server of `host`."""
    handlers = _Handlers(host)
    server: Server[Any] = Server(
        "friday",
        version=__version__,
        title="Friday",
        instructions=host.instructions,
        cache_hints={"tools/list": CacheHint(LIST_TTL_MS), "resources/templates/list": CacheHint(LIST_TTL_MS)},
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,  # type: ignore[arg-type]  # a task is the result of an extension
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
    )
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, handlers.get_task)
    server.add_request_handler("tasks/update", TaskAnswers, handlers.update_task)
    server.add_request_handler("tasks/cancel", TaskParams, handlers.cancel_task)
    return server


class _Handlers:
    def __init__(self, host: ToolHost) -> None:
        self._host = host

    async def list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(await self._host.tools()))

    async def list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=list(await self._host.resources()))

    async def list_resource_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(self._host.resource_templates()))

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            found = await self._host.read(params.uri)
        except FridayError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        if found is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": params.uri})
        content = types.TextResourceContents(uri=params.uri, mime_type=found[0], text=found[1])
        return types.ReadResourceResult(contents=[content])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        client = _client(ctx)
        made: types.CallToolResult | Job
        if params.request_state is not None:
            made = await self._known(params.request_state)
            await _take_answers(made, params.input_responses or {})
        else:
            try:
                made = await self._host.call(params.name, params.arguments or {}, client)
            except KeyError:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}") from None
            except FridayError as error:
                return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        if isinstance(made, types.CallToolResult):
            return made
        if client.tasks and made.as_task and made.state().result is None:
            return _task(made.id, made.state(), "task")
        return await self._foreground(ctx, client, made)

    async def _foreground(self, ctx: Context, client: Client, job: Job) -> HandlerResult:
        """Wait for a job. The job is abandoned if the request is cancelled."""
        asked: dict[str, asyncio.Task[None]] = {}
        loop = asyncio.get_running_loop()
        count, reported, said = 0, loop.time(), ""
        try:
            while (state := job.state()).status == "working":
                if state.questions and client.modern:
                    requests: types.InputRequests = {q.id: _elicitation(q) for q in state.questions}
                    return types.InputRequiredResult(input_requests=requests, request_state=job.id)
                for question in state.questions:
                    if question.id not in asked:
                        asked[question.id] = asyncio.create_task(_elicit(ctx, job, question))
                for name in asked.keys() - {question.id for question in state.questions}:
                    asked[name].cancel()  # withdrawn
                if loop.time() - reported >= (1 if state.message != said else PROGRESS_S) or not count:
                    count, reported, said = count + 1, loop.time(), state.message
                    await ctx.session.report_progress(count, message=state.message)
                await job.changed(1.0)
        except asyncio.CancelledError:
            await asyncio.shield(job.abandon())
            raise
        finally:
            for task in asked.values():
                task.cancel()
        if state.result is None:
            raise MCPError(types.INTERNAL_ERROR, state.error)
        return state.result

    async def get_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        _require_tasks(ctx)
        job = await self._known(params.task_id)
        return _task(job.id, job.state(), "complete")

    async def update_task(self, ctx: Context, params: TaskAnswers) -> HandlerResult:
        _require_tasks(ctx)
        await _take_answers(await self._known(params.task_id), params.input_responses or {})
        return {"resultType": "complete"}

    async def cancel_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        _require_tasks(ctx)
        await (await self._known(params.task_id)).cancel()
        return {"resultType": "complete"}

    async def _known(self, job_id: str) -> Job:
        try:
            job = await self._host.job(job_id)
        except FridayError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        if job is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown task: {job_id[:100]}")
        return job


def _client(ctx: Context) -> Client:
    able, params = ctx.session.client_capabilities or types.ClientCapabilities(), ctx.session.client_params
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    elicits = able.elicitation is not None and (able.elicitation.form is not None or able.elicitation.url is None)
    trace = str((ctx.meta or {}).get("traceparent", ""))
    return Client(
        params.client_info.name if params else "unknown",
        modern=modern,
        elicits=elicits,
        tasks=modern and TASKS in (able.extensions or {}),
        traceparent=trace if _TRACEPARENT.fullmatch(trace) else "",
    )


def _require_tasks(ctx: Context) -> None:
    if not _client(ctx).tasks:
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"The client must declare {TASKS}.", needed)


def _elicitation(question: Question) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
    return types.ElicitRequest(params=params)


async def _elicit(ctx: Context, job: Job, question: Question) -> None:
    """Ask the client's person. If the client cannot, the answer is no."""
    try:
        answer = await ctx.session.elicit_form(question.message, question.schema, ctx.request_id)
    except (MCPError, ValueError):
        await job.answer(question.id, "cancel", {})
    else:
        await job.answer(question.id, answer.action, answer.content or {})


async def _take_answers(job: Job, answers: dict[str, Any]) -> None:
    """Give a job the answers of a client. Anything that does not answer an open question is ignored."""
    for name, given in answers.items():
        answer = given.model_dump() if isinstance(given, types.ElicitResult) else given
        action = answer.get("action") if isinstance(answer, dict) else None
        if action in ("accept", "decline", "cancel"):
            content = answer.get("content")
            known: Action = action
            await job.answer(name, known, content if isinstance(content, dict) else {})


def _task(job_id: str, state: JobState, kind: Literal["task", "complete"]) -> dict[str, Any]:
    """A task on the wire: as the result of the call that made it, or with all details as the result of `tasks/get`."""
    asks = state.status == "working" and bool(state.questions)
    task: dict[str, Any] = {
        "resultType": kind,
        "taskId": job_id,
        "status": "input_required" if asks else state.status,
        "statusMessage": state.message,
        "createdAt": _iso(state.created),
        "lastUpdatedAt": _iso(state.updated),
        "ttlMs": state.ttl_ms,
        "pollIntervalMs": POLL_MS,
    }
    if kind == "task":
        return task | {"status": "working"}
    if asks:
        task["inputRequests"] = {
            q.id: _elicitation(q).model_dump(by_alias=True, mode="json", exclude_none=True) for q in state.questions
        }
    if state.status == "completed" and state.result is not None:
        task["result"] = state.result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if state.status == "failed":
        task["error"] = {"code": types.INTERNAL_ERROR, "message": state.error}
    return task


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
