"""`task_result`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import Finding
from friday_cli.core.protocol.tool import FinalReport
from friday_cli.tools.task_result import result_tool
from tests.tools.tool_context import call, seat


async def test_a_result_ends_the_run(tmp_path: Path) -> None:
    output = await call(result_tool(), seat(tmp_path), result=" All 3 files are fine. ")
    assert output.ends == FinalReport("All 3 files are fine.", True)
    findings = [{"claim": "It leaks", "evidence": "src/a.py:7"}, {"claim": "It is slow", "evidence": "bench: 3 s"}]
    output = await call(result_tool(), seat(tmp_path), result="Could not finish.", status="error", findings=findings)
    found = (Finding("It leaks", "src/a.py:7"), Finding("It is slow", "bench: 3 s"))
    assert output.ends == FinalReport("Could not finish.", False, found)
    assert not output.error  # the call itself went well


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"result": " \n"},
        {"result": "x", "status": "maybe"},
        {"result": "x", "findings": [{"claim": "x"}]},
        {"result": "x", "findings": [{"claim": "x", "evidence": ""}]},
    ],
)
async def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"bad arguments|is empty"):
        await call(result_tool(), seat(tmp_path), **arguments)
