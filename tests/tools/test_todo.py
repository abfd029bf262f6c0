"""`todo`, `ask_user` and `task_result`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import Finding
from friday_cli.core.protocol.tool import FinalReport
from friday_cli.tools.plan import ask_tool, result_tool, todo_tool
from tests.tools.tool_context import call, seat


async def test_a_list_comes_back_as_it_stands(tmp_path: Path) -> None:
    items = [
        {"text": "read the code", "status": "done"},
        {"text": "write\n the [fix]", "status": "active"},
        {"text": "test it"},
    ]
    output = await call(todo_tool(), seat(tmp_path), items=items)
    assert output.text == "1 of 3 done\n[x] read the code\n[>] write the [fix]\n[ ] test it"
    assert output.display == TableDisplay(
        ("status", "item"), (("done", "read the code"), ("active", "write the [fix]"), ("pending", "test it"))
    )
    assert todo_tool().title(todo_tool().parse({"items": items})) == "1 of 3 done"


async def test_a_list_may_be_emptied(tmp_path: Path) -> None:
    assert (await call(todo_tool(), seat(tmp_path), items=[])).text == "The list is empty now."


async def test_a_question_reaches_a_person_and_the_answer_comes_back(tmp_path: Path) -> None:
    heard: list[tuple[str, Sequence[str]]] = []

    def answer(question: str, choices: Sequence[str]) -> str:
        heard.append((question, choices))
        return " the second "

    output = await call(
        ask_tool(), seat(tmp_path, ask=answer), question=" Which? ", choices=["one", " two ", "one", " "]
    )
    assert heard == [("Which?", ("one", "two"))]
    assert output.text == "The person answered: the second"
    assert output.display == TextDisplay("the second")
    silent = await call(ask_tool(), seat(tmp_path, ask=lambda question, choices: " "), question="Well?")
    assert silent.text == "The person gave no answer."


async def test_a_question_where_nobody_can_answer(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="Nobody can answer"):
        await call(ask_tool(), seat(tmp_path), question="Anybody?")


async def test_a_result_ends_the_run(tmp_path: Path) -> None:
    output = await call(result_tool(), seat(tmp_path), result=" All 3 files are fine. ")
    assert output.ends == FinalReport("All 3 files are fine.", True)
    findings = [{"claim": "It leaks", "evidence": "src/a.py:7"}, {"claim": "It is slow", "evidence": "bench: 3 s"}]
    output = await call(result_tool(), seat(tmp_path), result="Could not finish.", status="error", findings=findings)
    found = (Finding("It leaks", "src/a.py:7"), Finding("It is slow", "bench: 3 s"))
    assert output.ends == FinalReport("Could not finish.", False, found)
    assert not output.error  # the call itself went well


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (todo_tool, {}),
        (todo_tool, {"items": [{"text": ""}]}),
        (todo_tool, {"items": [{"text": "x", "status": "later"}]}),
        (todo_tool, {"items": [{"text": "x"}] * 51}),
        (ask_tool, {}),
        (ask_tool, {"question": "  "}),
        (ask_tool, {"question": "x", "choices": ["c"] * 9}),
        (result_tool, {}),
        (result_tool, {"result": " \n"}),
        (result_tool, {"result": "x", "status": "maybe"}),
        (result_tool, {"result": "x", "findings": [{"claim": "x"}]}),
        (result_tool, {"result": "x", "findings": [{"claim": "x", "evidence": ""}]}),
    ],
)
async def test_bad_arguments(tmp_path: Path, make: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"bad arguments|is empty"):
        await call(make(), seat(tmp_path, ask=lambda question, choices: "yes"), **arguments)


def test_these_touch_nothing_but_the_agent() -> None:
    assert {make().effect for make in (todo_tool, ask_tool, result_tool)} == {"own"}
