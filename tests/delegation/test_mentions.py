"""`@NAME` at the start of a prompt forces a delegation."""

from __future__ import annotations

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.session.mentions import addressed, task_of
from tests.delegation.harness import Harness
from tests.engine_fixture import Say, call, delegate

NAMES = ("researcher", "coder")


@pytest.mark.parametrize(("prompt", "name", "task"),
                         [("@researcher find it", "researcher", "find it"), ("  @coder: mend it", "coder", "mend it"),
                          ("@coder,\nmend it", "coder", "mend it"), ("@researcher", "researcher", ""),
                          ("@researcher.md says what?", "", ""), ("@coder/x.py", "", ""), ("@./coder", "", ""),
                          ("@src find it", "", ""), ("ask @researcher", "", ""), ("@Researcher find it", "", ""),
                          ("mail a@researcher x", "", "")])  # fmt: skip
def test_which_prompts_are_addressed(prompt: str, name: str, task: str) -> None:
    assert addressed(prompt, NAMES) == name
    if name:
        assert task_of(prompt) == task


async def test_the_model_is_told_and_hands_it_over(harness: Harness) -> None:
    script = {"a": [Say("", [delegate("researcher", "find where retry is")]), Say("in x.py")], "a.1": [Say("x.py")]}
    async with harness.open(script) as s:
        assert (await s.session.prompt("@researcher where is the retry?")).text == "in x.py"
        (heard,) = s.heard()
        assert (
            "[Note of the harness; no person wrote this] By @researcher the user asks for a sub-agent: hand this to 'researcher'"
            in heard
        )
        assert heard.endswith("@researcher where is the retry?"), "what the person wrote stays as it was written"


async def test_an_answer_without_the_delegation_is_not_taken(harness: Harness) -> None:
    script = {
        "a": [
            Say("I know that myself"),
            Say("", [delegate("coder", "another one")]),
            Say("So there."),
            Say("", [delegate("researcher", "x")]),
            Say("fin"),
        ]
    }
    async with harness.open(script) as s:
        assert (await s.session.prompt("@researcher where is it?")).text == "fin"
        complaints = [
            text for text in s.heard() if "without the delegation that the user asked for by @researcher" in text
        ]
        assert len(complaints) == 2


async def test_a_model_that_will_not_delegate_has_not_answered(harness: Harness) -> None:
    async with harness.open({"a": [Say("no"), Say("no"), Say("no")]}) as s:
        outcome = await s.session.prompt("@researcher where is it?")
        assert (outcome.status, outcome.stop_reason) == ("failed", "reported")
        assert "without the delegation that the user asked for by @researcher" in outcome.error
        assert s.agents() == []


@pytest.mark.parametrize(("handed", "deny"),
                         [(call("delegate_tasks",
                                tasks=[{"profile": "coder", "task": "x"}, {"profile": "researcher", "task": "y"}]), ()),
                          (delegate("researcher", "x", background=True), ()),
                          (delegate("researcher", "x"), ("delegate_task(researcher)",))],
                         ids=["batch", "background", "a refused try"])  # fmt: skip
async def test_every_way_of_handing_it_over_counts(harness: Harness, handed: ToolCall, deny: tuple[str, ...]) -> None:
    async with harness.open({"a": [Say("", [handed]), Say("fin"), Say("fin")]}, deny=deny) as s:
        outcome = await s.session.prompt("@researcher where is it?")
        assert (outcome.status, outcome.text) == ("completed", "fin")


async def test_continuing_one_counts_and_an_earlier_delegation_does_not(harness: Harness) -> None:
    script = {
        "a": [
            Say("", [delegate("researcher", "x")]),
            Say("one"),
            Say("from memory"),
            Say("", [call("delegate_task", resume="a.1", task="and y?")]),
            Say("two"),
            Say("three"),
        ]
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        assert (await s.session.prompt("@researcher and y?")).text == "two"
        assert (await s.session.prompt("thanks")).text == "three", "the next prompt is free again"


async def test_it_goes_together_with_a_form_of_the_answer(harness: Harness) -> None:
    script = {"a": [Say("{}"), Say("", [delegate("researcher", "x")]), Say("words"), Say("{}")]}
    async with harness.open(script) as s:
        assert (await s.session.prompt("@researcher count", schema={"type": "object"})).text == "{}"
        assert len(s.requests()) == 4


async def test_where_it_cannot_be_done_it_is_refused_before_anything_is_spent(harness: Harness) -> None:
    async with harness.open({}) as s:
        with pytest.raises(UsageError, match="@researcher: the task is missing"):
            await s.session.prompt("@researcher")
    harness.profile("lead", "subAgents: [coder]")
    async with harness.open({}, profile="lead") as s:
        with pytest.raises(
            UsageError, match=r"@researcher: the main agent cannot delegate to this profile. It can delegate to: coder"
        ):
            await s.session.prompt("@researcher x")
    harness.config("[agents.delegation]\nenabled = false\n")
    async with harness.open({}) as s:
        with pytest.raises(UsageError, match="It can delegate to: no profile"):
            await s.session.prompt("@researcher x")
        assert s.model.requests == []


async def test_a_misspelt_profile_is_said(harness: Harness) -> None:
    harness.file("researchers", "a file of that name\n")
    async with harness.open({}) as s:
        for prompt in ("@reseacher look", " @reseacher: look", "@Researcher look", "@reseacher"):
            text, _, remarks = await s.session.attach(prompt)
            assert text == prompt
            assert len(remarks) == 1
            assert "Did you mean @researcher?" in remarks[0]
        for prompt in ("@researcher look", "@researchers look", "@bob hello", "say @reseacher", "@reseacher/x y"):
            _, _, remarks = await s.session.attach(prompt)
            assert "Did you mean" not in "".join(remarks)


async def test_attaching_files_does_not_swallow_it(harness: Harness) -> None:
    harness.file("researcher", "a file of that name\n")
    harness.file("x.txt", "content of x\n")
    async with harness.open({}) as s:
        profiles = s.session.profiles
        text, _, remarks = await s.session.attach("@researcher read @x.txt")
        assert "a file of that name" not in text
        assert "content of x" in text
        assert remarks == []
        assert addressed(text, profiles) == "researcher"
        text, _, _ = await s.session.attach("@./researcher what is this?")
        assert "a file of that name" in text
        text, _, _ = await s.session.attach("see @researcher")
        assert "a file of that name" in text, "only at the start it is a profile"
        text, _, _ = await s.session.attach("@x.txt say what?")
        assert "content of x" in text, "a name that is no profile may be a file"
