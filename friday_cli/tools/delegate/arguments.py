"""The arguments of the delegation tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class TaskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task of a batch."""

    profile: Annotated[str, Meta(description="Name of the sub-agent, from the list in this tool's description.")]
    task: Annotated[
        str,
        Meta(
            min_length=1,
            description="The complete task. The sub-agent does not see this conversation: name files, limits and the "
            "form of the answer.",
        ),
    ]
    context: Annotated[str, Meta(description="Facts it needs and cannot find itself, such as earlier findings.")] = ""
    max_tokens: Annotated[Count | None, Meta(description="Lower token budget.")] = None
    max_iterations: Annotated[Count | None, Meta(description="Lower limit of turns.")] = None
    timeout_s: Annotated[Seconds | None, Meta(description="Lower limit of active seconds.")] = None
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="JSON Schema that its result must match, if you need data instead of prose."),
    ] = None
    isolation: Annotated[
        Literal["", "worktree"],
        Meta(description="worktree: it works in its own git worktree; you then apply or discard its changes."),
    ] = ""
    fork: Annotated[
        bool,
        Meta(description="Start it with a copy of this conversation, if the task needs all of it."),
    ] = False


class SingleTaskArguments(TaskArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    profile: Annotated[
        str, Meta(description="Name of the sub-agent, from the list in this tool's description. Empty with resume.")
    ] = ""
    background: Annotated[bool, Meta(description="Return at once; you are notified when it ends.")] = False
    resume: Annotated[
        str,
        Meta(
            description="Id of a finished sub-agent to resume: it keeps its conversation and gets `task` as its next message."
        ),
    ] = ""


class BatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[
        list[TaskArguments], Meta(min_length=1, description="Independent tasks; results are in this order.")
    ]


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


Id = Annotated[str, Meta(description="Id of the sub-agent, such as a.2.")]


class ResultArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Id
    offset: Annotated[int, Meta(ge=0, description="First character to return, for a long result.")] = 0


class MessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Id
    text: Annotated[str, Meta(min_length=1, description="What it should know or do differently.")]


class CancelArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Id
    mode: Annotated[
        Literal["cancel", "abort"],
        Meta(description="cancel: it may return what it has in one last turn; abort: it stops now."),
    ] = "cancel"
