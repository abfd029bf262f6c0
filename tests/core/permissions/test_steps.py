"""The steps of a decision, and rules that count for one call."""

from __future__ import annotations

from friday_cli.core.permissions.rule import Allowlist, RuleInput, parse_rule
from friday_cli.core.permissions.rules import Rules


def edit(path: str) -> RuleInput:
    return RuleInput("edit_file", "write", (path,))


def test_a_rule_for_one_call_counts_as_one_of_the_session_and_is_not_kept() -> None:
    root = Rules(mode="ask", rules=[parse_rule("edit_file(keys/**)", "deny")])
    child = root.child(profile="coder")
    root.narrowed["the command"] = Rules(mode=None, allowlist=Allowlist(frozenset(("edit_file", "bash"))))
    extra = (parse_rule("edit_file", "allow"),)
    assert (child.decide(edit("a")).decision, child.decide(edit("a"), extra).decision) == ("ask", "allow")
    assert child.decide(edit("keys/a"), extra).decision == "deny"
    assert (
        child.decide(RuleInput("write_file", "write", ("a",)), (parse_rule("write_file", "allow"),)).decision == "deny"
    )
    assert child.decide(edit("a")).decision == "ask"
    assert [str(rule) for rule in root.rules] == ["edit_file(keys/**)"]
