"""Looking at results before the parent does: what is compared, who is asked, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import AgentStarted, IntentStated, QuestionAsked, Verdict
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from tests.delegation.harness import Actors, Harness, ScriptedSession, until
from tests.engine_fixture import Say, call, delegate

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


class SupervisedModel:
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


def verdicts(s: ScriptedSession, path: str = "a.1") -> list[tuple[str, str]]:
    return [(v.verdict, v.by) for v in s.of(Verdict, path)]


async def test_who_is_not_supervised_and_what_has_failed_anyway_is_not_looked_at(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel([Say("", [write("out.txt")]), Say("I wrote it")], profile="coder")
    s = await harness.ran(supervised)
    assert (s.of(IntentStated), s.of(Verdict), supervised.judged) == ([], [], [])
    supervised = SupervisedModel([intent("x"), Say("", [call("task_result", result="cannot", status="error")])])
    s = await harness.ran(supervised)
    assert (s.end("a.1"), supervised.judged) == (("failed", "reported"), [])
    harness.config('[agents.delegation]\nsupervision = "supervised"\n')
    s = await harness.ran(Actors({"a": [Say("I wrote it")]}))
    assert (s.finished("a").result, s.of(IntentStated)) == ("I wrote it", []), "a person sees what the root says"


async def test_what_agrees_is_accepted_without_asking_a_model(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel([intent("out.txt"), Say("", [write("out.txt")]), Say("I wrote out.txt")])
    s = await harness.ran(supervised)
    assert s.end("a.1") == ("completed", "done")
    assert verdicts(s) == [("accept", "harness")]
    assert supervised.judged == []
    assert "state your intent" in s.heard("a.1")[1]
    assert json.loads(s.of(IntentStated, "a.1")[0].text)["changes"] == ["out.txt"]


async def test_a_continued_child_is_held_to_what_it_means_to_do_now(harness: Harness) -> None:
    """What it changed before it was continued was looked at then."""
    harness.profile(*PROFILE)
    supervised = SupervisedModel(
        [intent("out.txt"), Say("", [write("out.txt")]), Say("I wrote out.txt"), intent(), Say("It holds x.")]
    )
    async with harness.open(supervised) as s:
        await s.session.prompt("go")
        await s.session.result(await s.session.start_agent("a.1", "what does it hold?"))
        assert verdicts(s) == [("accept", "harness")] * 2
        assert supervised.judged == []


async def test_the_intent_comes_before_any_tool_can_run(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel([Say("at once", [write("out.txt")]), Say("nothing")], [ruling("accept")])
    s = await harness.ran(supervised)
    first, second, *_ = s.requests("a.1")
    assert first.text_only
    assert second.tool_choice == "auto"
    assert not (harness.project / "out.txt").exists(), "a call in place of an intent is not run"


async def test_a_wrong_result_is_redone_and_mended(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel(
        [intent("out.txt"), Say("I wrote out.txt"), Say("", [write("out.txt", "now")]), Say("I wrote out.txt, really")],
        [ruling("redo", "the file was not written", "write out.txt and check that it is there")],
    )
    s = await harness.ran(supervised)
    assert s.end("a.1") == ("completed", "done")
    assert s.finished("a.1").result == "I wrote out.txt, really"
    assert (harness.project / "out.txt").read_text() == "now"
    assert verdicts(s) == [("redo", "model"), ("accept", "harness")]
    reasons = s.of(Verdict, "a.1")[0].reasons
    assert "claims changes, but no file was changed" in reasons
    assert "planned to change but did not: out.txt" in reasons
    assert "Your result was not accepted. Redo it with this correction: write out.txt and check" in s.heard("a.1")[-1]
    (asked,) = supervised.judged
    assert asked.tools == ()
    assert "write out.txt" in asked.messages[0].text
    assert "tools run: none" in asked.messages[0].text


async def test_what_was_not_said_before_parts(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel(
        [intent("src/*.txt"), Say("", [write("src/a.txt"), write("else.txt")]), Say("I wrote both")],
        [ruling("accept", "harmless")],
    )
    s = await harness.ran(supervised)
    (verdict,) = s.of(Verdict, "a.1")
    assert verdict.reasons == ("changed without stating it: else.txt",)
    assert (verdict.verdict, verdict.by, verdict.reason) == ("accept", "model", "harmless")
    assert s.end("a.1") == ("completed", "done")


async def test_a_result_is_redone_once_and_then_refused(harness: Harness) -> None:
    harness.profile(*PROFILE)
    supervised = SupervisedModel(
        [intent("out.txt"), Say("I wrote it"), Say("I wrote it, I swear")],
        [ruling("redo", "nothing there"), ruling("redo", "still nothing")],
    )
    s = await harness.ran(supervised)
    assert s.end("a.1") == ("failed", "supervision")
    assert s.finished("a.1").result == "I wrote it, I swear"
    assert verdicts(s) == [("redo", "model"), ("pause", "model")]
    assert s.results()[0].startswith("error: ## Result from 'writer' (a.1): failed (supervision)")


@pytest.mark.parametrize(("answer", "took"), [
    (ruling("pause", "only a person can say"), 5), (Say("I think it is fine"), 5), (Say('{"verdict": "fine"}'), 5),
    (Say('{"reason": "accept"}'), 5), (Say("", fail=ProviderError("auth", "no key")), 5), (ruling("accept"), 11_000),
], ids=["pause", "words", "another verdict", "no verdict", "no answer", "it cannot be paid"])  # fmt: skip
async def test_a_pause_and_what_cannot_be_judged_refuse_the_result(harness: Harness, answer: Say, took: int) -> None:
    harness.profile(*PROFILE, "maxTokenBudget: 12000")
    supervised = SupervisedModel([intent("out.txt"), Say("I wrote it", usage=Usage(input=took))], [answer])
    s = await harness.ran(supervised, attended=True)
    assert (s.end("a.1"), verdicts(s)) == (("failed", "supervision"), [("pause", "model")])
    assert (took > 5) is ("could not be asked: " in s.of(Verdict, "a.1")[0].reason and not supervised.judged)
    assert s.of(QuestionAsked) == [], "supervised alone puts nothing to a person"


FINE, REFUSED = ("completed", "done"), ("failed", "supervision")
PAUSED = ("pause", "model")


@pytest.mark.parametrize(("answer", "end", "more"), [
    ("accept", FINE, [("accept", "person")]),
    ("no, stop this", REFUSED, [("pause", "person")]),
    ("redo: write it with a tool", FINE, [("redo", "person"), ("accept", "harness")]),
    (None, REFUSED, []),
])  # fmt: skip
async def test_a_person_decides_where_one_can_be_asked(
    harness: Harness, answer: str | None, end: tuple[str, str], more: list[tuple[str, str]]
) -> None:
    harness.profile("writer", "allowedTools: [write_file]", "supervision: supervised-human")
    turns = [Say("I wrote it"), Say("", [write("out.txt")]), Say("I wrote it")]
    supervised = SupervisedModel([intent("out.txt"), *turns], [ruling("pause", "risky")])
    async with harness.open(supervised, attended=answer is not None) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        if answer is not None:
            await until(lambda: s.of(QuestionAsked))
            (question,) = s.of(QuestionAsked)
            assert "The supervisor paused a.1 (writer): risky" in question.question
            assert question.choices == ("accept", "redo", "refuse")
            assert s.tree.known("a.1").status == "waiting_user"  # type: ignore[union-attr]
            await asyncio.sleep(5000)
            await s.session.answer(question.id, answer)
        await asking
    assert (s.end("a.1"), verdicts(s)[1:]) == (end, more)
    assert verdicts(s)[0] == PAUSED
    assert s.finished("a.1").duration_s < 10, "the time of a person does not count"
    if answer and answer.startswith("redo"):
        assert "Redo it with this correction: write it with a tool" in s.heard("a.1")[-1]


@pytest.mark.parametrize(("settings", "lead", "helper", "found"), [
    ("unsupervised", "", "", ["unsupervised", "unsupervised"]),
    ("supervised", "", "", ["supervised", "supervised"]),
    ("supervised-human", "", "", ["supervised-human", "supervised-human"]),
    ("unsupervised", "supervised", "", ["supervised", "supervised"]),
    ("unsupervised", "", "supervised-human", ["unsupervised", "supervised-human"]),
    ("supervised-human", "unsupervised", "supervised", ["supervised-human", "supervised-human"]),
    ("supervised", "supervised-human", "unsupervised", ["supervised-human", "supervised-human"]),
])  # fmt: skip
async def test_it_is_inherited_and_can_only_get_stricter(
    harness: Harness, settings: str, lead: str, helper: str, found: list[str]
) -> None:
    harness.config(f'[agents.delegation]\nsupervision = "{settings}"\n')
    harness.profile("lead", "subAgents: [helper]", *([f"supervision: {lead}"] if lead else []))
    harness.profile("helper", *([f"supervision: {helper}"] if helper else []))
    seen: dict[str, str] = {}

    def play(request: Request, count: int) -> Say:
        if request.agent != "a":
            seen[request.agent] = scene[0].tree.node(request.agent).agent.supervision
        profile = {"a": "lead", "a.1": "helper"}.get(request.agent)
        handed = any(c.name == "delegate_task" for m in request.messages for c in m.calls)
        if request.text_only or not profile or handed:
            return Say("{}")
        return Say("", [delegate(profile, "all of it" if request.agent == "a" else "look into the second drawer")])

    scene: list[ScriptedSession] = []
    async with harness.open(play) as s:
        scene.append(s)
        await s.session.prompt("go")
    assert [seen["a.1"], seen["a.1.1"]] == found


async def test_verdicts_and_intents_are_in_the_record_and_not_in_the_parents_context(harness: Harness) -> None:
    """What supervision takes is the child's to pay, and counted once."""
    harness.profile(*PROFILE)
    supervised = SupervisedModel(
        [intent("out.txt"), Say("I wrote it"), Say("I wrote it again")],
        [ruling("redo", "zebra reason", "zebra fix"), ruling("accept", "zebra")],
    )
    async with harness.open(supervised, flags={"limits.max_tokens": 500_000}) as s:
        await s.session.prompt("go")
        assert [v.reason for v in s.of(Verdict, "a.1")] == ["zebra reason", "zebra"]
        for request in s.requests():
            assert "zebra" not in str(request.messages)
            assert "as asked" not in str(request.messages)
        end = s.finished("a.1")
        assert end.usage.billed == 3 * 15 + 2 * 107
        assert end.tree_usage == end.usage
        assert s.finished("a").tree_usage.billed == end.usage.billed + 2 * 15
        assert s.root.budget.tokens.spent == s.finished("a").tree_usage.billed
        ended_too_early = [e for e in s.envelopes if e.event is not end and e.agent == "a.1"]
        assert replay(ended_too_early)["a.1"].usage.billed == end.usage.billed, "a crash before the end loses no token"


