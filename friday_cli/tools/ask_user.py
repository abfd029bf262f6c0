"""The tool `ask_user`: a question to the user, or a plan for the user's approval."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from friday_cli.core.protocol.call_arguments import ToolArguments, decoded
from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.plan import APPROVED, DO_IT, MAX_PLAN, PLAN_MODES
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.tool_catalog import TOOLS

MAX_CHOICE = 200
"""Characters of a choice."""


class AskUserArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {"options": "choices", "prompt": "question"}
    question: Annotated[str, Meta(max_length=2_000, description="With everything needed to answer it.")] = ""
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=MAX_CHOICE)]],
        Meta(max_length=8, description="Short answers, the best first; the user may also answer freely."),
    ] = field(default_factory=list)
    plan: Annotated[
        str, Meta(max_length=MAX_PLAN, description="In mode plan: the whole plan as Markdown, to be approved.")
    ] = ""

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Claude Code, Codex and Gemini CLI send a list of questions, whose options are objects."""
        questions = decoded(sent.get("questions"))
        if isinstance(questions, list) and len(questions) > 1:
            raise ToolError("one call has one question.", hint="Send each in its own call.")
        if isinstance(questions, list) and questions and isinstance(questions[0], dict):
            del sent["questions"]
            sent.update(questions[0])
        if isinstance(options := sent.get("options"), list):
            sent["options"] = [_choice(option) for option in options]


def _choice(option: object) -> object:
    """An option with a label and its description as one choice."""
    if not isinstance(option, dict) or not isinstance(label := option.get("label"), str):
        return option
    whole = f"{label}: {option['description']}" if option.get("description") else label
    return whole if len(whole) <= MAX_CHOICE else label


async def _hand_in(ctx: ToolContext, plan: str) -> Output:
    """Keep a plan as a file of the session, and wait for the user's answer to it."""
    assert ctx.hand_in is not None
    kept = await ctx.workspace.keep_output(plan.encode("utf-8", "replace"))
    answer = (await ctx.hand_in(plan)).strip()
    if answer in DO_IT:
        text = (
            f"{APPROVED} Mode {PLAN_MODES[answer]} applies from now on. Carry out the plan now. It is kept in {kept}."
        )
    elif answer in PLAN_MODES:
        text = "The user left mode plan and does not want the plan carried out. Change nothing, and finish your answer briefly."
    else:
        words = f" The user wrote: {answer}" if answer else ""
        text = f"The plan is not approved: keep planning, and hand in a better one.{words}"
    return Output(text, TextDisplay(answer or "Keep planning"))


async def _ask(ctx: ToolContext, args: AskUserArguments) -> Output:
    if args.plan.strip():
        return await _hand_in(ctx, args.plan.strip())
    if not args.question.strip():
        raise ToolError("ask_user: the question is empty.")
    choices = tuple(dict.fromkeys(choice.strip() for choice in args.choices if choice.strip()))
    answer = (await ctx.ask(args.question.strip(), choices)).strip()
    return Output(f"The user answered: {answer}" if answer else "The user gave no answer.", TextDisplay(answer))


ASK_USER_TOOL = Tool(
    _ask,
    TOOLS["ask_user"],
    args=AskUserArguments,
    title=lambda args: "plan" if args.plan.strip() else str(args.question),
    description=(
        "Ask the user one question. For decisions that only the user can make: an unclear goal, a preference, a risk. "
        "Not for what you can find out, nor for permission to run a tool: that is requested automatically."
    ),
)


def tools(*, attended: bool) -> list[Tool]:
    """The tools of this family: none without a user to answer (`attended`)."""
    return [ASK_USER_TOOL] if attended else []
