"""`friday sessions`: what is listed, shown, written out and deleted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.messages import ToolCall, ToolResult, user
from friday_cli.system.paths import data_dir, store_path
from tests.cli.console import Console, plain
from tests.scenarios import numbered, results, said, tree

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e [bold]x[/bold]"


def working(session: str) -> list[ev.Envelope]:
    """A session whose process died in the middle of a child's turn."""
    return tree(session)[:14]


def evil(session: str) -> list[ev.Envelope]:
    return numbered(
        ("a", ev.SessionStarted(ev.SCHEMA, session, "/work", "1.0")),
        ("a", ev.AgentStarted(1, "general" + EVIL, f"task {EVIL}", "m")),
        ("a", ev.MessageAdded(user(f"task {EVIL}"))),
        ("a", ev.TurnStarted(1)),
        ("a", said(f"answer {EVIL}", ToolCall("c1", f"bash{EVIL}", {"command": EVIL}))),
        ("a", ev.ToolStarted("c1", f"bash{EVIL}", f"title {EVIL}")),
        ("a", ev.ToolFinished("c1", f"bash{EVIL}", "error")),
        ("a", results(ToolResult("c1", f"failed {EVIL}", "error"))),
        ("a", ev.AgentFinished(1, "failed", "provider", error=f"broke {EVIL}")),
    )


def test_the_list_shows_this_folders_sessions(console: Console, session: str) -> None:
    console.keep(cwd=console.home)
    ran = console.ok("sessions", "list")
    (row,) = ran.rows
    assert row[0] == session[:8]
    assert row[2:] == ["completed", "1", "768", "$2.00", "Count the lines of main.py"]
    (found,) = console("sessions", "list", "--json").document
    assert (found["id"], found["cwd"], found["status"]) == (session, str(console.project), "completed")
    assert (found["agents"], found["tokens"], found["cost_usd"]) == (1, 768, 2.0)


def test_all_lists_every_folder_and_names_it(console: Console) -> None:
    console.keep()
    console.keep(cwd=console.home)
    ran = console("sessions", "list", "--all")
    assert {row[-1] for row in ran.rows} == {str(console.project), str(console.home)}