async def test_the_error_of_a_refused_result_has_not_the_words_of_the_supervisor(harness: Harness) -> None:
    harness.profile(*PROFILE)
    s = await harness.ran(
        SupervisedModel([intent("out.txt"), Say("I wrote it")], [ruling("pause", "zebra reason", "zebra fix")])
    )
    assert s.of(Verdict, "a.1")[0].reason == "zebra reason"
    (result,) = s.results()
    assert "(a.1): failed (supervision)\nerror: The supervisor did not accept the result.\n" in result
    assert "zebra" not in str([request.messages for request in s.requests()])
    assert "zebra" not in s.finished("a.1").error + s.finished("a.1").result


async def test_another_model_can_be_the_supervisor(harness: Harness) -> None:
    judge = harness.home / "judge.yaml"
    judge.write_text('agents:\n  \'*\':\n    - text: \'{"verdict": "accept", "reason": "the judge says so"}\'\n')
    harness.config(f'[agents.delegation]\nsupervisor_model = "scripted:{judge}"\n')
    harness.profile(*PROFILE)
    s = await harness.ran(SupervisedModel([intent("out.txt"), Say("I wrote it")]))
    assert s.of(Verdict, "a.1")[0].reason == "the judge says so"
    assert s.of(AgentStarted, "a.1")[0].model == "scripted/stage"


async def test_what_is_said_while_a_person_decides_is_still_heard(harness: Harness) -> None:
    harness.profile("writer", "allowedTools: [write_file]", "supervision: supervised-human")
    turns = [Say("I wrote it"), intent(), Say("in English, as you said")]
    async with harness.open(
        SupervisedModel([intent("out.txt"), *turns], [ruling("pause", "risky"), ruling("accept")]), attended=True
    ) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(QuestionAsked))
        await s.session.send("a.1", "in English, please")
        await s.session.answer(s.of(QuestionAsked)[0].id, "accept")
        await asking
        assert "in English, please" in s.heard("a.1")[-1]
        assert s.end("a.1") == ("completed", "done")
        assert s.finished("a.1").result == "in English, as you said"
