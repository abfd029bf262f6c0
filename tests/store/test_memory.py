from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.store import memory, migrations
from friday_cli.store.records import MemoryItem
from friday_cli.store.store import Store
from tests.store.files import content_of, sql


@pytest.fixture(params=["fts5", "without fts5"])
def search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without fts5":
        for module in (migrations, memory):
            monkeypatch.setattr(module, "has_search", lambda db: False)


@pytest.mark.usefixtures("search")
async def test_notes_are_found_by_their_words_within_their_scope(store: Store) -> None:
    here, there = store.notes.for_session("/work", "s1"), store.notes.for_session("/other", "s2")
    await here.save("The build needs make -j2", scope="project", tags=["build"], agent="a")
    await store.notes.promote([(await here.save("I like short answers", scope="user", tags=["style"], agent="a")).id])
    await there.save("The build here is slow", scope="project", tags=["build"], agent="a")
    assert [i.text for i in await here.load("build", tags=[], limit=9)] == ["The build needs make -j2"]
    assert [i.text for i in await there.load("BUILD", tags=[], limit=9)] == ["The build here is slow"]
    assert [i.text for i in await there.load("answer", tags=[], limit=9)] == ["I like short answers"]
    assert await here.load("zebra", tags=[], limit=9) == []


@pytest.mark.usefixtures("search")
async def test_an_empty_query_gives_the_newest_and_tags_narrow(store: Store) -> None:
    notes = store.notes.for_session("/work", "s1")
    for number in range(5):
        await notes.save(f"note {number}", scope="project", tags=["odd" if number % 2 else "even", "All"], agent="a")
    assert [i.text for i in await notes.load("", tags=[], limit=2)] == ["note 4", "note 3"]
    assert [i.text for i in await notes.load("", tags=["ODD", "all"], limit=9)] == ["note 3", "note 1"]
    assert [i.text for i in await notes.load("note", tags=["even"], limit=1)] != []


@pytest.mark.usefixtures("search")
async def test_the_better_match_comes_first_and_odd_queries_do_no_harm(store: Store) -> None:
    notes = store.notes.for_session("/work", "s1")
    await notes.save("tests run with pytest", scope="project", tags=[], agent="a")
    await notes.save("tests need a database, and the database needs docker", scope="project", tags=[], agent="a")
    assert (await notes.load("database tests", tags=[], limit=9))[0].text.startswith("tests need a database")
    for query in ('"', "*", "AND OR NOT", "a\x00b", "NEAR(", "x" * 5000, "half \ud83d"):
        await notes.load(query, tags=[], limit=3)
    odd = await notes.save("half \ud83d \x00", scope="user", tags=["\udfff"], agent="a")
    assert await notes.load("half", tags=[], limit=3) == [odd]


async def test_who_saved_a_note_is_kept(store: Store) -> None:
    notes = store.notes.for_session("/work", "7f3a")
    first = await notes.save("one", scope="project", tags=["t"], agent="a.2.1")
    await notes.save("two", scope="project", tags=[], agent="9999:a")
    two, one = await notes.load("", tags=[], limit=9, agent="a.2.1")
    assert one == first
    assert (one.agent, one.scope, one.tags, one.project, one.promoted) == (
        "7f3a:a.2.1",
        "project",
        ("t",),
        "/work",
        False,
    )
    assert two.agent == "9999:a"
    assert one.at > 1.6e9


async def test_notes_from_before_full_text_search_are_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for module in (migrations, memory):
            patch.setattr(module, "has_search", lambda db: False)
        async with Store(path) as plain:
            await plain.notes.for_session("/work", "s").save("an old remark", scope="project", tags=[], agent="a")
    async with Store(path) as store:
        notes = store.notes.for_session("/work", "s")
        assert [i.text for i in await notes.load("remark", tags=[], limit=9)] == ["an old remark"]
        await notes.save("a new remark", scope="project", tags=[], agent="a")
        assert {i.text for i in await notes.load("remark", tags=[], limit=9)} == {"an old remark", "a new remark"}


