"""Going back to an earlier message, forking from one, and compacting when a person wants it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.errors import FridayError, ProviderError, UsageError
from friday_cli.session import open
from friday_cli.store.records import SessionRow
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from friday_cli.view import MessageItem, NoteItem, SessionView
from tests.delegation.harness import Actors, Harness, MemoryStore, ScriptedSession, until
from tests.engine_fixture import Say, delegate
from tests.session.harness import Harness as DiskHarness
from tests.session.harness import delegates, says
from tests.store.files import sql
from tests.virtual import virtual


@pytest.fixture
def acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A harness in memory, on a virtual clock."""
    monkeypatch.setattr(open, "Store", MemoryStore)
    (tmp_path / "acts").mkdir()
    return Harness(tmp_path / "acts")


THREE = {"a": [Say("one"), Say("two"), Say("three"), Say("four")]}


async def talked(scene: ScriptedSession, *texts: str) -> None:
    for text in texts:
        await scene.session.prompt(text)


def said(scene: ScriptedSession) -> list[str]:
    """What the model is sent of the conversation, and the log's own word for the same."""
    now = [m.text for m in scene.root.conversation.history]
    assert now == [m.text for m in scene.record("a").history]
    return now


def shown(scene: ScriptedSession) -> list[str]:
    """What a face shows."""
    root = SessionView.of(scene.envelopes).root
    assert root is not None
    return [item.text for item in root.transcript if isinstance(item, (MessageItem, NoteItem))]


@virtual
async def test_a_rewind_restores_the_conversation_and_deletes_nothing(acts: Harness) -> None:
    async with acts.open(THREE) as scene:
        await talked(scene, "first", "second", "third")
        before = list(scene.envelopes)
        point = (await scene.session.rewind.to(2)).point
        assert point is not None
        assert (point.number, point.text) == (2, "second")
        assert scene.envelopes[: len(before)] == before
        assert said(scene) == ["first", "one"]
        assert shown(scene) == ["first", "one", "Rewound conversation and files."]
        await talked(scene, "another")
        assert said(scene) == ["first", "one", "another", "four"]
        assert [p.text for p in await scene.session.rewind.points()] == ["first", "another"]
        assert [m.text for m in scene.requests()[-1].messages] == ["first", "one", "another"]


@virtual
async def test_a_rewind_is_undone_and_redone(acts: Harness) -> None:
    async with acts.open(THREE) as scene:
        await talked(scene, "first", "second")
        await scene.session.rewind.to(1)
        assert said(scene) == []
        await scene.session.rewind.undo()
        assert said(scene) == ["first", "one", "second", "two"]
        assert shown(scene)[:4] == ["first", "one", "second", "two"]
        with pytest.raises(UsageError, match="no rewind"):
            await scene.session.rewind.undo()
        await scene.session.rewind.to(2)
        await scene.session.rewind.to(1)
        await scene.session.rewind.undo()
        assert said(scene) == ["first", "one"]
        await scene.session.rewind.undo()
        assert said(scene) == ["first", "one", "second", "two"]
        assert [e.undo for e in scene.of(ev.Rewound)] == [False, True, False, False, True, True]


@virtual
async def test_a_rewind_outlives_the_process_and_reaches_behind_a_compaction(acts: Harness) -> None:
    async with acts.open({"a": [Say("one"), Say("two"), Say("the summary")]}) as scene:
        await talked(scene, "first", "second")
        before, after = await scene.session.compact("keep the names")
        assert before > 0
        assert after > 0
        assert "keep the names" in scene.requests()[-1].messages[-1].text
        assert len(scene.root.conversation.history) == 1
        assert "the summary" in said(scene)[0]
        assert len(scene.of(ev.Compacted)) == 1
        await scene.session.rewind.to(2)
        assert said(scene) == ["first", "one"]
    async with acts.open({"a": [Say("again")]}, resume=acts.ids[0]) as scene:
        assert said(scene) == ["first", "one"]
        await talked(scene, "go on")
        sent = [m.text.rsplit("\n", 1)[-1] for m in scene.requests()[-1].messages]
        assert sent == ["first", "one", "go on"]


@virtual
async def test_a_summary_names_no_agent_of_a_part_that_was_left(acts: Harness) -> None:
    def listed(scene: ScriptedSession) -> list[str]:
        words = scene.of(ev.Compacted)[-1].messages[0].text.partition("Sub-agents of this session:")[2]
        return [line.partition(" ")[0] for line in words.split("\n") if line]

    turns = [Say("", [delegate("general")]), Say("one"), Say("", [delegate("general")]), Say("two"), Say("sum")]
    async with acts.open({"a": turns, "a.1": [Say("x")], "a.2": [Say("y")]}) as scene:
        await talked(scene, "first", "second")
        await scene.session.rewind.to(2)
        await scene.session.compact()
        assert listed(scene) == ["a.1"]
        await scene.session.rewind.to(1)
    async with acts.open({"a": [Say("sum")] * 4}, resume=acts.ids[0]) as scene:
        await talked(scene, "third")
        await scene.session.compact()
        assert listed(scene) == []
        await scene.session.rewind.undo()
        await talked(scene, "fourth")
        await scene.session.compact()
        assert listed(scene) == ["a.1"]


