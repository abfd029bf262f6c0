"""The tool `ask_user`: a question to the user."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.tool_catalog import TOOLS


class AskUserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[
        str, Meta(min_length=1, max_length=2_000, description="One question with everything needed to answer it.")
    ]
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(
            max_length=8, description="Short answers to choose from, the best first; the user may also answer freely."
        ),
    ] = []


async def _ask(ctx: ToolContext, args: AskUserArguments) -> Output:
    if not args.question.strip():
        raise ToolError("ask_user: the question is empty.")
    choices = tuple(dict.fromkeys(choice.strip() for choice in args.choices if choice.strip()))
    answer = (await ctx.ask(args.question.strip(), choices)).strip()
    return Output(f"The user answered: {answer}" if answer else "The user gave no answer.", TextDisplay(answer))


ASK_USER = Tool(
    _ask,
    TOOLS["ask_user"],
    args=AskUserArguments,
    title=lambda args: str(args.question),
    description=(
        "Ask the user one question and return the answer. For decisions that only the user can make: an unclear goal, "
        "a preference, a risk. Not for what you can find out yourself, and not for permission to run a tool: that is "
        "requested automatically."
    ),
)


def tools(*, attended: bool) -> list[Tool]:
    """The tools of this family: none without a user to answer (`attended`)."""
    return [ASK_USER] if attended else []
