"""The tool `ask_user`: a question to the user."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import Output, Tool, ToolContext, tool
from friday_cli.tool_catalog import TOOLS


class AskUserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `ask_user`."""

    question: Annotated[
        str, Meta(min_length=1, max_length=2_000, description="One question with all that is needed to answer it.")
    ]
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(max_length=8, description="Short answers to pick from, the best first; the person may answer otherwise."),
    ] = []


async def _ask(ctx: ToolContext, args: AskUserArguments) -> Output:
    if not args.question.strip():
        raise ToolError("ask_user: the question is empty.")
    choices = tuple(dict.fromkeys(choice.strip() for choice in args.choices if choice.strip()))
    answer = (await ctx.ask(args.question.strip(), choices)).strip()
    return Output(f"The person answered: {answer}" if answer else "The person gave no answer.", TextDisplay(answer))


ASK_USER = tool(
    _ask,
    TOOLS["ask_user"],
    args=AskUserArguments,
    title=lambda args: str(args.question),
    description=(
        "Ask the person one question and wait for the answer. Use it when a choice is theirs and cannot be found in "
        "the files: an unclear goal, a matter of taste, a risk. Not for what you can find out yourself, and not for "
        "permission to run a tool, which is asked for you. Returns the answer."
    ),
)


def tools(*, attended: bool) -> list[Tool]:
    """The tools of this group: none where nobody can answer."""
    return [ASK_USER] if attended else []
