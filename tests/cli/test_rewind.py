"""`friday sessions fork`, `rewind` and `diff`."""

from __future__ import annotations

import asyncio
import json

import pytest

from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.system.paths import data_dir
from tests.cli.console import Console


def test_a_fork_is_a_session_of_its_own(console: Console, session: str) -> None:
    ran = console.ok("sessions", "fork", session[:6], "--json")
    made = ran.document["session_id"]
    assert made != session
    shown = console("sessions", "show", made, "--tree")
    assert "researcher" in shown.out
    assert len(console("sessions", "list").rows) == 2
    assert "(fork)" in console("sessions", "list").out


def test_a_fork_says_what_it_cannot(console: Console, session: str) -> None:
    error = console("sessions", "fork", session, "--at", "9").error
    assert "There is no message 9 in this conversation. It has 1" in error
    assert "nothing before that message" in console("sessions", "fork", session, "--at", "1").error
    assert "Only a whole session" in console("sessions", "fork", f"{session}:a.1").error


def writes(path: str, content: str) -> dict[str, object]:
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


@pytest.fixture
def worked(console: Console) -> str:
    """A session that wrote two files, in two prompts."""
    turns = [{"calls": [writes("a.txt", "1\n")]}, {"text": "one"}, {"calls": [writes("b.txt", "2\n")]}, {"text": "two"}]
    play = console.home / "play.yaml"
    play.write_text(json.dumps({"agents": {"a": turns}}), encoding="utf-8")

    async def work() -> str:
        session = await Session.open(Options(console.project, model=f"scripted:{play}", mode="yolo"))
        for text in ("first [bold]prompt[/bold]", "second"):
            await session.prompt(text)
        await session.close()
        return session.id

    session = asyncio.run(work())
    assert sorted(path.name for path in console.project.iterdir()) == ["a.txt", "b.txt"]
    return session


def test_the_messages_are_listed_with_what_changed_since(console: Console, worked: str) -> None:
    rows = console("sessions", "rewind", worked[:8]).rows
    listed = [(row[0], row[2], row[3]) for row in rows]
    assert listed == [("1", "2 files", "first [bold]prompt[/bold]"), ("2", "1 file", "second")]
    points = console("sessions", "rewind", worked, "--json").document
    assert [(p["number"], p["files"]) for p in points] == [(1, ["a.txt", "b.txt"]), (2, ["b.txt"])]


def test_files_and_conversation_go_back_and_come_again(console: Console, worked: str) -> None:
    tried = console("sessions", "rewind", worked, "--to", "2", "--dry-run")
    assert "b.txt +0 -1 (deleted)" in tried.out
    assert (console.project / "b.txt").exists()
    asked = console("sessions", "rewind", worked, "--to", "2")
    words = (
        "Nothing was changed: this needs your confirmation, and there is no terminal to ask in. Add --yes to confirm."
    )
    assert (asked.code, asked.error) == (2, words)
    done = console("sessions", "rewind", worked, "--to", "2", "--yes", "--json")
    assert (done.code, done.document["done"], [f["path"] for f in done.document["files"]]) == (0, True, ["b.txt"])
    assert [path.name for path in console.project.iterdir()] == ["a.txt"]
    assert "second" not in console("sessions", "show", worked).out
    assert console("sessions", "rewind", worked, "--to", "1", "--yes").code == 0
    error = console("sessions", "rewind", worked, "--to", "2").error
    assert (
        error
        == "There is no message 2 in this conversation. It has none now because they were rewound. A rewind can be undone."
    )
    assert console("sessions", "rewind", worked, "--undo", "--yes").code == 0
    assert console("sessions", "rewind", worked, "--undo", "--yes").code == 0
    assert (console.project / "b.txt").read_text() == "2\n"
    assert "second" in console("sessions", "show", worked).out
    assert "no rewind" in console("sessions", "rewind", worked, "--undo", "--yes").error


def test_only_one_half_goes_back_where_that_is_wanted(console: Console, worked: str) -> None:
    assert console("sessions", "rewind", worked, "--to", "1", "--files", "--yes").code == 0
    assert list(console.project.iterdir()) == []
    assert "second" in console("sessions", "show", worked).out
    assert console("sessions", "rewind", worked, "--to", "2", "--conversation", "--yes").code == 0
    assert "second" not in console("sessions", "show", worked).out


def test_yes_does_not_overwrite_what_somebody_else_changed(console: Console, worked: str) -> None:
    (console.project / "b.txt").write_text("mine\n")
    told = console("sessions", "rewind", worked, "--to", "2", "--yes")
    assert told.code == 2
    assert "b.txt: it was changed since" in told.out
    assert "Use --force to overwrite" in told.error
    assert (console.project / "b.txt").read_text() == "mine\n"
    assert console("sessions", "rewind", worked, "--to", "1", "--yes", "--leave").code == 0
    assert [path.name for path in console.project.iterdir()] == ["b.txt"]
    assert console("sessions", "rewind", worked, "--undo", "--yes").code == 0
    assert console("sessions", "rewind", worked, "--to", "1", "--yes", "--force").code == 0
    assert list(console.project.iterdir()) == []
    assert console("sessions", "rewind", worked, "--undo", "--yes").code == 0
    assert (console.project / "b.txt").read_text() == "mine\n"


def test_a_person_on_a_terminal_is_asked(console: Console, worked: str) -> None:
    (console.project / "b.txt").write_text("mine\n")
    says = [("Rewind? [y/N]", "y\n"), ("Overwrite the 1 file", "n\n")]
    ran = console.terminal("sessions", "rewind", worked, "--to", "1", says=says)
    assert ran.code == 0
    assert [path.name for path in console.project.iterdir()] == ["b.txt"]


def test_what_cannot_be_is_said_in_one_line(console: Console, worked: str) -> None:
    with console.owning(worked):
        assert "is open in another friday process" in console("sessions", "rewind", worked, "--to", "1", "--yes").error
    assert "no message 7" in console("sessions", "rewind", worked, "--to", "7", "--yes").error
    assert "cannot be combined" in console("sessions", "rewind", worked, "--to", "1", "--files", "--conversation").error
    assert "cannot be combined with --to" in console("sessions", "rewind", worked, "--undo", "--to", "1").error


def test_a_deleted_session_takes_its_contents_with_it(console: Console, worked: str) -> None:
    assert console("sessions", "rewind", worked, "--to", "1", "--yes").code == 0
    folder = data_dir() / "checkpoints" / worked
    assert folder.is_dir()
    assert console("sessions", "delete", worked, "--yes").code == 0
    assert not folder.exists()


def test_what_a_session_changed_is_shown_by_agent_and_file(console: Console, worked: str) -> None:
    with console.owning(worked):
        ran = console("sessions", "diff", worked)
    assert ran.out.splitlines() == [
        "agent a",
        "  a.txt +1 -0 (made)",
        "    @@ -0,0 +1 @@",
        "    +1",
        "  b.txt +1 -0 (made)",
        "    @@ -0,0 +1 @@",
        "    +2",
    ]
    stat = console("sessions", "diff", worked, "--stat").out.splitlines()[1:]
    assert stat == ["  a.txt +1 -0 (made)", "  b.txt +1 -0 (made)"]
    rows = console("sessions", "diff", f"{worked}:a", "--json").document
    assert [(r["agent"], r["path"], r["kind"]) for r in rows] == [("a", "a.txt", "made"), ("a", "b.txt", "made")]
    assert "has no agent 'a.9'" in console("sessions", "diff", worked, "--agent", "a.9").error
