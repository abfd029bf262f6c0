"""What a parent gets: data in a demanded form, findings with their evidence, long results in short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from friday_cli.core.protocol.events import AgentFinished, AgentStarted
from friday_cli.core.protocol.messages import ToolCall
from tests.delegation.harness import Harness
from tests.engine_fixture import Say, call, delegate

SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}


def done(result: str, status: str = "success", findings: Any = (), **claims: Any) -> ToolCall:
    return call("task_result", result=result, status=status, findings=list(findings), **claims)


async def handed_in(harness: Harness, *turns: Say) -> tuple[tuple[str, str], str, list[str]]:
    """How a child ended that answered with `turns` where a schema was required; what its parent read, and the notes that the child got."""
    script = {"a": [Say("", [delegate("researcher", "count", schema=SCHEMA)]), Say("fin")], "a.1": list(turns)}
    s = await harness.ran(script)
    return s.end("a.1"), s.results()[0], [*s.results("a.1"), *s.heard("a.1")]


async def test_data_that_does_not_fit_is_sent_back_and_mended(harness: Harness) -> None:
    end, read, told = await handed_in(
        harness, *[Say("", [done(data)]) for data in ("three", '{"count": "3"}', '{"count": 3}')]
    )
    assert end == ("completed", "done")
    wrong = "error: task_result: the result does not match the required schema: "
    assert told[0].startswith(f"{wrong}it is not JSON")
    assert told[1] == f"{wrong}at $.count: '3' is not of type 'integer'. Send a corrected result."
    assert '{"count": 3}' in read


FINE, FAILED = ("completed", "done"), ("failed", "reported")


@pytest.mark.parametrize(
    ("turns", "ended", "complaints", "words"),
    [
        (
            [Say("", [done('{"count": 3}')])],
            FINE,
            0,
            ["ok: ## Result from 'researcher' (a.1): completed\n> {\"count\": 3}\n"],
        ),
        ([Say("three"), Say('```json\n{"count": 3}\n```')], FINE, 1, ['{"count": 3}']),
        ([Say("", [done("[" * 20_000)]), Say("", [done('{"count": 3}')])], FINE, 1, ['{"count": 3}']),
        ([Say("", [done("there is nothing to count", "error")])], FAILED, 0, ["there is nothing to count"]),
        (
            [Say(f"try {n}", [done("{}")]) for n in range(5)],
            FAILED,
            3,
            [
                "error: ## Result from 'researcher' (a.1): failed (reported)",
                "try 2",
                "The result does not match the required schema: at $: 'count' is a required property",
            ],
        ),
    ],
    ids=[
        "it fits",
        "a final text",
        "it is nested too deeply",
        "an error needs none",
        "after two repairs it has failed",
    ],
)
async def test_a_result_is_held_to_its_form(
    harness: Harness, turns: list[Say], ended: tuple[str, str], complaints: int, words: list[str]
) -> None:
    end, read, told = await handed_in(harness, *turns)
    assert (end, len([text for text in told if "required schema" in text])) == (
        ended,
        complaints,
    )
    assert all(word in read for word in words), read


def nested(depth: int) -> dict[str, Any]:
    return {"properties": {"a": nested(depth - 1)}} if depth else {}


@pytest.mark.parametrize(
    ("schema", "words"),
    [({"type": "nonsense"}, "is not valid: "), (nested(150), "is nested too deeply to be checked.")],
    ids=["no schema", "nested"],
)
async def test_a_schema_that_is_none_is_refused_before_anything_starts(
    harness: Harness, schema: dict[str, Any], words: str
) -> None:
    bad = [delegate("researcher", "count", schema=schema) for _ in range(10)]
    async with harness.open({"a": [Say("", bad), Say("fin")]}, flags={"limits.max_tokens": 100_000}) as s:
        await s.session.prompt("go")
        assert s.agents() == []
        assert all(read.startswith(f"error: The JSON schema {words}") for read in s.results())
        assert s.root.budget.tokens.holdback == 0, "and sets nothing aside"


async def test_a_pattern_that_would_be_matched_for_ever_is_given_up(harness: Harness) -> None:
    asked = delegate("researcher", "count", schema={"type": "string", "pattern": "(a+)+$"})
    answers = [Say("", [done(json.dumps("a" * 50 + "!"))]), Say("", [done('"aaa"')])]
    s = await harness.ran({"a": [Say("", [asked]), Say("fin")], "a.1": answers})
    assert s.end("a.1") == ("completed", "done")
    assert "it cannot be checked within 1 s; a pattern of the schema may be too slow" in s.results("a.1")[0]


async def test_findings_carry_evidence_and_the_harness_marks_what_it_saw(harness: Harness) -> None:
    harness.file("src/app.py", "one\ntwo\n")
    findings = [
        {"claim": "two is there", "evidence": "src/app.py:2"},
        {"claim": "so is the end", "evidence": "src/app.py:1-2, ./src/app.py"},
        {"claim": "three is there", "evidence": "src/other.py:3"},
        {"claim": "the page says so", "evidence": "https://example.org/x"},
        {"claim": "tests pass", "evidence": "pytest -q"},
        {"claim": "half of it", "evidence": "src/app.py:1; src/never.py:9"},
    ]
    script = {
        "a": [Say("", [delegate("researcher", "look")]), Say("fin")],
        "a.1": [
            Say("", [call("read_file", path="src/app.py")]),
            Say("", [done("see the findings", findings=findings)]),
        ],
    }
    s = await harness.ran(script)
    assert [f.seen for f in s.finished("a.1").findings] == [True, True, False, False, False, False]
    (read,) = s.results()
    assert "- two is there\n  Evidence: src/app.py:2 [seen by the harness]" in read
    assert "- three is there\n  Evidence: src/other.py:3 [NOT seen by the harness]" in read
    script = {"a": [Say("", [call("get_delegation_result", id="a.1")]), Say("fin")]}
    s = await harness.ran(script, resume=s.session.id, prompt="again")
    assert "Evidence: src/app.py:2 [seen by the harness]" in s.results()[-1], "also for a later process"


async def test_a_child_cannot_mark_its_own_evidence(harness: Harness) -> None:
    findings = [{"claim": "x", "evidence": "a.py:1", "seen": True}]
    script = {
        "a": [Say("", [delegate("researcher", "look")]), Say("fin")],
        "a.1": [
            Say("", [done("r", findings=findings)]),
            Say("", [done("x", findings=[{"claim": "x", "evidence": "a.py:1 [seen by the harness]"}])]),
        ],
    }
    s = await harness.ran(script)
    assert s.results("a.1")[0].startswith("error: task_result: there is no argument `findings.seen`.")
    assert "[NOT seen by the harness]" in s.results()[0]


LONG = "".join(f"fact {n}\n" for n in range(4000))


@pytest.mark.parametrize("settings", ["", 'long_results = "summary"'])
async def test_a_long_result_comes_as_head_and_tail_with_its_length_and_the_way_to_the_rest(
    harness: Harness, settings: str
) -> None:
    """Also where a summary is wanted and the summarizer fails."""
    harness.config(f"[agents.delegation]\n{settings}\n")
    script = {
        "a": [Say("", [delegate("researcher", "look")]), Say("fin")],
        "a.1": [Say(LONG)],
        "a.2": [Say("", [done("cannot", "error")])],
    }
    s = await harness.ran(script)
    (read,) = s.results()
    assert s.agents() == (["a.1", "a.2"] if settings else ["a.1"])
    assert len(read) < 30_000 < len(LONG)
    assert "fact 0\n" in read
    assert "fact 3999" in read
    assert (
        f"truncated: {len(LONG)} characters in all; continue with get_delegation_result(id='a.1', offset=15600)" in read
    )
    assert s.finished("a.1").result == LONG, "nothing is lost"


async def test_a_long_result_comes_as_a_summary_where_the_settings_want_one(harness: Harness) -> None:
    harness.config('[agents.delegation]\nlong_results = "summary"\n')
    script = {
        "a": [
            Say("", [delegate("researcher", "look")]),
            Say("", [call("get_delegation_result", id="a.1", offset=38_000)]),
            Say("fin"),
        ],
        "a.1": [Say(LONG)],
        "a.2": [Say("4000 facts, numbered")],
    }
    s = await harness.ran(script)
    first, rest = s.results()
    assert (
        f"4000 facts, numbered\n[truncated: this is a summary of {len(LONG)} characters; get_delegation_result(id='a.1')"
        in first
    )
    assert "fact 17" not in first
    assert "fact 3999" in rest
    (summarizer,) = s.of(AgentStarted, "a.2")
    assert summarizer.profile == "summarizer"
    assert LONG.strip() in s.requests("a.2")[0].messages[0].text
    assert s.finished("a.2").receipt.warnings == (), "all it works on stood in its task: no tool was needed"
    assert "The task was:\nlook" in s.requests("a.2")[0].messages[0].text


async def test_a_finished_childs_history_is_sealed_and_only_its_result_comes_back(harness: Harness) -> None:
    harness.file("x.txt", "the secret word\n")
    script = {
        "a": [Say("", [delegate("researcher", "look")]), Say("fin")],
        "a.1": [Say("inner thoughts", [call("read_file", path="x.txt")]), Say("nothing special")],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        before = list(s.record("a.1").history)
        assert "secret word" not in str(s.requests()[-1].messages)
        assert "inner thoughts" not in str(s.requests()[-1].messages)
        await s.session.prompt("and again")
        assert s.record("a.1").history == before


async def test_what_a_sub_agent_did_backs_the_words_of_its_parent(harness: Harness) -> None:
    """Also in a later run, and not those of a parent whose sub-agent did nothing."""
    worked = [
        Say("", [call("write_file", path="y.txt", content="y")]),
        Say("", [done("I wrote it.", changed=["y.txt"])]),
    ]
    script = {
        "a": [Say("", [delegate("coder", "x")]), Say("I wrote y.txt."), Say("As I said: I wrote y.txt.")],
        "a.1": worked,
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        await s.session.prompt("really?")
    assert [end.receipt.warnings for end in s.of(AgentFinished)] == [(), (), ()]
    s = await harness.ran({**script, "a.1": [Say("I wrote y.txt.")]})
    assert s.finished("a").receipt.warnings == ("claims changes, but no file was changed",)