async def test_notes_outlive_the_session_that_made_them(store: Store, session: str) -> None:
    await store.notes.for_session("/work", session).save("stays", scope="project", tags=[], agent="a")
    await store.delete(session)
    assert [i.text for i in await store.notes.for_session("/work", "other").load("", tags=[], limit=9)] == ["stays"]


def texts(items: list[MemoryItem]) -> list[str]:
    return sorted(item.text for item in items)


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("query", ["", "note"])
async def test_a_childs_note_is_its_own_until_it_is_promoted(store: Store, query: str) -> None:
    notes, later = store.notes.for_session("/work", "s1"), store.notes.for_session("/work", "s2")
    child = await notes.save("note of a child", scope="project", tags=[], agent="a.1")
    wide = await notes.save("note of a child for the user", scope="user", tags=[], agent="s1:a.1")
    await notes.save("note of the root", scope="project", tags=[], agent="a")
    everybody, whole = ["note of the root"], ["note of a child", "note of a child for the user", "note of the root"]
    assert texts(await notes.load(query, tags=[], limit=9, agent="a.1")) == whole
    for other, agent in ((notes, "a"), (notes, "a.2"), (notes, "a.1.1"), (later, "a"), (later, "a.1")):
        assert texts(await other.load(query, tags=[], limit=9, agent=agent)) == everybody
    assert await store.notes.promote([child.id]) == [msgspec.structs.replace(child, promoted=True)]
    assert await store.notes.promote([child.id, wide.id]) == [msgspec.structs.replace(wide, promoted=True)], (
        "one of them counted already"
    )
    for other, agent in ((notes, "a"), (notes, "a.2"), (later, "a.1")):
        assert texts(await other.load(query, tags=[], limit=9, agent=agent)) == whole


@pytest.mark.parametrize("shared", [False, True])
async def test_a_note_for_the_user_waits_for_a_promotion_whoever_saved_it(store: Store, shared: bool) -> None:
    notes = store.notes.for_session("/work", "s1", shared=shared)
    other = store.notes.for_session("/other", "s2", shared=shared)
    note = await notes.save("Always push with --force", scope="user", tags=[], agent="a")
    assert texts(await notes.load("", tags=[], limit=9)) == ["Always push with --force"], "its own session knows it"
    assert await other.load("", tags=[], limit=9) == []
    await store.notes.promote([note.id])
    assert texts(await other.load("", tags=[], limit=9)) == ["Always push with --force"]


@pytest.mark.parametrize("number", ["7", "", "x", "1 ", "-1", "1" * 40, "٣"])
async def test_a_note_that_is_none_is_said_and_nothing_else_is_done(store: Store, number: str) -> None:
    kept = await store.notes.for_session("/work", "s1").save("x", scope="user", tags=[], agent="a.1")
    for call in (store.notes.get(number), store.notes.promote(["1", number]), store.notes.forget(["1", number])):
        with pytest.raises(UsageError, match="There is no note"):
            await call
    assert await store.notes.list_notes(None) == [kept]


@pytest.mark.usefixtures("search")
async def test_what_is_forgotten_is_gone_from_the_file_and_its_id_is_not_given_again(store: Store, path: Path) -> None:
    notes = store.notes.for_session("/work", "s1")
    await notes.save("stays", scope="project", tags=[], agent="a")
    gone = await notes.save("canary4711", scope="project", tags=["canary4712"], agent="a")
    assert await store.notes.forget([gone.id, gone.id]) == [gone]
    assert texts(await notes.load("", tags=[], limit=9)) == ["stays"]
    assert await notes.load("canary4711", tags=[], limit=9) == []
    assert int((await notes.save("next", scope="project", tags=[], agent="a")).id) > int(gone.id)
    await store.close()
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert not [word for word in (b"canary4711", b"canary4712") if word in content_of(path)]
