"""The tool `task_result`: a sub-agent returns its result and ends its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.protocol import receipt
from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.claims import CheckClaim, Claims
from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import FinalReport, Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import RESULT_FIELDS
from friday_cli.core.tool_catalog import TOOLS


class FindingArgument(ToolArguments, frozen=True):
    """A claim with its evidence."""

    claim: Annotated[str, Meta(min_length=1, description="One statement.")]
    evidence: Annotated[str, Meta(min_length=1, description="file:line, URL, or command and output.")]


class TaskResultArguments(ToolArguments, frozen=True):
    aliases: ClassVar = dict.fromkeys(RESULT_FIELDS[1:], "result")
    result: Annotated[
        str,
        Meta(min_length=1, description="The complete answer to the task: the caller sees nothing else of your work."),
    ]
    status: Annotated[
        Literal["success", "error"],
        Meta(description="error if the task could not be done; then `result` says why and what was done."),
    ] = "success"
    findings: Annotated[
        list[FindingArgument], Meta(max_length=50, description="The claims of the answer, each with its evidence.")
    ] = field(default_factory=list)
    checks: Annotated[
        list[CheckClaim],
        Meta(max_length=50, description="The tests and other checks of your work, each with how it ended."),
    ] = field(default_factory=list)
    changed: Annotated[list[str], Meta(max_length=200, description="Each file that you changed, by its path.")] = field(
        default_factory=list
    )

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        if isinstance(sent.get("success"), bool) and "status" not in sent:
            sent["status"] = "success" if sent.pop("success") else "error"
        if isinstance(status := sent.get("status"), str):
            sent["status"] = {"completed": "success", "failed": "error"}.get(status, status)


MAX_CORRECTIONS = 2
"""How often a result that does not match the schema is rejected before the run fails."""


def result_tool(complaint: Callable[[str], str] | None = None) -> Tool:
    """The tool `task_result`: a child returns its result and ends its run. `complaint`: why a result does not match the
    required schema, "" if it does; such a result is rejected twice."""
    rejected = 0

    async def run(ctx: ToolContext, args: TaskResultArguments) -> Output:
        nonlocal rejected
        if complaint and args.status == "success" and (wrong := complaint(args.result)):
            rejected += 1
            if rejected > MAX_CORRECTIONS:
                raise StopRun("reported", f"The result does not match the required schema: {wrong}")
            problem = f"the result does not match the required schema: {wrong}"
            raise ToolError(f"task_result: {problem}. Send a corrected result.")
        result = args.result.strip()
        if not result:
            raise ToolError("task_result: the result is empty. Put the complete answer into `result`.")
        findings = tuple(receipt.Finding(item.claim.strip(), item.evidence.strip()) for item in args.findings)
        claims = Claims(tuple(args.checks), tuple(args.changed))
        report = FinalReport(result, args.status == "success", findings, claims)
        return Output("Result returned.", TextDisplay(args.status), ends=report)

    return Tool(
        run,
        TOOLS["task_result"],
        args=TaskResultArguments,
        title=lambda args: str(args.status),
        description=(
            "Return the result of your task and end your run. Call it once, alone, when the task is done or cannot be "
            "done. Report only what you did and saw: the record of your tool calls is shown with it."
        ),
    )
