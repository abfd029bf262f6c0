"""`friday lsp`: which servers there are, and what they say of files. The server is a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.extensions import trust, trust_review
from tests.cli.conftest import console as console
from tests.cli.console import Console

SCRIPT = str(Path(__file__).with_name("scripted_server.py"))
KEY = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz"


def entry(fault: str, **more: Any) -> dict[str, Any]:
    words = {"command": sys.executable, "args": [SCRIPT, fault], "extensionToLanguage": {".bad": "bad"}}
    return {**words, "sandbox": False, **more}


def write(folder: Path, name: str, entries: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(entries), encoding="utf-8")


@pytest.fixture
def mine(console: Console) -> Path:
    """Your config folder, with a server for `.bad` in a trusted project."""
    write(console.friday_home, "lsp.json", {"script": entry("none")})
    trust.decide(console.project, True)
    return console.friday_home


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True
    )


def test_a_projects_file_without_an_end_does_not_hang(console: Console, mine: Path) -> None:
    (console.project / "a.py").write_text("x = 1\n")
    os.mkfifo(console.project / "pyproject.toml")
    console.ok("lsp", "list")
    (console.project / "pyproject.toml").unlink()
    (console.project / "pyproject.toml").symlink_to("/dev/zero")
    console.ok("lsp", "list")


def test_the_three_answers_of_a_check(console: Console, mine: Path) -> None:
    (console.project / "fine.bad").write_text("fine\n")
    ran = console("lsp", "check")
    assert (ran.code, ran.out, ran.error) == (0, "", "script: no problems in 1 file")
    (console.project / "a.bad").write_text("fine\nBAD one\n")
    ran = console("lsp", "check")
    assert (ran.code, ran.out) == (1, "a.bad:2 bad: BAD one [bad]\n")
    assert console("lsp", "check", "fine.bad").code == 0
    found = console("lsp", "check", "--json").document
    assert [(problem["path"], problem["line"]) for problem in found["problems"]] == [("a.bad", 2)]
    write(mine, "lsp.json", {"script": entry("silent")})
    ran = console("lsp", "check", "--wait", "0.2")
    assert ran.code == 6
    assert "script: not known: no answer within" in ran.error
    write(mine, "lsp.json", {"script": entry("none", command="/nonexistent/server")})
    assert console("lsp", "check").code == 6


def test_only_what_is_new_since_a_commit(console: Console, mine: Path) -> None:
    for name, text in (("a.bad", "BAD old\n"), ("b.bad", "BAD other\n")):
        (console.project / name).write_text(text)
    git(console.project, "init", "-q")
    git(console.project, "add", "-A")
    git(console.project, "commit", "-qm", "one")
    assert console("lsp", "check", "--since", "HEAD").code == 0
    (console.project / "a.bad").write_text("moved\nBAD old\nBAD new\n")
    ran = console("lsp", "check", "--since", "HEAD")
    assert (ran.code, ran.out) == (1, "a.bad:3 bad: BAD new [bad]\n")
    (console.project / "c.bad").write_text("use area 1\n")
    (console.project / "d.bad").write_text("def area 1\n")
    git(console.project, "add", "-A")
    git(console.project, "commit", "-qm", "two")
    (console.project / "d.bad").write_text("def area 2\n")
    ran = console("lsp", "check", "--since", "HEAD")
    assert (ran.code, ran.out) == (1, "c.bad:1 bad: use area 1 [bad]\n"), "an unchanged file that uses it"
    (console.project / "a.bad").unlink()
    assert console("lsp", "check", "--since", "HEAD").out == ran.out, "what is gone is looked at as an empty file"
    assert console("lsp", "check", "--since", "nowhere").code == 1
    console.refused("lsp", "check", "nothing.bad")


def test_no_server_is_started_in_a_folder_that_is_not_trusted(console: Console) -> None:
    trace = console.project / "started"
    command = f"from pathlib import Path; Path({str(trace)!r}).touch()"
    write(console.friday_home, "lsp.json", {"evil": entry("none", args=["-c", command])})
    write(console.project, ".lsp.json", {"theirs": entry("none", args=["-c", command])})
    (console.project / "a.bad").write_text("BAD\n")
    ran = console("lsp", "check")
    assert (ran.code, ran.out) == (6, "")
    assert "friday trust" in ran.error
    assert {row[0]: row[1] for row in console("lsp", "list").rows} == {"evil": "not trusted"}
    assert not trace.exists()
    rows = trust_review.lines(trust.is_trusted(console.project))
    assert any(head == ".lsp.json: theirs" and sys.executable in about for head, about in rows)


def test_trust_is_named_only_where_a_server_waits_for_it_and_no_place_is_empty(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (console.project / "a.py").write_text("x = 1\n")
    listed = console.ok("lsp", "list")
    assert listed.err == ""
    assert {row[0]: row[-1] for row in listed.rows}["ruff"].endswith("needs ruff.toml")
    assert all(row["where"] for row in console.ok("lsp", "list", "--json").document["servers"])
    assert "None is started here" not in console("doctor").out


def test_a_project_replaces_no_server_of_yours(console: Console, mine: Path) -> None:
    (console.project / "a.bad").write_text("BAD\n")
    write(
        console.project,
        ".lsp.json",
        {"script": entry("silent"), "more": entry("none", extensionToLanguage={".x": "x"})},
    )
    trust.decide(console.project, True)
    listed = console.ok("lsp", "list", "--json").document
    assert [(row["name"], row["state"], row["from"]) for row in listed["servers"]] == [
        ("script", "would start", "user")
    ]
    assert "another name" in listed["problems"][0]
    write(console.project, ".lsp.json", {"script": {"enabled": False}})
    trust.decide(console.project, True)
    assert console.ok("lsp", "list", "--json").document["servers"][0]["state"] == "off"
    assert console("lsp", "check").code == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ('{"a": 3}', "expected an object"),
        ('{"a": {"args": ["x"]}}', "needs command"),
        ('{"a": {"command": "x"}}', "needs extensionToLanguage"),
        ('{"a": {"command": "x", "extensionToLanguage": {".a": "a"}, "setings": {}}}', "Did you mean settings"),
        ('{"a b": {}}', "cannot be used as a name"),
        ('{"a": {"command": 3}}', "command"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(text: str, words: str, console: Console) -> None:
    console.friday_home.mkdir()
    (console.friday_home / "lsp.json").write_text(text)
    ran = console.ok("lsp", "list")
    line = next(line for line in ran.err.splitlines() if words in line)
    assert str(console.friday_home / "lsp.json") in line


def test_a_server_sees_the_file_as_it_is(console: Console, mine: Path) -> None:
    (console.project / "a.bad").write_text(f"BAD {KEY}\n")
    write(mine, "lsp.json", {"script": entry("lengths")})
    assert f"a.bad:1 {len(KEY) + 4} characters" in console("lsp", "check").out


def test_the_whole_command_of_a_projects_server_is_shown(console: Console) -> None:
    args = ["-c", "true " + "x " * 300 + "&& the\u202eend"]
    servers = {
        "one": {"command": "sh", "args": args, "env": {"NODE_OPTIONS": "-r ./x.js"}, "extensionToLanguage": {".a": "a"}}
    }
    write(console.project, ".lsp.json", servers)
    shown = console("trust").out
    assert "NODE_OPTIONS='-r ./x.js' sh -c" in shown
    assert "&& the\\u202eend" in shown


@pytest.mark.parametrize("inline", [True, False])
def test_a_plugin_brings_servers_that_are_shown_before_and_confined(inline: bool, console: Console, mine: Path) -> None:
    (mine / "lsp.json").unlink()
    plugin, servers = console.project.parent / "plugin", {"from-plugin": entry("none")}
    write(plugin, "x", {})
    (plugin / ".claude-plugin").mkdir()
    write(plugin / ".claude-plugin", "plugin.json", {"name": "one", **({"lspServers": servers} if inline else {})})
    if not inline:
        write(plugin, ".lsp.json", servers)
    added = console("plugins", "add", str(plugin), "--yes")
    assert added.code == 0, added.error
    assert (
        f"a language server in the sandbox, which writes nothing in the project and has no network: {sys.executable}"
        in (added.out + added.error)
    )
    (console.project / "a.bad").write_text("BAD\n")
    (row,) = console("lsp", "list", "--json").document["servers"]
    assert (row["name"], row["state"], row["from"]) == ("from-plugin", "would start", "plugin")
    (folder,) = (mine / "plugins").iterdir()
    changed = folder / (".claude-plugin/plugin.json" if inline else ".lsp.json")
    changed.write_text(changed.read_text() + "\n")
    assert console("lsp", "list", "--json").document["servers"] == []
