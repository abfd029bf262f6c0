"""A session that another program drives: its main agent makes no request, and its sub-agents share the caller's budget."""

from __future__ import annotations

from typing import Any

from friday_cli.agents.caller import Caller
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.session.session import Session
from friday_cli.view import SessionView
from tests.session.harness import Harness

HANDED_IN = {"text": "Found it.", "usage": {"input": 1000, "output": 100}}


async def _call(session: Session, caller: Caller, name: str, **arguments: Any) -> RunResult:
    caller.calls.append(ToolCall(f"c{len(await session.history())}", name, arguments))
    return await session.prompt(f"{caller.name} calls {name}")


async def test_the_main_agent_sends_nothing_and_the_child_uses_the_model_and_the_budget_of_the_caller(
    harness: Harness,
) -> None:
    harness.plays({"a.*": [HANDED_IN]})
    budget = Budget("friday mcp serve", tokens=50_000)
    caller = Caller("claude code/2\x1b", budget)
    async with harness.session(caller=caller) as session:
        assert (await _call(session, caller, "delegate_task", profile="general", task="look")).status == "completed"
    view = SessionView.of(await harness.log(session.id))
    root, child = view.agents["a"], view.agents["a.1"]
    assert (root.model, root.usage.billed, root.newest_start.tokens) == ("mcp-client/claude-code-2-", 0, 0)
    assert (child.model.partition("/")[0], child.result, child.usage.billed) == ("scripted", "Found it.", 1100)
    assert budget.tokens.spent == 1100

    harness.plays({"a.*": [HANDED_IN], "a": [{"text": "I am the model now."}]})
    caller = Caller("claude-code", Budget("friday mcp serve", tokens=20_000))
    async with harness.session(caller=caller, resume=session.id) as session:  # earlier usage is not charged again
        await _call(session, caller, "delegate_task", resume="a.1", task="and more")
        assert caller.budget.tokens.spent == 1100
        caller.budget.charge(18_700, 0)
        await _call(session, caller, "delegate_task", profile="general", task="another")
    view = SessionView.of(await harness.log(session.id))
    assert view.agents["a.1"].run == 2
    refused = list(view.agents["a"].calls.values())[-1]
    assert (refused.status, len(view.agents)) == ("error", 2)
    assert "the tokens budget of friday mcp serve is used up" in refused.text

    async with harness.session(resume=session.id) as session:  # a person continues it with a model
        assert (await session.prompt("go on")).text == "I am the model now."
