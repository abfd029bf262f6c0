"""What a sandbox changes about permissions: confined commands pass in mode auto, leaving it is always a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.rule import RuleInput, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.suggest import suggested_rule
from friday_cli.workspace.local import LocalWorkspace


def call(command: str, sandbox_access: str, justification: str = "") -> RuleInput:
    script = analyze(command, AnalysisContext(LocalWorkspace(Path(__file__).parent)))
    return RuleInput("bash", "run", (command,), script, sandbox_access, justification)  # type: ignore[arg-type]


def decision_for(
    mode: str, sandbox_access: str, *rules: tuple[str, str], command: str = "make test", justification: str = ""
) -> str:
    made = Rules(mode=mode, rules=[parse_rule(text, decision) for decision, text in rules])  # type: ignore[arg-type]
    return made.child().decide(call(command, sandbox_access, justification)).decision


@pytest.mark.parametrize(("mode", "sandbox_access", "expected"), [
    ("auto", "", "ask"), ("auto", "confined", "allow"), ("auto", "network", "ask"), ("auto", "outside", "ask"),
    ("ask", "confined", "ask"), ("edits", "confined", "ask"), ("edits", "outside", "ask"), ("plan", "confined", "deny"),
    ("plan", "outside", "deny"), ("plan", "network", "deny"), ("yolo", "outside", "allow"), ("yolo", "", "allow"),
])  # fmt: skip
def test_modes(mode: str, sandbox_access: str, expected: str) -> None:
    assert decision_for(mode, sandbox_access) == expected


def test_only_a_rule_for_that_access_lets_a_command_out() -> None:
    for sandbox_access in ("network", "outside"):
        assert decision_for("auto", sandbox_access, ("allow", "bash")) == "ask"
        assert decision_for("auto", sandbox_access, ("allow", "bash(make *)")) == "ask"
        assert decision_for("auto", sandbox_access, ("allow", "b*")) == "ask"
        assert decision_for("ask", sandbox_access, ("allow", f"bash_{sandbox_access}(make *)")) == "allow"
        assert decision_for("ask", sandbox_access, ("allow", f"bash_{sandbox_access}(git *)")) == "ask"
    assert decision_for("ask", "outside", ("allow", "bash_network")) == "ask"
    assert decision_for("ask", "confined", ("allow", "bash_outside")) == "ask"


def test_what_is_denied_stays_denied_and_what_destroys_is_asked_about() -> None:
    assert decision_for("yolo", "outside", ("deny", "bash(make *)")) == "deny"
    assert decision_for("auto", "outside", ("deny", "bash(make *)"), ("allow", "bash_outside")) == "deny"
    assert decision_for("auto", "confined", command="rm -rf /") == "ask"
    assert decision_for("auto", "outside", ("allow", "bash_outside"), command="rm -rf /") == "ask"


def test_the_question_names_the_access_and_the_justification_and_offers_no_rule() -> None:
    out = call("npm test", "outside", "needs \x1b[31mthe\nremote")
    reason = Rules(mode="auto").decide(out).reason
    assert "outside the sandbox" in reason
    assert '"needs the remote"' in reason
    assert suggested_rule(out) == ""
    assert suggested_rule(call("npm test", "confined")) != ""


def test_in_mode_plan_nothing_leaves_the_sandbox_not_even_to_read() -> None:
    assert decision_for("plan", "confined", command="ls") == "allow"
    assert decision_for("plan", "outside", command="ls") == "deny"
    assert decision_for("ask", "outside", command="ls") == "ask"
