"""A fork continues its parent's conversation, byte for byte the same prefix; its limits act at dispatch."""

from __future__ import annotations

from friday_cli.core.protocol.events import AgentStarted, Compacted, Prefix
from friday_cli.core.protocol.messages import Usage
from friday_cli.view import NoteItem, SessionView
from tests.delegation.harness import Harness
from tests.engine_fixture import Say, call, delegate
from tests.strict import strict


def fork(profile: str = "researcher", task: str = "check it", **more: object) -> object:
    return delegate(profile, task, fork=True, **more)


async def test_a_fork_sends_the_system_tools_model_and_messages_of_its_parent(harness: Harness) -> None:
    harness.file("x.txt", "blue\n")
    script = {
        "a": [
            Say("reading", [call("read_file", path="x.txt")], thinking="hm"),
            Say("", [fork(), call("todo", items=[])]),
            Say("fin"),
        ],
        "a.1": [Say("it is blue")],
    }
    async with harness.open(script) as s:
        await s.session.prompt("what colour is x?")
        parent, child = s.requests()[1], s.requests("a.1")[0]
        assert (child.system, child.tools, child.cache_key) == (parent.system, parent.tools, parent.cache_key)
        assert child.messages[: len(parent.messages)] == parent.messages, "the cached prefix is shared"
        assert child.messages[1].parts[0].text == "hm"  # type: ignore[union-attr]
        calling, results, task = child.messages[len(parent.messages) :]
        assert [r.call_id for r in results.results] == [c.id for c in calling.calls], (
            "open calls have synthetic results"
        )
        assert {(r.status, r.text) for r in results.results} == {
            ("cancelled", "Continues in the main agent; you are a fork of it.")
        }
        assert task.source == "parent"
        assert "you are the sub-agent a.1 (researcher), a fork" in task.text
        assert task.text.endswith("# Your task\n\ncheck it")
        assert strict(child.messages) == []
        assert s.of(Prefix, "a.1")[0] == s.of(Prefix, "a")[0]
        assert "it is blue" in s.results()[1]
        notes = [i.text for i in SessionView.of(s.envelopes).agents["a.1"].transcript if isinstance(i, NoteItem)]
        assert notes[-1].startswith("Started as a fork of its parent, with "), "nothing was compacted"


async def test_its_limits_act_at_dispatch_though_all_is_listed(harness: Harness) -> None:
    harness.file("x.txt", "blue\n")
    harness.profile("reader", "allowedTools: [read_file]", "maxIterations: 2", "maxTokenBudget: 20000")
    script = {
        "a": [Say("", [fork("reader")]), Say("fin")],
        "a.1": [
            Say(
                "",
                [
                    call("write_file", path="y", content="y"),
                    delegate("researcher", "x"),
                    call("read_file", path="x.txt"),
                ],
            ),
            Say("ok"),
        ],
    }
    s = await harness.ran(script)
    assert "write_file" in [t.name for t in s.requests("a.1")[0].tools]
    wrote, handed, read = s.results("a.1")
    assert wrote == "denied: write_file cannot be used now. Tools you may use: read_file."
    assert handed.startswith("denied: delegate_task cannot be used now.")
    assert read == "ok: 1\tblue"
    start = s.of(AgentStarted, "a.1")[0]
    assert (start.tools, start.turns, start.tokens) == (("read_file",), 2, 20_000)


async def test_a_fork_pays_only_for_what_is_new_to_the_cache(harness: Harness) -> None:
    script = {
        "a": [
            Say("", [fork()], usage=Usage(input=30_000, output=100, cached=False)),
            Say("fin", usage=Usage(input=30_400, cached=False)),
        ],
        "a.1": [Say("ok", usage=Usage(input=30_300, output=10, cached=False))],
    }
    s = await harness.ran(script)
    assert s.finished("a.1").usage.billed == 310


async def test_a_fork_stands_whole_in_the_log_and_can_be_continued(harness: Harness) -> None:
    script = {
        "a": [Say("", [fork()]), Say("", [call("delegate_task", resume="a.1", task="once more")]), Say("fin")],
        "a.1": [Say("one"), Say("two")],
    }
    s = await harness.ran(script)
    assert len(s.of(Compacted, "a.1")) == 1
    first, second = s.requests("a.1")
    assert (second.system, second.tools) == (first.system, first.tools)
    assert second.messages[: len(first.messages)] == first.messages
    assert s.record("a.1").history[: len(first.messages)] == list(first.messages)


async def test_a_result_of_a_fork_can_be_demanded_in_a_form(harness: Harness) -> None:
    script = {
        "a": [Say("", [fork(schema={"type": "object", "required": ["n"]})]), Say("fin")],
        "a.1": [Say("it is 3"), Say('{"n": 3}')],
    }
    s = await harness.ran(script)
    assert s.finished("a.1").result == '{"n": 3}'
