"""`friday profiles`: what is listed, shown, complained about and made."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from friday_cli.extensions.profiles import shipped_folder
from tests.cli.console import ROOT, Console, plain

SHIPPED = {"analyst", "coder", "general", "researcher", "reviewer", "summarizer"}


def mine(console: Console) -> Path:
    return console.friday_home / "profiles"


def test_the_list_has_the_shipped_ones_with_tools_limits_and_description(console: Console) -> None:
    ran = console("profiles", "list")
    assert (ran.code, ran.err) == (0, "")
    rows = {row[0]: row[1:] for row in ran.rows}
    assert rows.keys() == SHIPPED
    assert rows["general"][:3] == ["shipped", "parent's", "100,000 tokens, 40 turns, 600 s"]
    assert rows["researcher"][3:] == ["none", rows["researcher"][4]]
    assert rows["researcher"][4].startswith("Finds and checks facts")


def test_the_list_says_whom_a_profile_may_delegate_to(console: Console) -> None:
    console.profile(mine(console), "lead", "description: leads", "subAgents: [researcher, coder]")
    console.profile(mine(console), "boss", "description: leads all", "subAgents: '*'", "maxIterations: 3")
    ran = console("profiles", "list")
    assert ran.out.split("\n")[0].split() == ["NAME", "FROM", "TOOLS", "LIMITS", "DELEGATES", "TO", "DESCRIPTION"]
    rows = {row[0]: row for row in ran.rows}
    assert "researcher, coder" in rows["lead"]
    assert "all profiles" in rows["boss"]
    assert "delegates to researcher, coder" in plain(console.terminal("profiles", "list", columns=100).out)


def test_on_a_terminal_a_description_wraps_below_its_profile(console: Console) -> None:
    ran = console.terminal("profiles", "list", columns=70)
    lines = plain(ran.out).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("general "))
    assert "shipped · parent's tools · 100,000 tokens" in lines[at]
    assert lines[at + 1].startswith(" " * 12 + "Any other self-contained task")
    assert max(map(len, lines)) <= 70


def test_yours_come_first_and_a_bad_file_hides_no_other(console: Console) -> None:
    console.profile(mine(console), "coder")
    bad = console.profile(mine(console), "bad", "description: x", "allowedTools: [raed_file]")
    ran = console("profiles", "list")
    assert {row[0]: row[1] for row in ran.rows}["coder"] == "user"
    assert ran.error == f"{bad}:4: allowedTools: unknown tool 'raed_file'. Did you mean read_file?"
    document = console("profiles", "list", "--json").document
    assert [p["name"] for p in document["hidden"]] == ["coder"]
    assert {p["name"]: p["tools"] for p in document["profiles"]}["general"] == "*"
    assert "read_file" in {p["name"]: p["tools"] for p in document["profiles"]}["coder"]
    (problem,) = document["problems"]
    assert (problem["path"], problem["line"], problem["field"]) == (str(bad), 4, "allowedTools")
    assert problem["remedy"] == "Did you mean read_file?"


def test_a_projects_profiles_wait_for_trust_and_are_announced(console: Console) -> None:
    path = console.profile(console.project / ".friday/profiles", "coder")
    waiting = console("profiles", "list")
    assert {row[1] for row in waiting.rows} == {"shipped"}
    assert "Not used: .friday/profiles/coder.md. Run `friday trust` to allow them." in waiting.error
    assert console("trust", "--yes").code == 0
    ran = console("profiles", "list")
    assert {row[0]: row[1] for row in ran.rows}["coder"] == "project"
    assert ran.error == f"{path} of the project replaces the built-in profile coder."
    assert console("profiles", "list", "--json").document["announcements"] == [ran.error]


def test_a_copy_of_a_built_in_profile_is_not_named(console: Console) -> None:
    """As in a copy of Friday's repository: it replaces nothing."""
    (console.project / "profiles").mkdir()
    shutil.copy(shipped_folder() / "coder.md", console.project / "profiles")
    for _ in range(2):
        ran = console("profiles", "list")
        assert ({row[1] for row in ran.rows}, ran.err) == ({"shipped"}, "")
        assert console("trust", "--yes").code == 0
    console.profile(console.project / "profiles", "coder")
    assert console("trust", "--yes").code == 0
    assert "replaces the built-in profile coder" in console("profiles", "list").error


