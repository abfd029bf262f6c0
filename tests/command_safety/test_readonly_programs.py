"""The adversarial table, row by row: what could do harm is asked about, what only reads passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from friday_cli.command_safety import AnalysisContext
from friday_cli.core.permissions.rule import Decision
from friday_cli.core.permissions.rules import Mode, Rules
from friday_cli.tool_catalog import TOOLS
from tests.command_safety import workspace_fixture
from tests.command_safety.rows import MUST_ASK, MUST_PASS, Row


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> AnalysisContext:
    return workspace_fixture.context(workspace_fixture.create_project(tmp_path_factory.mktemp("table")))


def cases(rows: Iterable[Row]) -> Iterator[object]:
    for kind, mode, decision, commands in rows:
        for command in commands:
            yield pytest.param(mode, decision, command, id=f"{kind}: {ascii(command)[1:61]}")


@pytest.mark.parametrize(("mode", "decision", "command"), [*cases(MUST_ASK), *cases(MUST_PASS)])
def test_row(context: AnalysisContext, mode: Mode, decision: Decision, command: str) -> None:
    call = workspace_fixture.bash(command, context)
    permission = Rules(mode=mode, tools=TOOLS).decide(call)
    assert permission.decision == decision, (permission.reason, call.script)
    assert permission.reason


def test_the_table_is_as_large_as_it_should_be() -> None:
    asked = [command for *_, commands in MUST_ASK for command in commands]
    passed = [command for *_, commands in MUST_PASS for command in commands]
    assert len(asked) >= 150
    assert len(passed) >= 80
    assert len(set(asked)) + len(set(passed)) >= 300
