"""What an agent does about its own work: its list, its questions, its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.protocol import receipt
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import FinalReport, Output, Tool, ToolContext, tool

State = Literal["pending", "active", "done"]
_MARKS: dict[State, str] = {"pending": "[ ]", "active": "[>]", "done": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a list."""

    text: Annotated[str, Meta(min_length=1, max_length=300, description="What is to be done, in a few words.")]
    status: Annotated[State, Meta(description="pending, active (being done now) or done.")] = "pending"


class TodoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `todo`."""

    items: Annotated[
        list[TodoItem], Meta(max_length=50, description="The whole list in order; it replaces the one before.")
    ]


class AskUserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `ask_user`."""

    question: Annotated[
        str, Meta(min_length=1, max_length=2_000, description="One question with all that is needed to answer it.")
    ]
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(max_length=8, description="Short answers to pick from, the best first; the person may answer otherwise."),
    ] = []


class FindingArgument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim and what backs it."""

    claim: Annotated[str, Meta(min_length=1, description="One statement.")]
    evidence: Annotated[str, Meta(min_length=1, description="What shows it: file:line, URL, or command and output.")]


class ResultArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `task_result`."""

    result: Annotated[
        str, Meta(min_length=1, description="The whole answer to the task: all the caller will ever see of your work.")
    ]
    status: Annotated[
        Literal["success", "error"],
        Meta(description="error when the task could not be done; then `result` says why and how far it came."),
    ] = "success"
    findings: Annotated[
        list[FindingArgument],
        Meta(max_length=50, description="The claims the answer rests on, each with its evidence."),
    ] = []


def todo_tool() -> Tool:
    """The tool `todo`: an agent's own list. It lives in the agent's history and nowhere else."""
    return tool(
        _todo,
        name="todo",
        args=TodoArguments,
        effect="own",
        title=lambda args: _progress(args.items),
        description=(
            "Write down your plan as a list and keep it current. Use it for work of three or more steps, and again each "
            "time a step begins (active) or ends (done); keep one item active. Not for a single simple step. Send the "
            "whole list each time. Returns the list as it now stands."
        ),
    )


async def _todo(ctx: ToolContext, args: TodoArguments) -> Output:
    if not args.items:
        return Output("The list is empty now.", TextDisplay("empty list"))
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in args.items]
    rows = tuple((item.status, " ".join(item.text.split())) for item in args.items)
    return Output("\n".join([_progress(args.items), *lines]), TableDisplay(("status", "item"), rows))


def _progress(items: list[TodoItem]) -> str:
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done"


def ask_tool() -> Tool:
    """The tool `ask_user`; leave it out where nobody can answer."""
    return tool(
        _ask,
        name="ask_user",
        args=AskUserArguments,
        effect="own",
        title=lambda args: str(args.question),
        description=(
            "Ask the person one question and wait for the answer. Use it when a choice is theirs and cannot be found in "
            "the files: an unclear goal, a matter of taste, a risk. Not for what you can find out yourself, and not for "
            "permission to run a tool, which is asked for you. Returns the answer."
        ),
    )


async def _ask(ctx: ToolContext, args: AskUserArguments) -> Output:
    if not args.question.strip():
        raise ToolError("ask_user: the question is empty.")
    choices = tuple(dict.fromkeys(choice.strip() for choice in args.choices if choice.strip()))
    answer = (await ctx.ask(args.question.strip(), choices)).strip()
    return Output(f"The person answered: {answer}" if answer else "The person gave no answer.", TextDisplay(answer))


REPAIRS = 2
"""How often a result of the wrong form is sent back."""


def result_tool(complaint: Callable[[str], str] | None = None) -> Tool:
    """The tool `task_result`, by which a child hands in its work and ends its run.

    `complaint` says what is wrong with the form of a result, "" when it is right; a wrong one is sent back twice.
    """
    sent_back = 0

    async def run(ctx: ToolContext, args: ResultArgs) -> Output:
        nonlocal sent_back
        if complaint and args.status == "success" and (wrong := complaint(args.result)):
            sent_back += 1
            if sent_back > REPAIRS:
                raise StopRun("failed", "reported", f"The result has the wrong form: {wrong}")
            raise ToolError(f"task_result: the result has the wrong form: {wrong}. Hand it in again, mended.")
        return await _result(ctx, args)

    return tool(
        run,
        name="task_result",
        args=ResultArgs,
        effect="own",
        title=lambda args: str(args.status),
        description=(
            "Hand in the result of your task and end your run. Call it once, alone, when the task is done or cannot be "
            "done; nothing you do after it counts. Report only what you did and saw: the record of your tool calls is "
            "shown beside it."
        ),
    )


async def _result(ctx: ToolContext, args: ResultArgs) -> Output:
    result = args.result.strip()
    if not result:
        raise ToolError("task_result: the result is empty; write the whole answer into it.")
    findings = tuple(receipt.Finding(item.claim.strip(), item.evidence.strip()) for item in args.findings)
    return Output("Handed in.", TextDisplay(args.status), ends=FinalReport(result, args.status == "success", findings))
