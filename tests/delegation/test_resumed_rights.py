"""A resumed agent gets no right that it did not have, whatever its profile, its skills and the rules say since."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.session.commands import HandBack, TakeOver, Tell
from tests.delegation.harness import Harness, ScriptedSession, until
from tests.engine_fixture import Say, call, delegate

WRITE = call("write_file", path="made", content="x")
TOUCH = call("bash", command="touch made")
GREP = call("grep", pattern="x")
CODER = delegate("coder", "x")
WIDE = ("allowedTools: [read_file, write_file, bash, grep, skill]", "subAgents: [researcher, coder]")
NARROW: dict[str, tuple[Sequence[str], ToolCall]] = {
    "only": (('allowedTools: [read_file, "bash(git log *)"]',), TOUCH),
    "deny": ((*WIDE[:1], 'disallowedTools: ["bash(touch *)"]'), TOUCH),
    "mode": ((*WIDE[:1], "mode: plan"), WRITE),
    "tools": (("allowedTools: [read_file]",), WRITE),
    "sub-agents": ((*WIDE[:1], "subAgents: [researcher]"), CODER),
    "skills": ((*WIDE[:1], "skills: [other]"), call("skill", skill="audit")),
}


def again(path: str = "a.1") -> ToolCall:
    return call("delegate_task", resume=path, task="go on")


def audit(harness: Harness, *front: str) -> None:
    """A skill that lets its agent only read."""
    folder = harness.home / "skills" / "audit"
    folder.mkdir(parents=True)
    lines = ["---", "name: audit", "description: Audits.", *front, "---", "Look only."]
    (folder / "SKILL.md").write_text("\n".join(lines) + "\n")


async def resumed_by_model(harness: Harness, session: str, *calls: ToolCall) -> ScriptedSession:
    """The child makes `calls` in a later process, in which the model resumed it."""
    script = {"a": [Say("", [again()]), Say("fin")], "a.1": [Say("", list(calls)), Say("two")]}
    return await harness.ran(script, resume=session, prompt="go on")


async def resumed_by_person(harness: Harness, session: str, *calls: ToolCall) -> ScriptedSession:
    async with harness.open({"a.1": [Say("", list(calls)), Say("two")]}, resume=session) as s:
        await s.session.result(await s.session.start_agent("a.1", "go on"))
    return s


async def taken_over(harness: Harness, session: str, *calls: ToolCall) -> ScriptedSession:
    """A person takes over the child, which ended in an earlier process, and tells it what to do."""
    script = {"a.1": [Say("", list(calls)), Say("two"), Say("two")]}
    async with harness.open(script, resume=session) as s:
        await s.session.do(TakeOver("a.1"))
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        before = len(s.results("a.1"))
        await s.session.do(Tell("a.1", "do it"))
        await until(lambda: len(s.results("a.1")) > before)
        await s.session.do(HandBack("a.1", ""))
        await until(lambda: not s.tree.running("a.1"))
    return s


WAYS = {"model": resumed_by_model, "person": resumed_by_person, "takeover": taken_over}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", NARROW)
async def test_a_profile_that_changed_gives_nothing_more(harness: Harness, what: str, way: str) -> None:
    front, tried = NARROW[what]
    audit(harness)
    harness.profile("kid", *front)
    s = await harness.ran({"a": [Say("", [delegate("kid", "look")]), Say("fin")], "a.1": [Say("one")]})
    harness.profile("kid", *WIDE)
    s = await WAYS[way](harness, s.session.id, tried)
    assert s.results("a.1")[-1].split(":")[0] in ("denied", "error"), s.results("a.1")
    assert s.agents() == ["a.1"]
    assert not (harness.project / "made").exists()
    notices = [notice.text for notice in s.of(Notice, "a.1")]
    assert "a.1 resumes with the rights that it had: its profile kid has changed." in notices


async def test_what_a_middle_run_took_away_stays_away(harness: Harness) -> None:
    harness.profile("kid", *WIDE)
    s = await harness.ran({"a": [Say("", [delegate("kid", "look")]), Say("fin")], "a.1": [Say("one")]})
    harness.profile("kid", *WIDE, "mode: plan")
    s = await resumed_by_model(harness, s.session.id, WRITE)
    harness.profile("kid", *WIDE)
    s = await resumed_by_model(harness, s.session.id, WRITE)
    assert [result.split(":")[0] for result in s.results("a.1")] == ["denied", "denied"]


async def test_an_unchanged_profile_is_not_told_of_and_keeps_its_rights(harness: Harness) -> None:
    harness.profile("kid", *WIDE, "maxIterations: 7")
    s = await harness.ran({"a": [Say("", [delegate("kid", "look")]), Say("fin")], "a.1": [Say("one")]})
    s = await resumed_by_model(harness, s.session.id, WRITE)
    assert s.results("a.1")[-1].startswith("ok")
    assert not [n for n in s.of(Notice, "a.1") if "has changed" in n.text]


async def test_turns_time_and_supervision_are_not_widened(harness: Harness) -> None:
    harness.profile("kid", *WIDE, "maxIterations: 2", "timeout: 60", "supervision: supervised")
    verdict = Say("", [call("verdict", accepted=True)])
    play = {"a": [Say("", [delegate("kid", "look")]), Say("fin")], "a.1": [Say("I look."), Say("one"), verdict]}
    s = await harness.ran(play)
    harness.profile("kid", *WIDE, "maxIterations: 90", "timeout: 9000")
    async with harness.open({"a.1": [Say("two", delay_s=5)]}, resume=s.session.id) as s:
        await s.session.start_agent("a.1", "go on")
        await until(lambda: s.tree.running("a.1"))
        agent = s.tree.node("a.1").agent
        assert (agent.max_turns, agent.time_s, agent.supervision) == (2, 60, "supervised")
        await s.tree.stop("a.1")


async def test_a_grandchild_is_bound_by_what_its_parent_could(harness: Harness) -> None:
    harness.profile("lead", 'allowedTools: "*"', "subAgents: [kid]", "mode: plan")
    harness.profile("kid", *WIDE)
    script = {"a": [Say("", [delegate("lead", "x")]), Say("fin")], "a.1": [Say("", [delegate("kid", "y")]), Say("one")]}
    s = await harness.ran(script | {"a.1.1": [Say("deep")]})
    harness.profile("lead", 'allowedTools: "*"', "subAgents: [kid]")
    script = {"a": [Say("", [again("a.1.1")]), Say("fin")], "a.1.1": [Say("", [WRITE, TOUCH]), Say("two")]}
    s = await harness.ran(script, resume=s.session.id, prompt="go on")
    assert [result.split(":")[0] for result in s.results("a.1.1")] == ["denied", "denied"]


@pytest.mark.parametrize("name", ["coder", "kid"])
async def test_another_profile_of_the_name_gives_nothing_more(harness: Harness, name: str) -> None:
    """The project had one of this name; it is not trusted any more, or gone. One that ships, or of the person, has the name now."""
    front = [
        "---",
        f"name: {name}",
        "description: The project's.",
        'allowedTools: [read_file, "bash(git log *)"]',
        "---",
    ]
    file = harness.file(f".friday/profiles/{name}.md", "\n".join([*front, "Look."]))
    script = {"a": [Say("", [delegate(name, "look")]), Say("fin")], "a.1": [Say("one")]}
    s = await harness.ran(script, trusted=True)
    file.unlink()
    if name == "kid":
        harness.profile("kid", *WIDE)
    s = await resumed_by_model(harness, s.session.id, TOUCH)
    assert s.results("a.1")[-1].startswith("denied")


async def test_a_profile_that_runs_a_program_now_is_not_resumed(harness: Harness) -> None:
    harness.profile("kid", *WIDE)
    s = await harness.ran({"a": [Say("", [delegate("kid", "look")]), Say("fin")], "a.1": [Say("one")]})
    harness.profile("kid", "external: claude-code")
    s = await resumed_by_model(harness, s.session.id)
    assert "a.1 cannot be resumed: its profile kid runs claude-code now." in s.results()[-1]


@pytest.mark.parametrize("named", [False, True])
async def test_the_main_agent_keeps_the_rights_of_its_profile_unless_it_is_named(harness: Harness, named: bool) -> None:
    harness.profile("kid", 'allowedTools: [read_file, "bash(git log *)"]', "subAgents: [researcher]")
    s = await harness.ran({"a": [Say("one")]}, profile="kid")
    harness.profile("kid", *WIDE)
    script = {"a": [Say("", [WRITE, GREP, CODER]), Say("fin")], "a.1": [Say("x")]}
    given = {"profile": "kid"} if named else {}
    s = await harness.ran(script, resume=s.session.id, prompt="go on", model=f"scripted:{other(harness)}", **given)
    now = ["ok", "ok", "ok"] if named else ["denied", "denied", "error"]
    assert [result.split(":")[0] for result in s.results()] == now


def other(harness: Harness) -> Path:
    """A scenario of another name: another model, which begins with the tools of the profile as it is now."""
    path = harness.home / "other.yaml"
    path.write_text("agents: {}\n")
    return path


@pytest.mark.parametrize("way", WAYS)
async def test_a_skill_that_an_agent_was_started_for_restricts_it_for_its_life(harness: Harness, way: str) -> None:
    harness.profile("kid", *WIDE)
    audit(harness, "context: fork", "agent: kid", "allowed-tools: Read")
    script = {"a": [Say("", [call("skill", skill="audit")]), Say("fin")], "a.1": [Say("", [TOUCH]), Say("one")]}
    s = await harness.ran(script)
    (harness.home / "skills/audit/SKILL.md").unlink()
    s = await WAYS[way](harness, s.session.id, TOUCH)
    assert [result.split(":")[0] for result in s.results("a.1")] == ["denied", "denied"]


@pytest.mark.parametrize("dies", [False, True])
async def test_a_skill_that_an_agent_loaded_restricts_it_until_it_ends(harness: Harness, dies: bool) -> None:
    harness.profile("kid", *WIDE)
    audit(harness, "allowed-tools: Read")
    loads = Say("", [call("skill", skill="audit")])
    script = {"a": [Say("", [delegate("kid", "x")]), Say("fin")], "a.1": [loads, Say("one", delay_s=50 if dies else 0)]}
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: len(s.requests("a.1")) == 2)
        if dies:
            s.crash()
        else:
            await asking
    await asyncio.wait([asking])
    s = await resumed_by_model(harness, s.session.id, WRITE)
    assert s.results("a.1")[-1].startswith("denied" if dies else "ok")
    assert bool(replay(s.envelopes)["a.1"].rights)


async def test_a_rule_about_costs_holds_for_resuming(harness: Harness) -> None:
    s = await harness.ran({"a": [Say("", [delegate("researcher", "x")]), Say("fin")], "a.1": [Say("one")]})
    script = {"a": [Say("", [again()]), Say("fin")], "a.1": [Say("two")]}
    denied = ("delegate_task(estimate>0.0001)",)
    s = await harness.ran(script, resume=s.session.id, prompt="go on", deny=denied)
    assert "Not started: 1 agent, of unknown cost: the usual cost exceeds the rule" in s.results()[-1]
    assert len(s.requests("a.1")) == 0


async def test_a_profile_that_the_person_left_limits_the_main_agent_no_longer(harness: Harness) -> None:
    harness.profile("looker", "allowedTools: [read_file, write_file]", "mode: plan")
    harness.profile("kid", *WIDE)
    s = await harness.ran({"a": [Say("one")]}, profile="looker")
    s = await harness.ran({"a": [Say("two")]}, resume=s.session.id, prompt="go on", profile="kid")
    s = await harness.ran({"a": [Say("", [WRITE]), Say("fin")]}, resume=s.session.id, prompt="go on")
    assert [result.split(":")[0] for result in s.results()] == ["ok"]
    assert (harness.project / "made").exists()


async def test_a_profile_that_ran_unattended_can_ask_a_person_once_there_is_one(harness: Harness) -> None:
    harness.profile("kid", 'allowedTools: "*"')
    s = await harness.ran({"a": [Say("one")]}, profile="kid", attended=False)
    options = {"resume": s.session.id, "attended": True, "model": f"scripted:{other(harness)}"}
    async with harness.open({"a": [Say("two")]}, **options) as s:
        assert "ask_user" in s.session._main.agent.conversation.tools
