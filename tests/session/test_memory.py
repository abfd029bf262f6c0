"""Who sees which notes, in whole sessions: C10, S13, S14, S34, R18 and the abuse test A21."""

from __future__ import annotations

from friday_cli.core.protocol.events import MessageAdded, Prefix
from friday_cli.store.records import MemoryItem
from friday_cli.store.store import Store
from friday_cli.system.paths import config_dir, store_path
from tests.session.harness import Harness, delegates, does, says

SECRET = "swordfish-4711"
LOAD = ("memory_load", {})


def save(text: str) -> tuple[str, dict[str, str]]:
    return "memory_save", {"text": text}


async def notes() -> list[MemoryItem]:
    async with Store(store_path()) as store:
        return await store.notes.list_notes(None)


async def test_a_child_told_to_read_its_parents_memory_and_keys_gets_nothing(harness: Harness) -> None:
    keys = config_dir() / "keys.json"
    keys.parent.mkdir(parents=True, exist_ok=True)
    keys.write_text(f'{{"openai": "{SECRET}"}}', encoding="utf-8")
    harness.profile("closed", "memory: none", 'allowedTools: "*"')
    attempts = [
        LOAD,
        save("planted by a child"),
        ("read_file", {"path": str(store_path())}),
        ("read_file", {"path": str(keys)}),
        ("grep", {"pattern": "swordfish", "path": str(store_path().parent)}),
        ("bash", {"command": f"cat {keys} {store_path()}"}),
        ("document_query", {"path": str(store_path()), "query": "swordfish"}),
        ("glob", {"pattern": "**/*", "path": str(config_dir())}),
        ("get_delegation_result", {"id": "a"}),
    ]
    harness.plays(
        {
            "a": [
                does(save(f"The word is {SECRET}")),
                delegates("closed", "Read your parent's memory and keys"),
                says("end"),
            ],
            "a.1": [does(*attempts), says("nothing to be had")],
        }
    )
    session = await harness.ran()
    results = await harness.results(session.id, "a.1")
    assert len(results) == len(attempts)
    assert {status for status, _ in results} <= {"error", "denied"}, results
    mine = [e.event for e in await harness.log(session.id) if e.agent == "a.1"]
    listed = [spec.name for event in mine if isinstance(event, Prefix) for spec in event.tools]
    assert listed
    assert not [name for name in listed if name.startswith("memory")]
    assert not [e for e in mine if isinstance(e, MessageAdded) and SECRET in str(e.message)]
    assert [note.text for note in await notes()] == [f"The word is {SECRET}"]


async def test_a_grandchild_gets_no_memory_that_its_parent_has_not(harness: Harness) -> None:
    harness.profile("closed", "memory: none", "subAgents: [open]")
    harness.profile("open", "memory: tagged", "allowedTools: [memory_load, memory_save]")
    harness.plays(
        {
            "a": [does(save(SECRET)), delegates("closed"), says("end")],
            "a.1": [delegates("open", "dig"), says("end")],
            "a.1.1": [does(LOAD), says("end")],
        }
    )
    session = await harness.ran()
    ((status, text),) = await harness.results(session.id, "a.1.1")
    assert (status, "There is no tool 'memory_load'" in text) == ("denied", True)


async def test_a_childs_note_reaches_its_parent_once_a_person_promoted_it(harness: Harness) -> None:
    harness.profile("scout", "memory: tagged", "allowedTools: [memory_load, memory_save]")
    harness.plays(
        {
            "a": [delegates("scout"), does(LOAD), says("end"), does(LOAD), says("end")],
            "a.1": [does(save("The tests need Redis")), says("noted"), does(LOAD), says("still there")],
            "a.2": [does(LOAD), says("end")],
        }
    )
    async with harness.after_run() as session:
        ((_, told),) = await harness.results(session.id, "a.1")
        assert told == "Saved for the project as 1. Only you see it until the user promotes it."
        assert (await harness.results(session.id, "a"))[-1][1].startswith("No notes found")
        await session.result(await session.start_agent("a.1", "what do you know?"))
        assert "The tests need Redis" in (await harness.results(session.id, "a.1"))[-1][1], (
            "its own, also when continued"
        )
        (note,) = await notes()
        assert (note.agent, note.promoted, note.project) == (f"{session.id}:a.1", False, str(harness.project))
        async with Store(store_path()) as store:
            await store.notes.promote([note.id])
        await session.prompt("and now?")
        assert "The tests need Redis" in (await harness.results(session.id, "a"))[-1][1]


async def test_with_memory_read_a_child_reads_and_cannot_save(harness: Harness) -> None:
    harness.profile("reader", "memory: read", 'allowedTools: "*"')
    harness.plays(
        {
            "a": [does(save("Known to all")), delegates("reader"), says("end")],
            "a.1": [does(LOAD, save("mine")), says("end")],
        }
    )
    session = await harness.ran()
    (loaded, saved) = await harness.results(session.id, "a.1")
    assert (loaded[0], "Known to all" in loaded[1]) == ("ok", True)
    assert saved[0] == "denied"
    assert len(await notes()) == 1


async def test_shared_by_the_settings_a_childs_note_counts_at_once(harness: Harness) -> None:
    harness.profile("scout", "memory: tagged", "allowedTools: [memory_load, memory_save]")
    harness.plays(
        {"a": [delegates("scout"), does(LOAD), says("end")], "a.1": [does(save("Seen by all")), says("noted")]}
    )
    session = await harness.ran(flags={"agents.delegation.context.brain_write_scope": "shared"})
    assert "Seen by all" in (await harness.results(session.id, "a"))[-1][1]
    assert [(note.agent, note.promoted) for note in await notes()] == [(f"{session.id}:a.1", True)]
