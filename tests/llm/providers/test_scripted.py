"""The scripted provider: the same scenario gives the same replies, and a bad one is named with its line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FileError, ProviderError
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall, ToolResult, user
from friday_cli.core.protocol.provider import CallChunk, Chunk, ReplyDone, Request, TextChunk, ThinkingChunk
from friday_cli.llm.providers.scenario import Scenario
from friday_cli.llm.providers.scripted import ScriptedProvider
from tests.llm.providers.asking import fails

TOOLS = (ToolSpec("grep", "Search.", {"type": "object"}),)


def request(agent: str = "a", *messages: Message, **more: Any) -> Request:
    return Request(agent, "be brief", TOOLS, messages or (user("find it"),), 1000, **more)


async def play(provider: ScriptedProvider, asked: Request | None = None) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(asked or request())]


async def done(provider: ScriptedProvider, asked: Request | None = None) -> ReplyDone:
    last = (await play(provider, asked))[-1]
    assert isinstance(last, ReplyDone)
    return last


async def text(provider: ScriptedProvider, agent: str = "a") -> str:
    return (await done(provider, request(agent))).message.text


async def test_a_turn_streams_thinking_text_and_calls_then_done() -> None:
    turn = {"thinking": "hm", "text": "abcdef", "chunks": 3, "calls": [{"name": "grep", "arguments": {"x": 1}}]}
    chunks = await play(ScriptedProvider({"agents": {"a": [turn]}}))
    assert chunks[:-1] == [
        ThinkingChunk("hm"),
        TextChunk("ab"),
        TextChunk("cd"),
        TextChunk("ef"),
        CallChunk(0, "grep", len("{'x': 1}")),
    ]
    last = chunks[-1]
    assert isinstance(last, ReplyDone)
    assert last.stop == "tool_use"
    assert last.message == Message(
        "assistant", (Thinking("hm", "scripted"), Text("abcdef"), ToolCall("call_a_1_1", "grep", {"x": 1}))
    )


async def test_turns_are_counted_per_agent_and_the_most_exact_pattern_wins() -> None:
    agents = {
        "*": [{"text": "any"}] * 9,
        "a": [{"text": "root 1"}, {"text": "root 2"}],
        "a.*": [{"text": "child"}],
        "a.**": [{"text": "below"}] * 9,
        "a.2": [{"text": "second"}],
    }
    provider = ScriptedProvider({"agents": agents})
    said = [await text(provider, a) for a in ("a", "a.1", "a.2", "a.2.1", "a.3", "a", "b")]
    assert said == ["root 1", "child", "second", "below", "child", "root 2", "any"]


async def test_after_the_last_turn() -> None:
    turn = [{"text": "one"}]
    entries: dict[str, Any] = {
        "a.1": turn,
        "a.2": {"turns": turn, "repeat": "last"},
        "a.3": {"turns": turn, "otherwise": {"text": "else"}},
    }
    provider = ScriptedProvider({"agents": entries})
    for agent in entries:
        await text(provider, agent)
    assert [await text(provider, a) for a in entries] == ["done", "one", "else"]
    assert await text(provider, "unknown") == "done"
    with pytest.raises(ProviderError, match="no turn 1 for agent a") as raised:
        await play(ScriptedProvider({"agents": {"a": []}, "strict": True}))
    assert raised.value.kind == "config"
    scenario = {"agents": {"a": {"turns": [{"text": "one"}, {"text": "two"}], "count": "history"}}}
    history = (user("go"), Message("assistant", (Text("one"),)), user("on"))
    assert (await done(ScriptedProvider(scenario), request("a", *history))).message.text == "two", "in a new process"


async def test_rules_match_the_last_message_and_leave_the_list_alone() -> None:
    turns = [{"when": "ENOENT", "text": "gone"}, {"text": "first"}, {"text": "second"}]
    provider = ScriptedProvider({"agents": {"a": turns}})
    broken = Message("tool", (ToolResult("c1", "cat: ENOENT", "error"),), "harness")
    asked = [request(), request("a", user("x"), broken), request("a", broken, user("ok"))]
    assert [(await done(provider, r)).message.text for r in asked] == ["first", "gone", "second"]


async def test_results_task_and_last_fill_text_and_arguments() -> None:
    turn = {
        "text": "{results[0]}|{results[-1]}|{results[7]}|{task}|{last}|{other}",
        "calls": [{"name": "grep", "arguments": {"all": ["{results}"]}}],
    }
    results = Message("tool", (ToolResult("1", "one"), ToolResult("2", "two {task}")), "harness")
    reply = await done(ScriptedProvider({"agents": {"a": [turn]}}), request("a", user("T"), results, user("L")))
    assert reply.message.text == "one|two {task}|{results[7]}|T|L|{other}"
    assert reply.message.calls[0].arguments == {"all": ["one\ntwo {task}"]}


async def test_wrap_up_keeps_calls_only_when_stubborn() -> None:
    calls = {"calls": [{"name": "grep"}]}
    turns = [{**calls}, {**calls, "wrap_up": "so far: x"}, {**calls, "stubborn": True}, {"text": "plain"}]
    provider = ScriptedProvider({"agents": {"a": {"turns": turns, "wrap_up": "the end"}}})
    replies = [await done(provider, request(tool_choice="none")) for _ in turns]
    assert [r.message.text for r in replies] == ["the end", "so far: x", "", "plain"]
    assert [len(r.message.calls) for r in replies] == [0, 0, 1, 0]
    assert replies[0].stop == "end_turn"


@pytest.mark.parametrize(
    "fail", [None, {"kind": "overloaded", "message": "slow down", "status": 529, "retry_after": 2}]
)
async def test_a_failure_comes_after_the_given_chunks_and_the_next_turn_follows(fail: dict[str, Any] | None) -> None:
    turn: dict[str, Any] = {"chunks": ["a", "b", "c"], "truncate_after": 2, "usage": {"input": 7, "output": 2}}
    provider = ScriptedProvider({"agents": {"a": [{**turn, "fail": fail} if fail else turn, {"text": "ok"}]}})
    seen, error = await fails(provider, request())
    assert seen == [TextChunk("a"), TextChunk("b")]
    told = (error.kind, error.status, error.retry_after)
    assert told == (("overloaded", 529, 2) if fail else ("truncated", 0, None))
    assert ("slow down" in str(error)) is bool(fail)
    assert getattr(error.usage, "input", 0) == 7
    assert await text(provider) == "ok"


async def test_calls_have_ids_of_their_own_and_bad_arguments_are_an_error_with_the_raw_text() -> None:
    provider = ScriptedProvider({"agents": {"*": {"turns": [{"calls": [{"name": "grep"}] * 2}], "repeat": "last"}}})
    history: list[Message] = [user("go")]
    for _ in range(3):
        reply = (await done(provider, request("a.1", *history))).message
        history += [reply, Message("tool", tuple(ToolResult(c.id, "r") for c in reply.calls), "harness")]
    ids = [c.id for m in history for c in m.calls]
    assert len(set(ids)) == 6
    resumed = ScriptedProvider({"agents": {"*": {"turns": [{"calls": [{"name": "grep"}]}], "repeat": "last"}}})
    assert (await done(resumed, request("a.1", *history))).message.calls[0].id not in ids
    calls = [{"name": "grep", "raw": '{"x": '}, {"name": "grep", "raw": '{"x": 1}', "id": "mine"}]
    bad, good = (await done(ScriptedProvider({"agents": {"a": [{"calls": calls}]}}))).message.calls
    assert bad.error
    assert (bad.raw, bad.arguments) == ('{"x": ', {})
    assert good == ToolCall("mine", "grep", {"x": 1})


async def test_usage_and_cost() -> None:
    given = {"usage": {"input": 100, "output": 10, "cache_read": 900, "cache_write": 50}}
    price = {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": 2}
    priced = ScriptedProvider({"agents": {"a": [given, {"text": "x" * 400}]}, "price": price})
    usage = (await done(priced)).usage
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.billed) == (100, 900, 50, 10, 160)
    assert usage.cost_usd == pytest.approx((100 + 100 + 90 + 100) / 1e6)
    guessed = (await done(priced)).usage
    assert guessed.estimated
    assert not guessed.cached
    assert guessed.output >= 100
    assert (await done(ScriptedProvider({"agents": {"a": [given]}}))).usage.cost_usd is None


async def test_delays_are_asyncio_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    turn = {"text": "two words here", "delay_s": 5, "chunk_delay_s": 0.5}
    chunks = await play(ScriptedProvider({"agents": {"a": [turn]}}))
    assert slept == [5, 0.5, 0.5]
    assert [c.text for c in chunks if isinstance(c, TextChunk)] == ["two ", "words ", "here"]


YAML = """\
badge: "demo"
window: 9000
agents:
  a: [{text: hello, calls: [{name: grep, arguments: {since: 2026-01-02}}]}]
  "a.*": {turns: [{text: child}], repeat: last}
