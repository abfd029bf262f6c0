"""The extension `io.modelcontextprotocol/tasks`: a call whose result comes later is polled until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError

from .connection import ServerCall

POLL_MS, FASTEST_MS, SLOWEST_MS = 1_000, 50, 60_000
"""Milliseconds between two polls: if the server names none, at least, and at most."""
CANCEL_S = 2.0
"""Seconds that cancelling a task may take."""
_REQUESTS: dict[str, type[types.InputRequest]] = {
    "elicitation/create": types.ElicitRequest,
    "roots/list": types.ListRootsRequest,
    "sampling/createMessage": types.CreateMessageRequest,
}


class TaskCreated(types.Result):
    """The answer to a call that continues as a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str = "working"
    status_message: str | None = None
    poll_interval_ms: int | None = None


class TaskState(types.Result):
    """The answer to `tasks/get`; the answers to the other requests leave all fields out."""

    status: str = ""
    status_message: str | None = None
    poll_interval_ms: int | None = None
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _Get(types.Request[dict[str, Any], Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: dict[str, Any]
    name_param = "taskId"


class _Update(types.Request[dict[str, Any], Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: dict[str, Any]
    name_param = "taskId"


class _Cancel(types.Request[dict[str, Any], Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: dict[str, Any]
    name_param = "taskId"


class Tasks(ClientExtension):
    """Declares the extension. A task ends with the call that created it: a cancelled call cancels its task."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, call_of: Callable[[], ServerCall | None]) -> None:
        self._call_of = call_of

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=TaskCreated, resolve=self._resolve),)

    async def _resolve(self, created: TaskCreated, context: ClaimContext) -> types.CallToolResult:
        task = {"taskId": created.task_id}
        call, session = self._call_of(), context.session
        answered: set[str] = set()
        wait_ms = created.poll_interval_ms
        try:
            while True:
                state = await session.send_request(_Get(params=task), TaskState)
                if call is not None:
                    call.progress(state.status_message or "")
                if (ended := _ended(state)) is not None:
                    return ended
                requests = state.input_requests or {}
                fresh = {key: request for key, request in requests.items() if key not in answered}
                if state.status == "input_required" and fresh:
                    answers = {key: await self._answer(context, key, request) for key, request in fresh.items()}
                    answered |= fresh.keys()
                    await session.send_request(_Update(params={**task, "inputResponses": answers}), TaskState)
                    continue
                wait_ms = state.poll_interval_ms or wait_ms or POLL_MS
                await asyncio.sleep(min(max(wait_ms, FASTEST_MS), SLOWEST_MS) / 1000)
        except asyncio.CancelledError:
            with anyio.move_on_after(CANCEL_S, shield=True):
                await session.send_request(_Cancel(params=task), TaskState)
            raise

    async def _answer(self, context: ClaimContext, key: str, request: Any) -> dict[str, Any]:
        """The answer to one request of a task. Raises MCPError where it is of a kind that is not offered."""
        about = ClientRequestContext(session=context.session, request_id=key, meta=None)
        kind = _REQUESTS.get(request.get("method", "") if isinstance(request, dict) else "")
        if kind is None:
            raise MCPError(types.METHOD_NOT_FOUND, "The task asked for something that is not offered.")
        answer = await context.session.dispatch_input_request(about, kind.model_validate(request, by_name=False))
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _ended(state: TaskState) -> types.CallToolResult | None:
    """The result of a task that has ended. Raises MCPError for one that failed."""
    if state.status == "completed":
        return types.CallToolResult.model_validate(state.result or {"content": []}, by_name=False)
    if state.status == "failed":
        error = state.error or {}
        raise MCPError(int(error.get("code", types.INTERNAL_ERROR)), str(error.get("message") or "The task failed."))
    if state.status == "cancelled":
        raise MCPError(types.INTERNAL_ERROR, "The server cancelled the task.")
    return None