@virtual
async def test_thinking_of_another_model_is_not_taken_back_to(acts: Harness) -> None:
    async with acts.open(Actors({"a": [Say("one", thinking="hm")]}, model="older")) as scene:
        await talked(scene, "first")
    async with acts.open({"a": [Say("two"), Say("three")]}, resume=acts.ids[0]) as scene:
        await talked(scene, "second")
        await scene.session.rewind.to(2)
        assert said(scene) == ["first", "one"]
        assert [len(m.parts) for m in scene.root.conversation.history] == [1, 1]


@virtual
async def test_nothing_is_rewound_or_compacted_while_an_agent_is_at_work(acts: Harness) -> None:
    play = {"a": [Say("", [delegate("general", background=True)]), Say("waits"), Say("done")], "a.1": [Say("late")]}
    actors = Actors(play)
    held = actors.hold("a.1")
    async with acts.open(actors) as scene:
        node = scene.session.start("go")
        await scene.session.result(node)
        for doing in (scene.session.rewind.to(1), scene.session.rewind.undo(), scene.session.compact()):
            with pytest.raises(UsageError, match=r"while a\.1 is running"):
                await doing
        held.set()


@virtual
async def test_while_it_is_compacted_nothing_begins(acts: Harness) -> None:
    actors = Actors({"a": [Say("one"), Say("the summary"), Say("two")]})
    held = actors.hold("a", 1)
    async with acts.open(actors) as scene:
        with pytest.raises(UsageError, match="nothing to compact"):
            await scene.session.compact()
        await talked(scene, "first")
        compacting = asyncio.create_task(scene.session.compact())
        await until(lambda: scene.session._main._busy)
        with pytest.raises(UsageError, match="being compacted"):
            scene.session.start("second")
        with pytest.raises(UsageError, match="being compacted"):
            await scene.session.rewind.to(1)
        compacting.cancel()
        await asyncio.wait([compacting])
        assert said(scene) == ["first", "one"], "what was stopped has changed nothing"
        held.set()
        await talked(scene, "second")


@virtual
async def test_a_compaction_that_fails_changes_nothing_and_says_why(acts: Harness) -> None:
    broken = ProviderError("auth", "The key was refused.")
    async with acts.open({"a": [Say("one"), Say("", fail=broken), Say("two")]}) as scene:
        await talked(scene, "first")
        with pytest.raises(FridayError, match="key was refused"):
            await scene.session.compact()
        assert said(scene) == ["first", "one"]
        await talked(scene, "second")


async def test_a_fork_continues_from_a_message_and_the_old_session_stays(harness: DiskHarness) -> None:
    play = {"a": [delegates("general", "look at it"), says("one"), says("two"), says("new")], "a.1": [says("found 42")]}
    harness.plays(play)
    async with harness.session() as session:
        await session.prompt("first")
        await session.prompt("second")
        old = await session.history()
        name = await session.rewind.fork(at=2)
    assert [e.event for e in await harness.log(session.id)] == [e.event for e in old]
    assert [row.id for row in await _rows()] == [name, session.id]  # the newest, with which -c goes on
    harness.plays({"a": [says("forked")]})
    async with harness.session(resume=name) as fork:
        assert [p.text for p in await fork.rewind.points()] == ["first"]
        known = fork._tree.known("a.1")
        assert known is not None
        assert known.end is not None
        assert known.end.text == "found 42"
        assert (await fork.prompt("other")).text == "forked"
        assert fork._main.agent.conversation.history[0].text == "first"
        assert "second" not in [m.text for m in fork._main.agent.conversation.history]
        rows = {row.profile: row for row in await fork._parts.storage.store.stats()}
        assert (rows["friday"].agents, rows["friday"].runs) == (2, 3)  # what was copied was spent and run once
        assert (rows["general"].agents, rows["general"].runs) == (1, 1)
        spent = [agent.usage.billed for agent in replay(await harness.log(session.id)).values()]
        mine = fork._main.agent.usage.billed - replay(_taken(await harness.log(name)))["a"].usage.billed
        assert sum(row.tokens for row in rows.values()) == sum(spent) + mine
        # as a fork was before its log said what it took
        sql(store_path(), "UPDATE events SET body = replace(body, '\"taken\"', '\"was\"') WHERE seq = 1")
        assert {row.profile: row for row in await fork._parts.storage.store.stats()} == rows
    assert [e.event for e in await harness.log(session.id)] == [e.event for e in old]


async def _rows() -> list[SessionRow]:
    async with Store(store_path()) as store:
        return await store.list_sessions()


def _taken(envelopes: list[ev.Envelope]) -> list[ev.Envelope]:
    """What a fork's log has of the other session."""
    first = envelopes[0].event
    assert isinstance(first, ev.SessionStarted)
    return [e for e in envelopes if (e.seq or 0) <= first.taken]


async def test_a_fork_of_a_session_at_work_ends_what_was_at_work(harness: DiskHarness) -> None:
    harness.plays({"a": [says("one")]})
    async with harness.session() as session:
        await session.prompt("first")
        whole = await session.rewind.fork()
        with pytest.raises(UsageError, match="nothing before"):
            await session.rewind.fork(at=1)
        with pytest.raises(UsageError, match="no message 7"):
            await session.rewind.fork(at=7)
        session.start("second")
        middle = await session.rewind.fork()
    assert [type(e.event) for e in await harness.log(whole)][-2:] == [ev.AgentFinished, ev.Notice]
    assert all(record.end is not None for record in replay(await harness.log(middle)).values())
    async with harness.session(resume=whole) as fork:
        texts = [e.event.message.text for e in await harness.log(fork.id) if isinstance(e.event, ev.MessageAdded)]
        assert texts == ["first", "one"]
