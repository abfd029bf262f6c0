"""The adversarial table, row by row: what could do harm is asked about, what only reads passes."""

from __future__ import annotations

import pytest

from friday_cli.command_safety import AnalysisContext
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import Decision
from friday_cli.core.permissions.rules import Rules
from tests.command_safety import workspace_fixture
from tests.command_safety.rows import MUST_ASK, MUST_PASS


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> AnalysisContext:
    return workspace_fixture.context(workspace_fixture.create_project(tmp_path_factory.mktemp("table")))


@pytest.mark.parametrize(("kind", "mode", "decision", "commands"), [*MUST_ASK, *MUST_PASS])
def test_row(context: AnalysisContext, kind: str, mode: Mode, decision: Decision, commands: tuple[str, ...]) -> None:
    for command in commands:
        call = workspace_fixture.bash(command, context)
        permission = Rules(mode=mode).decide(call)
        assert permission.decision == decision, (command, permission.reason, call.script)
        assert permission.reason, command


def test_the_table_is_as_large_as_it_should_be() -> None:
    asked = [command for *_, commands in MUST_ASK for command in commands]
    passed = [command for *_, commands in MUST_PASS for command in commands]
    assert len(asked) >= 150
    assert len(passed) >= 80
    assert len(set(asked)) + len(set(passed)) >= 300
