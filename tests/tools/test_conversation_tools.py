"""`ask_user`, `todo` and `task_result`, and the arguments that they and the memory tools refuse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import Finding
from friday_cli.core.protocol.tool import FinalReport, Tool
from friday_cli.tools import memory
from friday_cli.tools.ask_user import ASK_USER_TOOL, tools
from friday_cli.tools.task_result import result_tool
from friday_cli.tools.todo import TODO_TOOL
from tests.tools.tool_context import call, seat

SAVE, LOAD = memory.tools(None)  # type: ignore[arg-type]
RESULT = result_tool()


async def test_a_question_reaches_a_person_and_the_answer_comes_back(tmp_path: Path) -> None:
    heard: list[tuple[str, Sequence[str]]] = []

    def answer(question: str, choices: Sequence[str]) -> str:
        heard.append((question, choices))
        return " the second "

    output = await call(
        ASK_USER_TOOL, seat(tmp_path, ask=answer), question=" Which? ", choices=["one", " two ", "one", " "]
    )
    assert heard == [("Which?", ("one", "two"))]
    assert (output.text, output.display) == ("The user answered: the second", TextDisplay("the second"))
    silent = await call(ASK_USER_TOOL, seat(tmp_path, ask=lambda question, choices: " "), question="Well?")
    assert silent.text == "The user gave no answer."


async def test_without_a_person_a_question_fails_and_the_tool_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="Nobody can answer"):
        await call(ASK_USER_TOOL, seat(tmp_path), question="Anybody?")
    assert (tools(attended=True), tools(attended=False)) == ([ASK_USER_TOOL], [])


async def test_a_list_comes_back_as_it_stands(tmp_path: Path) -> None:
    items = [
        {"text": "read the code", "status": "done"},
        {"text": "write\n the [fix]", "status": "active"},
        {"text": "test it"},
    ]
    output = await call(TODO_TOOL, seat(tmp_path), items=items)
    assert output.text == "1 of 3 done\n[x] read the code\n[>] write the [fix]\n[ ] test it"
    assert output.display == TableDisplay(
        ("status", "item"), (("done", "read the code"), ("active", "write the [fix]"), ("pending", "test it"))
    )
    assert TODO_TOOL.title(TODO_TOOL.parse({"items": items})) == "1 of 3 done"
    assert (await call(TODO_TOOL, seat(tmp_path), items=[])).text == "The list is empty."


async def test_a_result_ends_the_run(tmp_path: Path) -> None:
    output = await call(RESULT, seat(tmp_path), result=" All 3 files are fine. ")
    assert output.ends == FinalReport("All 3 files are fine.", True)
    findings = [{"claim": "It leaks", "evidence": "src/a.py:7"}, {"claim": "It is slow", "evidence": "bench: 3 s"}]
    output = await call(RESULT, seat(tmp_path), result="Could not finish.", status="error", findings=findings)
    found = (Finding("It leaks", "src/a.py:7"), Finding("It is slow", "bench: 3 s"))
    assert output.ends == FinalReport("Could not finish.", False, found)
    assert not output.error  # the call itself went well


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (ASK_USER_TOOL, {}), (ASK_USER_TOOL, {"question": "  "}), (ASK_USER_TOOL, {"question": "x", "choices": ["c"] * 9}),
        (TODO_TOOL, {}), (TODO_TOOL, {"items": [{"text": ""}]}), (TODO_TOOL, {"items": [{"text": "x", "status": "later"}]}),
        (TODO_TOOL, {"items": [{"text": "x"}] * 51}),
        (RESULT, {}), (RESULT, {"result": " \n"}), (RESULT, {"result": "x", "status": "maybe"}),
        (RESULT, {"result": "x", "findings": [{"claim": "x"}]}),
        (RESULT, {"result": "x", "findings": [{"claim": "x", "evidence": ""}]}),
        (SAVE, {}), (SAVE, {"text": ""}), (SAVE, {"text": " \u200b "}), (SAVE, {"text": "x" * 4001}),
        (SAVE, {"text": "x", "scope": "world"}), (SAVE, {"text": "x", "tags": ["t" * 41]}),
        (SAVE, {"text": "x", "tags": ["t"] * 9}), (LOAD, {"limit": 0}), (LOAD, {"limit": 51}),
    ],
)  # fmt: skip
async def test_bad_arguments(tmp_path: Path, tool: Tool, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"bad arguments|is empty"):
        await call(tool, seat(tmp_path, ask=lambda question, choices: "yes"), **arguments)
