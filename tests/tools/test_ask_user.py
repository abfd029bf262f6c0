"""`ask_user`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.tools.ask_user import ASK_USER, tools
from tests.tools.tool_context import call, seat


async def test_a_question_reaches_a_person_and_the_answer_comes_back(tmp_path: Path) -> None:
    heard: list[tuple[str, Sequence[str]]] = []

    def answer(question: str, choices: Sequence[str]) -> str:
        heard.append((question, choices))
        return " the second "

    output = await call(ASK_USER, seat(tmp_path, ask=answer), question=" Which? ", choices=["one", " two ", "one", " "])
    assert heard == [("Which?", ("one", "two"))]
    assert output.text == "The user answered: the second"
    assert output.display == TextDisplay("the second")
    silent = await call(ASK_USER, seat(tmp_path, ask=lambda question, choices: " "), question="Well?")
    assert silent.text == "The user gave no answer."


async def test_a_question_where_nobody_can_answer(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="Nobody can answer"):
        await call(ASK_USER, seat(tmp_path), question="Anybody?")


def test_it_is_left_out_where_nobody_can_answer() -> None:
    assert (tools(attended=True), tools(attended=False)) == ([ASK_USER], [])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": "  "},
        {"question": "x", "choices": ["c"] * 9},
    ],
)
async def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"bad arguments|is empty"):
        await call(ASK_USER, seat(tmp_path, ask=lambda question, choices: "yes"), **arguments)
