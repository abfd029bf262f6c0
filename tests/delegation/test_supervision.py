"""Looking at results before the parent does: what is compared, who is asked, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import AgentStarted, IntentStated, QuestionAsked, Verdict
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from tests.delegation.harness import Actors, Scene, Stage, until
from tests.engine_fixture import Say, call, delegate
from tests.virtual import virtual

PROFILE = ("writer", "allowedTools: [read_file, write_file, bash]", "supervision: supervised")
JUDGE = "You supervise a sub-agent."


def intent(*changes: str, commands: tuple[str, ...] = ()) -> Say:
    words = {"goal": "as asked", "changes": list(changes), "commands": list(commands), "result": "what I did"}
    return Say(json.dumps(words))


def write(name: str, text: str = "x") -> Any:
    return call("write_file", path=name, content=text)


def ruling(verdict: str, reason: str = "because", correction: str = "") -> Say:
    return Say(
        json.dumps({"verdict": verdict, "reason": reason, "correction": correction}), usage=Usage(input=100, output=7)
    )


class Court:
    """A model that plays a child by `turns` and its supervisor by `rulings`; the root asks for `task` and ends."""

    def __init__(self, turns: list[Say], rulings: list[Say] | None = None, *, profile: str = "writer") -> None:
        self.turns, self.rulings, self.profile = list(turns), list(rulings or []), profile
        self.judged: list[Request] = []

    def __call__(self, request: Request, count: int) -> Say:
        if request.system.startswith(JUDGE):
            self.judged.append(request)
            return self.rulings.pop(0)
        if request.agent == "a":
            return Say("", [delegate(self.profile, "write out.txt")]) if count == 0 else Say("fin")
        return self.turns.pop(0) if self.turns else Say("done")


def verdicts(s: Scene, path: str = "a.1") -> list[tuple[str, str]]:
    return [(v.verdict, v.by) for v in s.of(Verdict, path)]


@virtual
async def test_an_unsupervised_child_states_nothing_and_is_not_looked_at(stage: Stage) -> None:
    court = Court([Say("", [write("out.txt")]), Say("I wrote it")], profile="coder")
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.of(IntentStated) == []
        assert s.of(Verdict) == []
        assert court.judged == []


@virtual
async def test_what_agrees_is_accepted_without_asking_a_model(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court([intent("out.txt"), Say("", [write("out.txt")]), Say("I wrote out.txt")])
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("completed", "done")
        assert verdicts(s) == [("accept", "harness")]
        assert court.judged == []
        assert "state your intent" in s.heard("a.1")[1]
        assert json.loads(s.of(IntentStated, "a.1")[0].text)["changes"] == ["out.txt"]


@virtual
async def test_a_continued_child_is_held_to_what_it_means_to_do_now(stage: Stage) -> None:
    """What it changed before it was continued was looked at then."""
    stage.profile(*PROFILE)
    court = Court(
        [intent("out.txt"), Say("", [write("out.txt")]), Say("I wrote out.txt"), intent(), Say("It holds x.")]
    )
    async with stage.open(court) as s:
        await s.session.prompt("go")
        await s.session.resume_agent("a.1", "what does it hold?")
        assert verdicts(s) == [("accept", "harness")] * 2
        assert court.judged == []


@virtual
async def test_the_intent_comes_before_any_tool_can_run(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court([Say("at once", [write("out.txt")]), Say("nothing")], [ruling("accept")])
    async with stage.open(court) as s:
        await s.session.prompt("go")
        first, second, *_ = s.requests("a.1")
        assert first.tool_choice == "none"
        assert second.tool_choice == "auto"
        assert not (stage.project / "out.txt").exists(), "a call in place of an intent is not run"


@virtual
async def test_a_wrong_result_is_redone_and_mended(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court(
        [intent("out.txt"), Say("I wrote out.txt"), Say("", [write("out.txt", "now")]), Say("I wrote out.txt, really")],
        [ruling("redo", "the file was not written", "write out.txt and check that it is there")],
    )
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("completed", "done")
        assert s.finished("a.1").result == "I wrote out.txt, really"
        assert (stage.project / "out.txt").read_text() == "now"
        assert verdicts(s) == [("redo", "model"), ("accept", "harness")]
        reasons = s.of(Verdict, "a.1")[0].reasons
        assert "claims changes, but no file was changed" in reasons
        assert "meant to change and did not: out.txt" in reasons
        assert "Your result was not accepted. Do it again, mended: write out.txt and check" in s.heard("a.1")[-1]
        (asked,) = court.judged
        assert asked.tools == ()
        assert "write out.txt" in asked.messages[0].text
        assert "tools run: none" in asked.messages[0].text


@virtual
async def test_what_was_not_said_before_parts(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court(
        [intent("src/*.txt"), Say("", [write("src/a.txt"), write("else.txt")]), Say("I wrote both")],
        [ruling("accept", "harmless")],
    )
    async with stage.open(court) as s:
        await s.session.prompt("go")
        (verdict,) = s.of(Verdict, "a.1")
        assert verdict.reasons == ("changed without having said so: else.txt",)
        assert (verdict.verdict, verdict.by, verdict.reason) == ("accept", "model", "harmless")
        assert s.end("a.1") == ("completed", "done")


@virtual
async def test_a_result_is_redone_once_and_then_refused(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court(
        [intent("out.txt"), Say("I wrote it"), Say("I wrote it, I swear")],
        [ruling("redo", "nothing there"), ruling("redo", "still nothing")],
    )
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("failed", "supervision")
        assert s.finished("a.1").result == "I wrote it, I swear"
        assert verdicts(s) == [("redo", "model"), ("pause", "model")]
        assert s.results()[0].startswith("error: ## Result from 'writer' (a.1): failed (supervision)")


@pytest.mark.parametrize(
    "answer",
    [ruling("pause", "only a person can say"), Say("I think it is fine"), Say("", fail=ProviderError("auth", "no key")),
     Say('{"verdict": "fine"}'), Say('{"reason": "accept"}')],
)  # fmt: skip
@virtual
async def test_a_pause_and_what_cannot_be_judged_refuse_the_result(stage: Stage, answer: Say) -> None:
    stage.profile(*PROFILE)
    court = Court([intent("out.txt"), Say("I wrote it")], [answer])
    async with stage.open(court, attended=True) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("failed", "supervision")
        assert verdicts(s) == [("pause", "model")]
        assert s.of(QuestionAsked) == [], "supervised alone puts nothing to a person"


@virtual
async def test_a_supervisor_that_cannot_be_paid_refuses_the_result(stage: Stage) -> None:
    stage.profile("writer", "supervision: supervised", "allowedTools: []", "maxTokenBudget: 12000")
    court = Court([intent("x"), Say("I wrote it", usage=Usage(input=11_000))], [ruling("accept")])
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("failed", "supervision")
        assert "could not be asked" in s.of(Verdict, "a.1")[0].reason


@virtual
async def test_results_that_are_failures_anyway_are_not_judged(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court([intent("x"), Say("", [call("task_result", result="cannot", status="error")])])
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("failed", "reported")
        assert court.judged == []


# ---- a person ------------------------------------------------------------------------------------------------


async def put_to_a_person(
    stage: Stage, answer: str, turns: list[Say], rulings: list[Say], *, attended: bool = True
) -> Scene:
    stage.profile("writer", "allowedTools: [write_file]", "supervision: supervised-human")
    async with stage.open(Court([intent("out.txt"), *turns], rulings), attended=attended) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        if attended:
            await until(lambda: s.of(QuestionAsked))
            (question,) = s.of(QuestionAsked)
            assert "The supervisor paused a.1 (writer): risky" in question.question
            assert question.choices == ("accept", "redo", "refuse")
            assert s.tree.known("a.1").status == "waiting_user"  # type: ignore[union-attr]
            await asyncio.sleep(5000)
            await s.session.answer(question.id, answer)
        await asking
        return s


@virtual
async def test_a_person_accepts(stage: Stage) -> None:
    s = await put_to_a_person(stage, "accept", [Say("I wrote it")], [ruling("pause", "risky")])
    assert s.end("a.1") == ("completed", "done")
    assert verdicts(s) == [("pause", "model"), ("accept", "person")]
    assert s.finished("a.1").duration_s < 10, "the time of a person does not count"


@virtual
async def test_a_person_refuses(stage: Stage) -> None:
    s = await put_to_a_person(stage, "no, stop this", [Say("I wrote it")], [ruling("pause", "risky")])
    assert s.end("a.1") == ("failed", "supervision")
    assert verdicts(s) == [("pause", "model"), ("pause", "person")]


@virtual
async def test_a_person_has_it_redone_with_their_own_words(stage: Stage) -> None:
    turns = [Say("I wrote it"), Say("", [write("out.txt")]), Say("I wrote it")]
    s = await put_to_a_person(stage, "redo: write it with a tool", turns, [ruling("pause", "risky")])
    assert s.end("a.1") == ("completed", "done")
    assert verdicts(s) == [("pause", "model"), ("redo", "person"), ("accept", "harness")]
    assert "Do it again, mended: write it with a tool" in s.heard("a.1")[-1]


@virtual
async def test_where_nobody_can_be_asked_the_result_is_refused(stage: Stage) -> None:
    s = await put_to_a_person(stage, "", [Say("I wrote it")], [ruling("pause", "risky")], attended=False)
    assert s.end("a.1") == ("failed", "supervision")


# ---- whose it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "lead", "helper", "found"),
    [
        ("unsupervised", "", "", ["unsupervised", "unsupervised"]),
        ("supervised", "", "", ["supervised", "supervised"]),
        ("supervised-human", "", "", ["supervised-human", "supervised-human"]),
        ("unsupervised", "supervised", "", ["supervised", "supervised"]),
        ("unsupervised", "", "supervised-human", ["unsupervised", "supervised-human"]),
        ("supervised-human", "unsupervised", "supervised", ["supervised-human", "supervised-human"]),
        ("supervised", "supervised-human", "unsupervised", ["supervised-human", "supervised-human"]),
    ],
)
@virtual
async def test_it_is_inherited_and_can_only_get_stricter(
    stage: Stage, settings: str, lead: str, helper: str, found: list[str]
) -> None:
    stage.config(f'[agents.delegation]\nsupervision = "{settings}"\n')
    stage.profile("lead", "subAgents: [helper]", *([f"supervision: {lead}"] if lead else []))
    stage.profile("helper", *([f"supervision: {helper}"] if helper else []))
    seen: dict[str, str] = {}

    def play(request: Request, count: int) -> Say:
        if request.agent != "a":
            seen[request.agent] = scene[0].tree.node(request.agent).agent.supervision
        profile = {"a": "lead", "a.1": "helper"}.get(request.agent)
        handed = any(c.name == "delegate_task" for m in request.messages for c in m.calls)
        if request.tool_choice == "none" or not profile or handed:
            return Say("{}")
        return Say("", [delegate(profile, "all of it" if request.agent == "a" else "look into the second drawer")])

    scene: list[Scene] = []
    async with stage.open(play) as s:
        scene.append(s)
        await s.session.prompt("go")
    assert [seen["a.1"], seen["a.1.1"]] == found


@virtual
async def test_verdicts_and_intents_are_in_the_record_and_not_in_the_parents_context(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court(
        [intent("out.txt"), Say("I wrote it"), Say("I wrote it again")],
        [ruling("redo", "zebra reason", "zebra fix"), ruling("accept", "zebra")],
    )
    async with stage.open(court) as s:
        await s.session.prompt("go")
        assert [v.reason for v in s.of(Verdict, "a.1")] == ["zebra reason", "zebra"]
        for request in s.requests():
            assert "zebra" not in str(request.messages)
            assert "as asked" not in str(request.messages)


@virtual
async def test_what_supervision_takes_is_the_childs_to_pay_and_counted_once(stage: Stage) -> None:
    stage.profile(*PROFILE)
    court = Court([intent("out.txt"), Say("I wrote it"), Say("I wrote it again")], [ruling("redo"), ruling("accept")])
    async with stage.open(court, flags={"limits.max_tokens": 500_000}) as s:
        await s.session.prompt("go")
        end = s.finished("a.1")
        assert end.usage.billed == 3 * 15 + 2 * 107
        assert end.tree_usage == end.usage
        assert s.finished("a").tree_usage.billed == end.usage.billed + 2 * 15
        assert s.root.budget.tokens.spent == s.finished("a").tree_usage.billed
        ended_too_early = [e for e in s.envelopes if e.event is not end and e.agent == "a.1"]
        from friday_cli.core.eventlog.replay import replay

        assert replay(ended_too_early)["a.1"].usage.billed == end.usage.billed, "a crash before the end loses no token"


@virtual
async def test_another_model_can_be_the_supervisor(stage: Stage) -> None:
    judge = stage.home / "judge.yaml"
    judge.write_text('agents:\n  \'*\':\n    - text: \'{"verdict": "accept", "reason": "the judge says so"}\'\n')
    stage.config(f'[agents.delegation]\nsupervisor_model = "scripted:{judge}"\n')
    stage.profile(*PROFILE)
    async with stage.open(Court([intent("out.txt"), Say("I wrote it")])) as s:
        await s.session.prompt("go")
        assert s.of(Verdict, "a.1")[0].reason == "the judge says so"
        assert s.of(AgentStarted, "a.1")[0].model == "scripted/stage"


@virtual
async def test_the_root_is_not_supervised_a_person_sees_what_it_says(stage: Stage) -> None:
    stage.config('[agents.delegation]\nsupervision = "supervised"\n')
    async with stage.open(Actors({"a": [Say("I wrote it")]})) as s:
        assert (await s.session.prompt("go")).text == "I wrote it"
        assert s.of(IntentStated) == []


@virtual
async def test_what_is_said_while_a_person_decides_is_still_heard(stage: Stage) -> None:
    stage.profile("writer", "allowedTools: [write_file]", "supervision: supervised-human")
    turns = [Say("I wrote it"), intent(), Say("in English, as you said")]
    async with stage.open(
        Court([intent("out.txt"), *turns], [ruling("pause", "risky"), ruling("accept")]), attended=True
    ) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(QuestionAsked))
        await s.session.send("a.1", "in English, please")
        await s.session.answer(s.of(QuestionAsked)[0].id, "accept")
        await asking
        assert "in English, please" in s.heard("a.1")[-1]
        assert s.end("a.1") == ("completed", "done")
        assert s.finished("a.1").result == "in English, as you said"
