"""Whom an agent may delegate to: `subAgents`, what the model is offered, and what is refused at the call."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, Denied
from friday_cli.extensions.profiles import check, load
from friday_cli.extensions.profiles.parse import parse
from tests.delegation.harness import Harness
from tests.engine_fixture import Say, call, delegate


def profile(name: str, *front: str) -> bytes:
    return "\n".join(["---", f"name: {name}", "description: It.", *front, "---", "You are it."]).encode()


def test_nobody_is_assigned_unless_named_and_each_once() -> None:
    assert parse("x.md", profile("lead")).sub_agents == ()
    assert parse("x.md", profile("lead", "subAgents: [b, a, b]")).sub_agents == ("b", "a")


async def test_an_assigned_agent_must_exist(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [reseacher, coder]")
    found = load(env=harness.env)
    _, problems = check(harness.home / "profiles", known=found.names())
    (problem,) = found.problems
    assert "there is no profile reseacher" in str(problem)
    assert "Did you mean researcher?" in str(problem)
    assert found.get("lead").sub_agents == ("coder",)
    assert [p.field for p in problems] == ["subAgents"], "friday profiles check says so, too"


def offered(request: Any) -> str:
    """The list of sub-agents in a prompt."""
    return request.system.partition("# Available Sub-Agents\n\n")[2].partition("\n\n")[0]  # type: ignore[no-any-return]


async def test_the_prompt_lists_each_available_sub_agent_once_with_the_rules(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher, helper]")
    harness.profile("helper", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "x")])],
        "a.1": [Say("", [delegate("helper", "y")])],
        "a.1.1": [Say("ok")],
    }
    s = await harness.ran(script)
    root, lead, helper = (s.requests(path)[0] for path in ("a", "a.1", "a.1.1"))
    assert [line.split("`")[1] for line in offered(root).splitlines()] == [
        "analyst",
        "coder",
        "general",
        "helper",
        "lead",
        "researcher",
        "reviewer",
        "summarizer",
    ]
    assert offered(lead).splitlines()[0] == "- `helper`: The helper."
    assert [line.split("`")[1] for line in offered(helper).splitlines()] == ["researcher"]
    for request in (root, lead, helper):
        assert not [t.name for t in request.tools if "`researcher`" in t.description]
        for rule in (
            "Give the full task",
            "Give what it needs to start",
            "Wait for the result",
            "Use the result",
            "Do not delegate",
        ):
            assert rule in request.system


async def test_of_many_sub_agents_a_share_of_the_window_is_listed_and_the_others_are_found(harness: Harness) -> None:
    folder = harness.home / "profiles"
    folder.mkdir(exist_ok=True)
    for number in range(300):
        about = f"Knows subject {number} well. {'It tries hard. ' * 30}"
        (folder / f"e{number}.md").write_text(f"---\nname: expert-{number}\ndescription: {about}\n---\nYou know it.")
    script = {
        "a": [
            Say("", [call("search_profiles", query="subject 299")]),
            Say("", [delegate("expert-299", "x")]),
            Say("fin"),
        ],
        "a.1": [Say("ok")],
    }
    s = await harness.ran(script)
    first, *later = s.requests("a")
    lines = offered(first).splitlines()
    window = s.model.window
    assert 100 < len(lines) < 300
    assert len(offered(first)) <= window * 0.02 * 4
    assert {line.split("`")[1] for line in lines} >= {
        "analyst",
        "coder",
        "general",
        "researcher",
        "reviewer",
        "summarizer",
    }
    assert f"{306 - len(lines)} more are not listed here: find them with `search_profiles`." in first.system
    assert "- `expert-299`: Knows subject 299 well." in s.results()[0].splitlines()[0]
    assert s.results()[1].startswith("ok: ")
    assert [(r.system, r.tools) for r in later] == [(first.system, first.tools)] * len(later), "the prefix stays"


async def test_a_profile_without_sub_agents_gets_no_delegation_tool_whatever_it_allows(harness: Harness) -> None:
    harness.profile("all", 'allowedTools: "*"')
    s = await harness.ran({"a": [Say("", [delegate("all", "x")])]})
    assert "delegate_task" not in [t.name for t in s.requests("a.1")[0].tools]


async def test_a_persona_of_the_main_agent_limits_it_as_well(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    s = await harness.ran({"a": [Say("", [delegate("coder", "x"), delegate("researcher", "y")])]}, profile="lead")
    assert s.results()[0] == "error: The profile lead may not delegate to 'coder'."
    assert s.results()[1].startswith("ok: ")


async def test_a_rule_about_a_profile_holds_for_starting_and_for_continuing(harness: Harness) -> None:
    s = await harness.ran({"a": [Say("", [delegate("coder", "x")]), Say("fin")]})
    script = {
        "a": [
            Say(
                "",
                [
                    delegate("coder", "y"),
                    call("delegate_task", resume="a.1", task="z"),
                    delegate("researcher", "v"),
                    call(
                        "delegate_tasks",
                        tasks=[{"profile": "researcher", "task": "w"}, {"profile": "coder", "task": "u"}],
                    ),
                ],
            )
        ]
    }
    s = await harness.ran(script, resume=s.session.id, deny=("delegate_task(coder)", "delegate_tasks(coder)"))
    assert [r.split(":")[0] for r in s.results()[1:]] == ["denied", "denied", "ok", "denied"]
    assert [d.subject for d in s.of(Denied)] == ["coder", "coder", "researcher\ncoder"]
    assert len(s.of(AgentFinished, "a.1")) == 1


async def test_delegation_needs_no_configuration_and_an_unknown_profile_is_a_clear_error(harness: Harness) -> None:
    s = await harness.ran({"a": [Say("", [delegate("Researcher", "x")]), Say("fin")]})
    assert "delegate_task" in [t.name for t in s.requests()[0].tools]
    assert s.results()[0] == (
        "error: There is no profile 'Researcher'. Did you mean researcher? Available: analyst, coder, general, "
        "researcher, reviewer, summarizer."
    )
    with pytest.raises(UsageError, match="There is no profile 'ghost'"):
        async with harness.open({}, profile="ghost"):
            pass
