"""What the MCP server knows of a long call: a job with a state, questions for a person, and a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Resource, ResourceTemplate, Tool

Action = Literal["accept", "decline", "cancel"]


class Client(msgspec.Struct, frozen=True):
    """The program that calls. `modern`: it speaks 2026-07-28 or later, so that questions are the result of its request.
    `elicits`: it can ask its person. `tasks`: it takes a task in place of a result. `traceparent`: the trace that its
    request belongs to, "" for none."""

    name: str
    modern: bool = False
    elicits: bool = False
    tasks: bool = False
    traceparent: str = ""


class Question(msgspec.Struct, frozen=True):
    """A question for the client's person. `schema`: the form of the answer, as elicitation takes it."""

    id: str
    message: str
    schema: dict[str, Any]


class JobState(msgspec.Struct, frozen=True):
    """A job now. `message`: what it does, in one line. Times are Unix seconds; `ttl_ms`: how long it can be read, None for
    ever. `result` is set once it has ended, unless it was lost, and then `error` says why."""

    status: Literal["working", "completed", "failed", "cancelled"]
    message: str
    created: float
    updated: float
    ttl_ms: int | None = None
    questions: tuple[Question, ...] = ()
    result: CallToolResult | None = None
    error: str = ""


class Job(Protocol):
    """A call that runs, or has ended. `as_task`: its id can be handed out as that of a task."""

    id: str
    as_task: bool

    def state(self) -> JobState: ...

    async def changed(self, timeout_s: float) -> None:
        """Return after the next change of the state, or after `timeout_s` seconds."""

    async def answer(self, question: str, action: Action, content: dict[str, Any]) -> None:
        """Answer a question; nothing happens if it is not open. Returns when the state has the answer."""

    async def cancel(self) -> None:
        """Ask the job to end with what it has. Returns at once."""

    async def abandon(self) -> None:
        """The client does not wait for the job any longer."""


class ToolHost(Protocol):
    """What a server serves. Methods raise FridayError with a message for the client's model."""

    instructions: str

    async def tools(self) -> Sequence[Tool]: ...

    async def call(self, name: str, arguments: dict[str, Any], client: Client) -> CallToolResult | Job:
        """Call a tool. Raises KeyError for an unknown one."""

    async def job(self, job_id: str) -> Job | None:
        """The job of an id that was handed out, also by an earlier process; None for an unknown id."""

    async def resources(self) -> Sequence[Resource]: ...

    def resource_templates(self) -> Sequence[ResourceTemplate]: ...

    async def read(self, uri: str) -> tuple[str, str] | None:
        """The media type and the text of a resource; None if there is none."""