"""
TOML = """\
badge = "demo"
window = 9000
[[agents.a]]
text = "hello"
calls = [{ name = "grep", arguments = { since = 2026-01-02 } }]
[agents."a.*"]
repeat = "last"
turns = [{ text = "child" }]
"""


@pytest.mark.parametrize(("name", "body"), [("play.yaml", YAML), ("play.toml", TOML)])
async def test_files(tmp_path: Path, name: str, body: str) -> None:
    (tmp_path / name).write_text(body, encoding="utf-8-sig")
    provider = ScriptedProvider.from_file(str(tmp_path / name))
    assert (provider.name, provider.model, provider.badge, provider.window) == ("scripted", "play", "demo", 9000)
    reply = (await done(provider)).message
    assert reply.text == "hello"
    assert reply.calls[0].arguments == {"since": "2026-01-02"}
    assert [await text(provider, "a.1"), await text(provider, "a.1")] == ["child", "child"]


@pytest.mark.parametrize(("body", "line", "field", "words"), [
    ("agents:\n  a:\n    - txt: hi\n", 3, "agents.a[0].txt", "no such key"),
    ("agents:\n  a:\n    - text: 3\n", 3, "agents.a[0].text", "Expected `str`"),
    ("agents:\n  a:\n    turns:\n      - calls:\n          - id: x\n", 5, "agents.a.turns[0].calls[0]", "`name`"),
    ("agents:\n  a:\n    repeat: never\n", 3, "agents.a.repeat", "never"),
    ("agents:\n  a:\n    - {fail: {kind: bad}}\n", 3, "agents.a[0].fail.kind", "bad"),
    ("agents:\n  a:\n    - delay_s: -1\n", 3, "agents.a[0].delay_s", ">= 0"),
    ("agents:\n  a: hello\n", 2, "agents.a", "list of turns"),
    ("window: big\nagents: {}\n", 1, "window", "Expected `int`"),
    ("badge: x\n", 0, "agents", "is required"),
    ("agents: {}\nagents: {}\n", 2, "agents", "duplicate"),
    ("agents:\n  a: &x\n    - text: y\n  b: *x\n", 4, "agents.b", "alias"),
    ("agents: [\n", 2, "", "is not valid YAML"),
    ("- 1\n", 0, "", "a table"),
    ("", 0, "", "a table"),
    ("agents: !!python/object:os.system {}\n", 1, "", "is not valid YAML"),
])  # fmt: skip
def test_a_bad_file_is_named_with_line_and_field(tmp_path: Path, body: str, line: int, field: str, words: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(body)
    with pytest.raises(FileError) as raised:
        Scenario.load(str(path))
    assert (raised.value.line, raised.value.field) == (line, field)
    assert words in raised.value.problem
    assert "\n" not in str(raised.value)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"agents: {a: [{text: \xff}]}")
    (tmp_path / "bad.toml").write_text("agents = [\n")
    for name, words in (("none.yaml", "No such file"), ("latin.yaml", "UTF-8"), ("bad.toml", "not valid TOML")):
        with pytest.raises(FileError, match=words):
            Scenario.load(str(tmp_path / name))
