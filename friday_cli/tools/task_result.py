"""The tool `task_result`: a sub-agent returns its result and ends its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.protocol import receipt
from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import FinalReport, Output, Tool, ToolContext, tool
from friday_cli.tool_catalog import TOOLS


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
        TOOLS["task_result"],
        args=ResultArgs,
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
