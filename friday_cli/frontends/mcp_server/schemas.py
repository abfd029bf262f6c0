"""The tools that clients see: descriptions, and JSON Schemas of their arguments and results."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool, ToolAnnotations

Schema = dict[str, Any]


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(kind: str) -> Schema:
    return {"type": [kind, "null"]}


def _value(kind: str, description: str, **limits: Any) -> Schema:
    return {"type": kind, **limits, "description": description}


def _text(description: str) -> Schema:
    return _value("string", description)


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
_ID = _text("Id of the sub-agent, as returned: SESSION:a.1.")
_LEFT = _object({"tokens": _or_null("integer"), "cost_usd": _or_null("number")})
_FILE = _object({"path": STRING, "added": INTEGER, "removed": INTEGER, "seen": STRING}, "path")
_COMMAND = _object(
    {"command": STRING, "exit_code": _or_null("integer"), "timed_out": BOOLEAN, "running": BOOLEAN},
    "command",
    "exit_code",
)
_RECEIPT = _object(
    {
        "tools": {"type": "object", "additionalProperties": INTEGER}, "failed": INTEGER, "denied": INTEGER,
        "files": _list(_FILE), "commands": _list(_COMMAND), "urls": _list(STRING), "warnings": _list(STRING),
        "not_known": _list(STRING),
    },
    "tools", "files", "commands", "urls", "warnings",
)  # fmt: skip
_USAGE = _object(dict.fromkeys(("input", "cache_read", "cache_write", "output", "billed"), INTEGER), "billed")
_FINDING = _object({"claim": STRING, "evidence": STRING, "seen": BOOLEAN}, "claim", "evidence", "seen")
_WORKTREE = _object({"branch": STRING, "state": STRING, "files": _list(_FILE)}, "branch", "state", "files")
_SUB_AGENT = _object({"id": STRING, "profile": STRING, "status": STRING}, "id", "profile", "status")
AGENT = _object(
    {
        "id": STRING, "profile": STRING, "status": STRING, "reason": STRING, "error": STRING, "result": STRING,
        "data": {"description": "The result as JSON, where the task had a schema."},
        "truncated": BOOLEAN, "result_chars": INTEGER, "partial": BOOLEAN, "note": STRING, "findings": _list(_FINDING),
        "receipt": _RECEIPT, "usage": _USAGE, "cost_usd": _or_null("number"), "duration_s": NUMBER,
        "budget_left": _LEFT, "server_budget_left": _LEFT, "worktree": _WORKTREE, "sub_agents": _list(_SUB_AGENT),
    },
    "id", "profile", "status", "reason", "result", "receipt", "usage", "cost_usd", "budget_left",
)  # fmt: skip
_STATE = _object({"id": STRING, "status": STRING, "text": STRING}, "id", "status", "text")
_PROFILE = _object(
    {
        "name": STRING, "description": STRING, "tools": _list(STRING), "model": STRING, "max_tokens": INTEGER,
        "max_cost": _or_null("number"), "timeout_s": _or_null("number"), "price_of_full_budget": _or_null("number"),
        "delegates_to": STRING,
    },
    "name", "description", "tools", "max_tokens",
)  # fmt: skip
_ROW = _object(
    {
        "id": STRING, "profile": STRING, "status": STRING, "task": STRING, "tokens": INTEGER,
        "cost_usd": _or_null("number"), "started": STRING,
    },
    "id", "profile", "status", "task",
)  # fmt: skip
_BACKGROUND = _value("boolean", "Return an id at once; read the result later with get_delegation_result.")
_COST = _value("number", "Most US dollars. Can only lower the caps.", exclusiveMinimum=0)


def _task(profiles: list[str]) -> Schema:
    return {
        "profile": _value("string", "Who does it; list_profiles describes them.", enum=profiles),
        "task": _text(
            "The complete task. The sub-agent does not see this conversation: name files, limits and the form of the answer."
        ),
        "context": _text("Facts it needs and cannot find itself."),
        "max_tokens": _value("integer", "Most tokens. Can only lower the profile's budget.", minimum=1),
        "timeout_s": _value("number", "Most active seconds.", exclusiveMinimum=0, maximum=86_400),
        "schema": _value("object", "JSON Schema that the result must match, if you need data."),
        "isolation": _value(
            "string",
            "worktree: it works in its own git worktree; then apply_delegation or discard_delegation.",
            enum=["", "worktree"],
        ),
    }


_RESULTS = _object({"delegations": _list(AGENT), "not_started": _list(STRING)}, "delegations")
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def tools(profiles: list[str]) -> list[Tool]:
    """The tools of a server that offers `profiles`, always in the same order."""
    return [*_delegating(profiles), *_READING, *_ACTING]


def _delegating(profiles: list[str]) -> list[Tool]:
    one = _task(profiles) | {
        "max_cost": _COST,
        "background": _BACKGROUND,
        "resume": _text("Id of an ended sub-agent: it keeps its conversation, and `task` is its next message."),
    }
    many = {
        "tasks": _list(_object(_task(profiles), "task")) | {"minItems": 1},
        "max_cost": _COST | {"description": "Most US dollars for all tasks. Can only lower the caps."},
        "background": _BACKGROUND,
    }
    return [
        Tool(
            name="list_profiles",
            annotations=_READS,
            input_schema=_object({}),
            description="The kinds of sub-agents: what each is for, its tools, limits, model and the price of its full budget.",
            output_schema=_object({"profiles": _list(_PROFILE), "server_budget_left": _LEFT}, "profiles"),
        ),
        Tool(
            name="delegate_task",
            input_schema=_object(one, "task"),
            output_schema=AGENT,
            description="Delegate a self-contained task to a sub-agent with its own context, tools and budget, and wait for its"
            " result. It comes with a receipt: the tools, files, commands and URLs that Friday itself saw.",
        ),
        Tool(
            name="delegate_tasks",
            input_schema=_object(many, "tasks"),
            output_schema=_RESULTS,
            description="Delegate independent tasks to sub-agents that work at the same time, and wait for all. Results are in"
            " the order of the tasks; a failed task does not affect the others.",
        ),
    ]


_READING = (
    Tool(
        name="list_sub_agents",
        annotations=_READS,
        input_schema=_object({}),
        description="The newest sub-agents of this folder, also those of earlier servers: id, profile, status, task, cost.",
        output_schema=_object({"sub_agents": _list(_ROW)}, "sub_agents"),
    ),
    Tool(
        name="get_delegation_result",
        annotations=_READS,
        description="Read the result of a sub-agent again, or the rest of a long one (offset). wait_s waits until it has ended.",
        input_schema=_object(
            {
                "id": _ID,
                "offset": _value("integer", "First character to return.", minimum=0),
                "wait_s": _value("number", "Seconds to wait until it has ended.", minimum=0, maximum=3600),
            },
            "id",
        ),
        output_schema=_object({**AGENT["properties"], **_RESULTS["properties"]}),
    ),
)
_ACTING = (
    Tool(
        name="message_sub_agent", output_schema=_STATE,
        description="Send a message to a running sub-agent; it reads it at its next turn. Resume an ended one with"
        " delegate_task(resume=...) instead.",
        input_schema=_object({"id": _ID, "text": _text("What it should know or do.")}, "id", "text"),
    ),
    Tool(
        name="cancel_sub_agent", output_schema=AGENT,
        description="Stop a sub-agent and all its sub-agents. Its partial result is kept and returned.",
        input_schema=_object(
            {
                "id": _ID,
                "mode": _value(
                    "string", "cancel: it returns what it has in one last turn; abort: it stops now.", enum=["cancel", "abort"]
                ),
            },
            "id",
        ),
    ),
    Tool(
        name="apply_delegation", input_schema=_object({"id": _ID}, "id"), output_schema=_STATE,
        description="Apply the changes of a sub-agent that worked in its own worktree to the folder: all of them, or none if"
        " files conflict.",
    ),
    Tool(
        name="discard_delegation", output_schema=_STATE, annotations=ToolAnnotations(destructive_hint=True),
        description="Discard the worktree of a sub-agent with all its changes, or keep them on its branch only.",
        input_schema=_object({"id": _ID, "keep_branch": BOOLEAN}, "id"),
    ),
)  # fmt: skip
