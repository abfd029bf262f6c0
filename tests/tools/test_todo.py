"""`todo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.tools.todo import TODO
from tests.tools.tool_context import call, seat


async def test_a_list_comes_back_as_it_stands(tmp_path: Path) -> None:
    items = [
        {"text": "read the code", "status": "done"},
        {"text": "write\n the [fix]", "status": "active"},
        {"text": "test it"},
    ]
    output = await call(TODO, seat(tmp_path), items=items)
    assert output.text == "1 of 3 done\n[x] read the code\n[>] write the [fix]\n[ ] test it"
    assert output.display == TableDisplay(
        ("status", "item"), (("done", "read the code"), ("active", "write the [fix]"), ("pending", "test it"))
    )
    assert TODO.title(TODO.parse({"items": items})) == "1 of 3 done"


async def test_a_list_may_be_emptied(tmp_path: Path) -> None:
    assert (await call(TODO, seat(tmp_path), items=[])).text == "The list is empty."


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"items": [{"text": ""}]},
        {"items": [{"text": "x", "status": "later"}]},
        {"items": [{"text": "x"}] * 51},
    ],
)
async def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"bad arguments|is empty"):
        await call(TODO, seat(tmp_path), **arguments)
