"""The arguments of the delegation tools."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ID_ALIASES, ToolArguments, adapt_timeout, decoded
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.tool import AS_ELSEWHERE
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.tool_catalog import DELEGATE_TASKS

DEFAULT_PROFILE = "general"
"""The profile of a task that names none."""
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class TaskArguments(ToolArguments, frozen=True, kw_only=True):
    """One task of a batch."""

    aliases: ClassVar = {
        "prompt": "task", "message": "task", "instruction": "task", "instructions": "task", "subagent_type": "profile",
        "agent_type": "profile", "agent": "profile", "agent_name": "profile", "max_turns": "max_iterations",
        "max_token_budget": "max_tokens", "token_budget": "max_tokens", "run_in_background": "background",
        "output_schema": "schema",
    }  # fmt: skip
    profile: Annotated[str, Meta(description="Its name in your list.")] = DEFAULT_PROFILE
    task: Annotated[str, Meta(min_length=1, description="The complete task.")]
    context: Annotated[str, Meta(description="Facts it cannot find itself.")] = ""
    max_tokens: Annotated[Count | None, Meta(description="Lower token budget.")] = None
    max_iterations: Annotated[Count | None, Meta(description="Lower limit of turns.")] = None
    max_depth: Annotated[Count | None, Meta(description="Lower limit of nesting.")] = None
    timeout_s: Annotated[Seconds | None, Meta(description="Lower limit of active seconds.")] = None
    schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of its result.")] = None
    isolation: Annotated[
        Literal["", "worktree"], Meta(description="In a git worktree; you then apply or discard its changes.")
    ] = ""
    fork: Annotated[bool, Meta(description="Give it a copy of this conversation.")] = False

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        adapt_timeout(sent)
        if sent.get("profile") == "":
            del sent["profile"]


class SingleTaskArguments(TaskArguments, frozen=True, kw_only=True):
    background: Annotated[bool, Meta(description="Return at once; its end is reported.")] = False
    resume: Annotated[str, Meta(description="Id of an ended one; `task` is its next message.")] = ""


class BatchArguments(ToolArguments, frozen=True):
    tasks: Annotated[
        list[TaskArguments],
        Meta(min_length=1, description="Fields as in delegate_task.", extra_json_schema=AS_ELSEWHERE),
    ]


class NoArguments(ToolArguments, frozen=True):
    pass


class ResultArguments(ToolArguments, frozen=True):
    aliases: ClassVar = ID_ALIASES
    id: Annotated[str, Meta(description="Such as a.2.")]
    offset: Annotated[int, Meta(ge=0, description="First character.")] = 0


class MessageArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**ID_ALIASES, "message": "text", "input": "text", "prompt": "text"}
    id: str
    text: Annotated[str, Meta(min_length=1)]


class CancelArguments(ToolArguments, frozen=True):
    aliases: ClassVar = ID_ALIASES
    id: str
    mode: Annotated[
        Literal["cancel", "abort"], Meta(description="cancel: one last turn to return what it has; abort: at once.")
    ] = "cancel"


def task_count(call: ToolCall) -> int:
    """The tasks that a call delegates."""
    tasks = decoded(call.arguments.get("tasks")) if call.name == DELEGATE_TASKS else None
    return len(tasks) if isinstance(tasks, list) else call.name in (DELEGATE_TASK, DELEGATE_TASKS)
