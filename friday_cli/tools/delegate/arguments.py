"""What models write into calls of the delegation tools."""

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
            description="The complete task. The sub-agent sees nothing of this conversation: name files, limits and "
            "the form of the answer you need.",
        ),
    ]
    context: Annotated[str, Meta(description="Facts it needs and cannot find itself, such as earlier findings.")] = ""
    max_tokens: Annotated[Count | None, Meta(description="Lower its token budget to this.")] = None
    max_iterations: Annotated[Count | None, Meta(description="Lower its number of turns to this.")] = None
    timeout_s: Annotated[Seconds | None, Meta(description="Lower its time to so many active seconds.")] = None
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="JSON Schema that its result must fit, when you need data and not prose."),
    ] = None
    isolation: Annotated[
        Literal["", "worktree"],
        Meta(description="worktree: it works in a git worktree of its own; you then apply or discard its changes."),
    ] = ""
    fork: Annotated[
        bool,
        Meta(description="Start it from this conversation instead of an empty one, when the task needs all of it."),
    ] = False


class SingleTaskArguments(TaskArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `delegate_task`."""

    profile: Annotated[
        str, Meta(description="Name of the sub-agent, from the list in this tool's description. Empty with resume.")
    ] = ""
    background: Annotated[
        bool, Meta(description="Return at once; you are told when it has ended. For work you need not wait for.")
    ] = False
    resume: Annotated[
        str,
        Meta(
            description="Id of a sub-agent that ended: it goes on with its conversation, and `task` as what to do next."
        ),
    ] = ""


class BatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[
        list[TaskArguments], Meta(min_length=1, description="Independent tasks; their results come in this order.")
    ]


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `list_sub_agents`: none."""


Id = Annotated[str, Meta(description="The sub-agent's id, such as a.2")]


class ResultArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `get_delegation_result`."""

    id: Id
    offset: Annotated[int, Meta(ge=0, description="Character to start from, for a long result.")] = 0


class MessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `message_sub_agent`."""

    id: Id
    text: Annotated[str, Meta(min_length=1, description="What it should know or do differently.")]


class CancelArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `cancel_sub_agent`."""

    id: Id
    mode: Annotated[
        Literal["cancel", "abort"],
        Meta(description="cancel: it may hand back what it has in one last turn; abort: it ends now."),
    ] = "cancel"