def test_show_tells_everything_of_one(console: Console) -> None:
    ran = console.ok("profiles", "show", "researcher")
    assert "web_fetch" in ran.out
    assert "50,000 tokens, 25 turns, 300 s" in ran.out
    assert "## " in ran.out  # the prompt
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in ran.out.splitlines() if "of its parent" in line)
    assert facts == {"model": "that of its parent", "mode": "that of its parent", "skills": "those of its parent"}
    wrong = console("profiles", "show", "reseacher")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.error.startswith("There is no profile 'reseacher'. Did you mean researcher?")


def test_shipped_profiles_that_can_run_or_write_ask_for_checks_and_changed_files(console: Console) -> None:
    rows = {row["name"]: row for row in console("profiles", "list", "--json").document["profiles"]}
    asked = {name: console.ok("profiles", "show", name).out for name in sorted(SHIPPED)}
    assert {name: [word for word in ("checks", "changed") if f"`{word}`" in text] for name, text in asked.items()} == {
        "analyst": ["checks"], "coder": ["checks", "changed"], "general": ["checks", "changed"],
        "researcher": [], "reviewer": ["checks"], "summarizer": [],
    }  # fmt: skip
    for name, text in asked.items():
        tools = rows[name]["tools"]
        assert ("`checks`" in text) is (tools == "*" or "bash" in tools)
        assert ("`changed`" in text) is (tools == "*" or "edit_file" in tools)
    assert {path.stem for path in (ROOT / "profiles").glob("*.md")} == SHIPPED


def test_foreign_text_of_a_profile_is_made_plain(console: Console) -> None:
    console.profile(mine(console), "evil", 'description: "\\e]0;x\\a\\e[31mred [bold]b[/bold] \\u202e"')
    for argv in (("list",), ("show", "evil"), ("list", "--json")):
        ran = console("profiles", *argv)
        assert "red [bold]b[/bold]" in ran.out
        assert "\u202e" not in ran.out


def test_check_names_file_line_field_problem_and_remedy(console: Console) -> None:
    ran = console("profiles", "check")
    assert (ran.code, ran.out, ran.error) == (0, "", "6 profiles, no errors")
    assert console("profiles", "check", "nowhere.md").error == "nowhere.md does not exist."
    bad = console.profile(mine(console), "bad", "description: x", "timeout: 300000")
    worse = console.profile(console.project / ".friday/profiles", "worse", "descripton: x")  # not trusted yet
    ran = console("profiles", "check")
    assert ran.code == 2
    assert ran.out.splitlines() == [
        f"{bad}:4: timeout: 300000 is too long; the unit is seconds. For 300000 ms use 300.",
        f"{worse}:3: descripton: unknown key. Did you mean description?",
    ]
    assert ran.error == "6 profiles valid, 2 errors"
    one = console("profiles", "check", str(worse))
    assert (one.code, len(one.out.splitlines())) == (2, 1)
    assert console("profiles", "check", str(worse.parent)).code == 2


def test_check_tells_remarks_without_failing(console: Console) -> None:
    path = console.profile(mine(console), "small", "description: x", "maxTokenBudget: 500")
    ran = console.ok("profiles", "check", str(path))
    assert ran.out.startswith(f"{path}: warning: 500 tokens are rarely enough")


COLLECTION = """\
---
name: {name}
description: Use this agent to try things: often.

<example>
Context: A person asks
user: "Try it"
assistant: "I do: at once"
</example>

<example>
Context: Another one
user: "Again"
</example>

color: green
tools: Read, search, Agent(nobody)
---

You try things.
"""


def test_a_collection_of_other_tools_has_one_verdict_in_check_and_in_loading(console: Console) -> None:
    agents = console.project / ".claude/agents/design"
    outside = console.home / "collection/design"
    for folder in (agents, outside):
        folder.mkdir(parents=True)
        (folder / "one.md").write_text(COLLECTION.format(name="one"))
        (folder / "two.md").write_text("---\nname: C# Expert\ndescription: d\n---\nhi\n")
        (folder / "bad.md").write_text("---\nname: bad\ndescription: d\ntools: [nonsense]\n---\nhi\n")
    assert console("trust", "--yes").code == 0
    loaded = console("profiles", "list")
    assert {row[0] for row in loaded.rows} >= {"one", "c-expert"}
    for path in (agents.parent, outside.parent):
        ran = console("profiles", "check", str(path))
        assert ran.code == 2
        assert ran.error == "2 profiles valid, 1 error, 4 warnings"
        assert [line for line in ran.out.splitlines() if ": warning: " not in line] == [
            f"{path}/design/bad.md:4: tools: none of these tools exists. "
            + next(line for line in loaded.error.splitlines() if "bad.md" in line).partition("exists. ")[2]
        ]