def test_where_nothing_was_kept_the_list_is_empty_and_makes_no_file(console: Console) -> None:
    ran = console("sessions", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "no sessions in this folder" in ran.error
    assert console("sessions", "list", "--json").document == []
    assert console("sessions", "stats", "--json").document == []
    assert not store_path().parent.exists()


@pytest.mark.parametrize("command", ["list", "show ID --tree", "show ID --follow", "stats"])
def test_what_a_dead_process_left_open_is_ended_first(console: Console, command: str) -> None:
    session = console.keep(working)
    assert console("sessions", *command.replace("ID", session).split()).code == 0
    assert console.sql("SELECT DISTINCT status FROM agents") == [("interrupted",)]


@pytest.mark.parametrize("more", [(), ("--tree",)])
def test_an_interrupted_agent_has_the_time_that_it_worked(console: Console, more: tuple[str, ...]) -> None:
    """Its process died 6 seconds after it began, years ago."""

    def died(session: str) -> list[ev.Envelope]:
        events = [(e.agent, e.event) for e in working(session)]
        return numbered(*events[:8], ("a.1", ev.StatusChanged("running")), *events[8:])

    shown = console.ok("sessions", "show", console.keep(died), *more).out
    assert re.search(r"└─ ! a\.1 researcher · interrupted · .* · 6\.0 s · read main\.py\n", shown)
    assert re.search(r"! a general · interrupted · .* · 13 s · " if more else r" · 13 s\n", shown)


def test_where_nothing_can_be_written_sessions_are_shown_as_they_were_left(console: Console) -> None:
    session = console.keep(working)
    locks = data_dir() / "locks"  # not made yet
    locks.write_text("in the way, as a full disk would be")
    assert console("sessions", "list").rows[0][2] == "waiting for sub-agents"
    assert console("sessions", "show", session).code == 0


def test_a_session_that_a_living_process_owns_is_left_alone(console: Console) -> None:
    session = console.keep(working)
    with console.owning(session):
        assert console("sessions", "list").rows[0][2] == "waiting for sub-agents"
        assert "open in another friday process" in console.refused("sessions", "delete", session, "--yes")
    assert console("sessions", "list").rows[0][2] == "interrupted"


def test_show_is_the_conversation_with_tools_and_agents(console: Console, session: str) -> None:
    ran = console.ok("sessions", "show", session[:8])
    assert ran.out.splitlines()[0] == f"{session[:8]}  Count the lines of main.py"
    assert "acme/small · completed · 768 tokens · $2.00 · 9.0 s" in ran.out
    conversation = ran.out.partition("\n\n")[2]
    assert conversation.splitlines()[:8] == [
        "> Count the lines", "> of main.py", "", "I ask a researcher.", "",
        "  ✓ delegate_task researcher · started a.1 · 12 s", "", "main.py has 2 lines.",
    ]  # fmt: skip
    assert re.search(
        r"└─ ✓ a\.1 researcher · completed · 160 tokens · 43% cached · \$0\.7500 · 6\.5 s · read main\.py", ran.out
    )
    assert f"`friday sessions show {session[:8]}:a.1`" in ran.out


def test_the_timeline_has_a_row_for_each_agent(console: Console, session: str) -> None:
    rows = console.ok("sessions", "show", session, "--timeline").out.splitlines()[3:]
    assert rows[0].startswith("a general")
    assert "·" in rows[0]
    assert rows[0].endswith("$1.25")
    assert rows[1].startswith("a.1 researcher")
    assert rows[1].endswith("$0.7500")
    assert "█ model" in rows[-1]
    assert "· waits for agents" in rows[-1]
    document = console.ok("sessions", "show", session, "--timeline", "--json").document
    assert [agent["path"] for agent in document["timeline"]["agents"]] == ["a", "a.1"]
    assert "cannot be combined" in console.refused("sessions", "show", session, "--timeline", "--follow")


def test_show_without_an_id_is_the_last_session_of_this_folder(console: Console, tmp_path: Path) -> None:
    console.keep(cwd=tmp_path)
    assert "There is no session in this folder" in console.refused("sessions", "show")
    session = console.keep()
    console.keep(cwd=tmp_path)
    assert console("sessions", "show").out == console("sessions", "show", session).out
    assert "agent a.1 (researcher)" in console("sessions", "show", ":a.1").out
    assert console("sessions", "show", "--follow").out.startswith(session[:8])


@pytest.mark.parametrize("how", [("{id}:a.1",), ("{id}", "--agent", "a.1"), ("{id}:a.1", "--agent", "a.1")])
def test_an_agents_own_conversation(console: Console, session: str, how: tuple[str, ...]) -> None:
    ran = console("sessions", "show", *(part.format(id=session[:6]) for part in how))
    assert "agent a.1 (researcher)" in ran.out
    assert "> (parent) read main.py" in ran.out
    assert "  ✓ read_file main.py" in ran.out
    assert "It has 2 lines." in ran.out
    assert "I ask a researcher." not in ran.out


def test_the_tree_has_status_tokens_cost_time_and_receipt(console: Console, session: str) -> None:
    ran = console("sessions", "show", session, "--tree")
    assert "✓ a general · completed · 608 tokens (tree 768) · $2.00 · 9.0 s" in ran.out
    assert "└─ ✓ a.1 researcher · completed · 160 tokens" in ran.out
    assert ran.out.count("tools run:") == 2
    below = console("sessions", "show", f"{session}:a.1", "--tree")
    assert "a.1 researcher" in below.out
    assert "a general" not in below.out


def test_show_as_json_has_the_agents_and_the_conversation(console: Console, session: str) -> None:
    document = console("sessions", "show", session, "--json").document
    assert [a["path"] for a in document["agents"]] == ["a", "a.1"]
    assert document["agents"][0]["tree_usage"]["input"] == 690
    assert [item["kind"] for item in document["conversation"]] == ["message", "message", "tool", "message"]
    assert document["conversation"][2]["agents"] == ["a.1"]
    child = console("sessions", "show", f"{session}:a.1", "--json").document
    assert [a["path"] for a in child["agents"]] == ["a.1"]
    assert child["conversation"][0]["source"] == "parent"
    assert "conversation" not in console("sessions", "show", session, "--tree", "--json").document


def test_nothing_foreign_steers_the_terminal(console: Console) -> None:
    session = console.keep(evil)
    for argv in (("list",), ("show", session), ("show", session, "--tree"), ("stats",), ("list", "--json")):
        ran = console.ok("sessions", *argv)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", ran.out), argv
    assert "[bold]x[/bold]" in console("sessions", "show", session).out
    ran = console("sessions", "show", session, "--json")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", ran.out)
    assert ran.document["conversation"][1]["text"] == f"answer {EVIL}"  # exact for programs


def test_on_a_terminal_no_line_is_longer_than_it(console: Console) -> None:
    def long(session: str) -> list[ev.Envelope]:
        return numbered(
            ("a", ev.SessionStarted(ev.SCHEMA, session, "/work", "1.0")),
            ("a", ev.AgentStarted(1, "general", "word " * 60, "m")),
            ("a", ev.MessageAdded(user("hello"))),
            ("a", ev.AgentFinished(1, "completed", "done", "fine")),
        )

    session = console.keep(long)
    for argv in (("list",), ("list", "--all"), ("show", session, "--tree"), ("stats",)):
        shown = console.terminal("sessions", *argv, columns=80)
        assert shown.code == 0
        assert max(map(len, plain(shown.out).splitlines())) <= 80, shown.out
    assert "\x1b[1m" in shown.out
    assert "\x1b" not in console.terminal("sessions", "list", NO_COLOR="1").out


@pytest.mark.parametrize(("form", "words"), [
    ("md", "# Count the lines of main.py"), ("json", '"schema": 1'), ("atif", '"schema_version": "ATIF-v1.7"'),
])  # fmt: skip
def test_export_in_every_format(console: Console, session: str, tmp_path: Path, form: str, words: str) -> None:
    ran = console("sessions", "export", session[:8], "--format", form)
    assert (ran.code, words in ran.out) == (0, True)
    file = tmp_path / "out"
    written = console("sessions", "export", session[:8], "-f", form, "-o", str(file))
    assert (written.code, written.out) == (0, "")
    assert file.read_text() == ran.out
    assert str(file) in written.error


def test_rename(console: Console, session: str) -> None:
    assert console("sessions", "rename", session[:8], f"Better {EVIL}\nname").code == 0
    assert console("sessions", "list").rows[0][-1] == "Better red [bold]x[/bold] name"
    assert "Better red" in console("sessions", "show", session).out.splitlines()[0]
    assert console.refused("sessions", "rename", session, " ") == "The title is empty."


def test_delete_takes_children_and_spilled_output_along(console: Console) -> None:
    session, other = console.keep(), console.keep()
    spill = data_dir() / "spill" / session
    spill.mkdir(parents=True)
    (spill / "output.txt").write_text("long")
    refused = console("sessions", "delete", session)
    assert refused.code == 2
    assert "Nothing was deleted" in refused.error
    ran = console("sessions", "delete", session, "--yes")
    assert (ran.code, "and its 1 sub-agent" in ran.error) == (0, True)
    assert [row["id"] for row in console("sessions", "list", "--json").document] == [other]
    assert console.sql("SELECT count(*) FROM agents") == [(2,)]
    assert not spill.exists()


@pytest.mark.parametrize(("typed", "left"), [("y\n", 0), ("\n", 1), ("n\n", 1), ("\x04", 1)])
def test_delete_asks_on_a_terminal(console: Console, session: str, typed: str, left: int) -> None:
    ran = console.terminal("sessions", "delete", session[:8], says=[("[y/N]", typed)])
    assert ran.code == 0
    assert len(console("sessions", "list", "--json").document) == left


def test_stats_per_profile_and_model(console: Console) -> None:
    console.keep()
    console.keep()
    console.keep(working)
    rows = {row[0]: row[1:] for row in console("sessions", "stats").rows}
    assert rows["researcher"][:3] == ["acme/tiny", "3", "67%"]
    assert rows["general"][:3] == ["acme/small", "3", "67%"]
    assert rows["general"][-1] == "done 2, process 1"
    assert (rows["researcher"][4], rows["general"][4]) == ("43%", "-"), (
        "the share that came from a cache, if it is reported"
    )
    document = console("sessions", "stats", "--json").document
    assert {(row["profile"], row["runs"], row["succeeded"]) for row in document} == {
        ("general", 3, 2),
        ("researcher", 3, 2),
    }


@pytest.mark.parametrize(("argv", "words"), [
    (("show", "zz"), "There is no session 'zz'."), (("export", ""), "There is no session ''."),
    (("show", "ID:"), "has no agent path"), (("show", "ID:a.9"), "has no agent 'a.9'. Agents: a, a.1."),
    (("show", "ID", "--agent", "x"), "has no agent 'x'"), (("show", "ID:a.1", "--agent", "a"), "name different agents"),
    (("export",), "Missing argument 'ID'. See `friday sessions export --help`."),
    (("export", "ID:a.1"), "Only a whole session can be exported."),
    (("export", "ID", "-f", "pdf"), "'pdf' is not one of 'md', 'html', 'json', 'perfetto', 'atif', 'otlp'"),
    (("delete", "ID:a.1", "--yes"), "Only a whole session can be deleted."),
    (("rename", "ID:a.1", "x"), "Only a session has a title"), (("nope",), "No such command 'nope'."),
    (("list", "--nope"), "No such option: --nope"), (("show", "ID", "--follow", "--json"), "--follow and --json cannot be combined."),
])  # fmt: skip
def test_wrong_use_is_one_line_and_exit_2(console: Console, session: str, argv: tuple[str, ...], words: str) -> None:
    assert words in console.refused("sessions", *(part.replace("ID", session) for part in argv))


def test_an_export_that_cannot_be_written_says_why(console: Console, session: str, tmp_path: Path) -> None:
    ran = console("sessions", "export", session, "-o", str(tmp_path / "no" / "file"))
    assert (ran.code, ran.error.endswith("cannot be written: No such file or directory.")) == (1, True)


@pytest.mark.parametrize("argv", [("list",), ("show", "a"), ("stats",), ("delete", "a", "--yes"), ("rename", "a", "b")])
def test_a_damaged_database_is_one_line(console: Console, argv: tuple[str, ...]) -> None:
    store_path().parent.mkdir(parents=True)
    store_path().write_bytes(os.urandom(5000))
    before = store_path().read_bytes()
    assert "is damaged" in console.refused("sessions", *argv, code=1)
    assert store_path().read_bytes() == before


def test_a_folder_that_is_gone_is_said(console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (("sessions", "list"), ("ask", "--model", "demo", "hi")):
        assert "no longer exists" in console.refused(*command)


def test_there_is_nothing_to_repair(console: Console) -> None:
    ran = console("sessions", "repair")
    assert (ran.code, "nothing to repair" in ran.error) == (0, True)
    assert not store_path().exists()
    console.keep()
    ran = console("sessions", "repair")
    assert (ran.code, "is not damaged; nothing was changed" in ran.error) == (0, True)


def test_what_repair_saved_can_be_read_again(console: Console, session: str) -> None:
    console.sql("DELETE FROM events WHERE seq = 2", "DROP TABLE agents")  # the event in which its main agent began
    ran = console("sessions", "show", session)
    assert (ran.code, "is damaged" in ran.error, "friday sessions repair" in ran.error) == (1, True, True)
    ran = console("sessions", "repair")
    assert (ran.code, ran.out) == (0, "")
    first, second = ran.err.splitlines()
    assert first.startswith("friday: recovered 1 sessions with ")
    assert first.endswith(", and 0 notes; 1 events could not be read")
    (kept,) = store_path().parent.glob("friday.db.damaged-*")
    assert second.startswith("friday: the damaged file is now ")
    assert second.endswith(kept.name)
    ran = console.ok("sessions", "show", session)
    assert "main.py has 2 lines." in ran.out
    assert console("sessions", "list").out.count(session[:8]) == 1
