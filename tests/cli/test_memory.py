"""`friday memory`: notes are listed, shown, promoted and thrown away by a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from friday_cli.store.records import MemoryItem
from friday_cli.store.store import Store
from friday_cli.system.paths import data_dir, store_path
from tests.cli.console import Console

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e\nsecond line"


def keep(project: Path, *notes: tuple[str, str], scope: str = "project", tag: str = "t") -> list[str]:
    """Notes of (agent, text), saved in this order; gives their ids."""

    async def work() -> list[str]:
        async with Store(store_path()) as store:
            memory = store.notes.for_session(str(project), "7f3a0000-0000-4000-8000-000000000000")
            ids = [(await memory.save(text, scope=scope, tags=[tag], agent=agent)).id for agent, text in notes]  # type: ignore[arg-type]
        return ids

    return asyncio.run(work())


def seen(project: Path, agent: str) -> list[str]:
    """What an agent of a later session finds."""

    async def work() -> list[MemoryItem]:
        async with Store(store_path()) as store:
            found = await store.notes.for_session(str(project), "later").load("", tags=[], limit=50, agent=agent)
        return found

    return sorted(item.text for item in asyncio.run(work()))


def test_the_list_shows_this_projects_notes_and_ones_own(console: Console) -> None:
    keep(console.project, ("a", "mine"), ("a.2", "a child's"))
    keep(console.home, ("a", "of another project"))
    keep(console.home, ("a", "about me"), scope="user")
    rows = [[row[0], row[2], row[3], row[4], row[-1]] for row in console("memory", "list").rows]
    assert rows == [
        ["4", "pending", "7f3a0000:a", "you", "about me"],
        ["2", "pending", "7f3a0000:a.2", "project", "a child's"],
        ["1", "promoted", "7f3a0000:a", "project", "mine"],
    ]
    assert [row[-1] for row in console("memory", "list", "--pending").rows] == ["about me", "a child's"]
    everything = console("memory", "list", "--all")
    assert len(everything.rows) == 4
    assert str(console.project) in everything.out
    document = console("memory", "list", "--pending", "--json").document
    assert [(d["id"], d["agent"].partition(":")[2], d["promoted"], d["tags"]) for d in document] == [
        ("4", "a", False, ["t"]),
        ("2", "a.2", False, ["t"]),
    ]


def test_a_folder_within_a_project_has_the_projects_notes(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    (console.project / ".git").mkdir()
    (console.project / "src").mkdir()
    keep(console.project, ("a", "mine"))
    monkeypatch.chdir(console.project / "src")
    assert [row[-1] for row in console("memory", "list").rows] == ["mine"]


def test_what_is_promoted_is_seen_by_every_agent(console: Console) -> None:
    one, two = keep(console.project, ("a.1", "first"), ("a.2", "second"))
    assert seen(console.project, "a") == []
    ran = console("memory", "promote", one)
    assert (ran.code, ran.out, ran.error) == (0, "", f"promoted note {one}: visible to every agent")
    assert seen(console.project, "a") == seen(console.project, "a.9") == ["first"]
    assert console("memory", "promote", one, two).error == f"promoted note {two}: visible to every agent"
    assert console("memory", "promote", one, two).error == f"already promoted: notes {one}, {two}"
    assert seen(console.project, "a") == ["first", "second"]


def test_forgetting_asks_first_and_shows_what(console: Console) -> None:
    one, two = keep(console.project, ("a.1", "first"), ("a", "second"))
    refused = console("memory", "forget", one)
    assert (refused.code, refused.out) == (2, f"{one}  first\n")
    assert (
        refused.error
        == "Nothing was deleted: this needs your confirmation, and there is no terminal to ask in. Add --yes to confirm."
    )
    asked = console.terminal("memory", "forget", one, says=[("[y/N]", "n\n")])
    assert "nothing was deleted" in asked.out
    assert len(console("memory", "list").rows) == 2
    asked = console.terminal("memory", "forget", one, says=[("Delete note 1?", "y\n")])
    assert (asked.code, "deleted note 1" in asked.out) == (0, True)
    assert console("memory", "forget", two, "--yes").error == f"deleted note {two}"
    assert console("memory", "list").error == "no notes in this project; --all lists all projects."


def test_a_note_in_full(console: Console) -> None:
    (one,) = keep(console.project, ("a.1", "first\nand more"))
    ran = console("memory", "show", one)
    assert ran.out.splitlines()[0] == "note 1  pending"
    assert "by 7f3a0000-0000-4000-8000-000000000000:a.1" in ran.out
    assert ran.out.endswith("\nfirst\nand more\n")
    assert console("memory", "show", one, "--json").document["project"] == str(console.project)


@pytest.mark.parametrize("command", ["show", "promote", "forget"])
def test_a_note_that_is_none_is_said(console: Console, command: str) -> None:
    assert console("memory", command, "7").error == "There are no notes yet."
    assert not data_dir().exists()
    (one,) = keep(console.project, ("a.1", "first"))
    numbers = ["7"] if command == "show" else [one, "7"]
    ran = console("memory", command, *numbers)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error == "There is no note '7'. `friday memory list --all` shows all notes."
    assert seen(console.project, "a") == []
    assert len(console("memory", "list").rows) == 1


@pytest.mark.parametrize("command", [("list",), ("show", "1"), ("forget", "1")])
def test_what_a_note_says_steers_no_terminal(console: Console, command: tuple[str, ...]) -> None:
    keep(console.project, ("a.1", EVIL), tag="\x1b[2J")
    ran = console("memory", *command)  # that no escape comes out is checked there
    assert "red" in ran.out
    assert "\u202e" not in ran.out