@pytest.mark.parametrize(("model", "note"), [
    ("anthropic/claude-opus-5-5", "temperature has no effect: claude-opus-5-5 does not take one."),
    ("openai/gpt-5.4", "temperature has no effect: gpt-5.4 takes one only with effort: none."),
    ("openai/gpt-5.4:none", ""), ("groq/x", ""), ("anthropic/claude-haiku-4-5", ""),
    ("anthropic/claude-haiku-4-5:low", "temperature has no effect: claude-haiku-4-5 takes one only with effort: none."),
])  # fmt: skip
def test_check_tells_whether_a_temperature_has_an_effect(console: Console, model: str, note: str) -> None:
    path = console.profile(mine(console), "warm", "description: x", f"model: {model}", "temperature: 0.3")
    ran = console.ok("profiles", "check", str(path))
    assert ran.out == (f"{path}: warning: {note}\n" if note else "")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"---\nname: x\n", b"---\nname: []\n---\nhi\n", b""])
def test_check_of_what_is_no_profile(console: Console, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.md"
    path.write_bytes(content)
    ran = console("profiles", "check", str(path))
    assert (ran.code, ran.out.startswith(str(path))) == (2, True)


def test_new_writes_a_profile_that_is_right_and_never_overwrites(console: Console) -> None:
    ran = console("profiles", "new", "test-writer")
    path = mine(console) / "test-writer.md"
    assert (ran.code, ran.out) == (0, f"{path}\n")
    assert console("profiles", "check", str(path)).code == 0
    assert console("profiles", "show", "test-writer").code == 0
    path.write_text("mine", encoding="utf-8")
    assert "already exists" in console.refused("profiles", "new", "test-writer")
    assert path.read_text() == "mine"


def test_new_for_the_project_and_over_a_built_in_name(console: Console) -> None:
    ran = console("profiles", "new", "coder", "--project")
    assert ran.out == f"{console.project / '.friday/profiles/coder.md'}\n"
    assert "`friday trust`" in ran.err
    assert "replaces the built-in profile coder" in ran.err


def test_new_goes_where_the_settings_say(console: Console, tmp_path: Path) -> None:
    console("config", "set", "agents.delegation.profiles.directory", str(tmp_path / "own"))
    ran = console("profiles", "new", "helper")
    assert ran.out == f"{tmp_path / 'own' / 'helper.md'}\n"


@pytest.mark.parametrize("name", ["Bad Name", "../x", "", "x" * 65])
def test_new_refuses_what_cannot_be_a_name(console: Console, name: str) -> None:
    assert "is not a valid profile name" in console.refused("profiles", "new", name)
    assert not list(console.home.rglob("*.md"))


def test_new_where_nothing_can_be_written(console: Console) -> None:
    console.friday_home.mkdir()
    mine(console).write_text("a file")
    assert "cannot be written" in console.refused("profiles", "new", "helper", code=1)


def test_commands_of_other_programs_are_checked_with_every_difference(console: Console) -> None:
    top = console.project / "plugins"
    files = {
        "x/commands/go.md": "---\nmodel: opus\nallowed-tools: Read, Unheard(x)\ncolour: red\nname: go\n---\nGo $ARGUMENTS[0]: !`git status`",
        "x/commands/empty.md": "---\ndescription: x\n---\n",
        "x/skills/s/SKILL.md": "---\nname: s\ndescription: x\nmetadata: 1\n---\nDo.",
        "x/agents/a.md": "---\nname: a\ndescription: x\ncolor: red\n---\nBe.",
    }
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text, encoding="utf-8")
    ran = console("profiles", "check", str(top))
    assert ran.code == 2
    for part in (
        "model has no effect in Friday: the model of the session",
        "Unheard(x) is unknown",
        "colour has no effect",
        "not run, sent as text: git status",
        "$ARGUMENTS[N]",
        "empty.md: has no text",
        "a.md: warning: color",
    ):
        assert part in ran.out, part
    assert len(ran.out.splitlines()) == 8
    assert "1 profile and 1 command valid, 1 error, 7 warnings" in ran.err
    alone = console("profiles", "check", str(top / "x/commands/go.md"))
    assert (alone.code, len(alone.out.splitlines())) == (0, 6)
