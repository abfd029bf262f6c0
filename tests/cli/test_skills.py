"""`friday skills`: what is listed, shown, complained about and made; and a skill that a person starts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.console import Console

TEXT = "---\nname: {name}\ndescription: About [bold]{name}[/bold] \x1b[31m.\n---\nDo $1. !`date`\n"


def put(place: Path, name: str, text: str = TEXT) -> Path:
    (place / name).mkdir(parents=True)
    (place / name / "SKILL.md").write_text(text.format(name=name).replace("\x1b", ""))
    return place / name


def test_a_new_skill_is_listed_shown_checked_and_not_overwritten(console: Console) -> None:
    made = console("skills", "new", "tidy-up")
    path = Path(made.out.strip())
    assert (made.code, path) == (0, console.friday_home / "skills/tidy-up/SKILL.md")
    assert console("skills", "new", "tidy-up").error == f"{path} already exists. Edit it, or choose another name."
    assert "is not a valid skill name" in console("skills", "new", "Tidy_up").error
    assert console("skills", "list").rows[0][:3] == ["tidy-up", "user", "agents and you"]
    shown = console("skills", "show", "tidy-up").out
    assert "all that the agent has" in shown
    assert '<skill_content name="tidy-up"' in shown
    assert "What comes after the name, if anything: \n" in shown
    assert console("skills", "check").error == "1 skill, no errors"
    (document,) = console("skills", "list", "--json").document["skills"]
    assert (document["name"], document["folder"]) == ("tidy-up", str(path.parent))


def test_errors_have_file_line_and_remedy_and_code_2(console: Console, tmp_path: Path) -> None:
    put(tmp_path / "shared", "good")
    bad = put(tmp_path / "shared", "bad", "---\nname: bad\n---\nDo it.")
    ran = console("skills", "check", str(tmp_path / "shared"))
    assert ran.code == 2
    assert ran.out.splitlines() == [
        f"{bad}/SKILL.md:1: description: is missing, so no agent could choose it. Add a line description: what it does and when to "
        "use it."
    ]
    assert ran.error == "1 skill valid, 1 error"
    assert console("skills", "check", str(tmp_path / "none")).code == 2


def test_what_a_skill_says_is_no_markup_and_doctor_counts_it(console: Console) -> None:
    put(console.friday_home / "skills", "pdf")
    assert "About [bold]pdf[/bold]" in console("skills", "list").out
    assert "usable" in console("doctor").out
    assert "1 (0 of the project)" in console("doctor").out


def test_what_a_person_starts_by_name(console: Console) -> None:
    put(
        console.friday_home / "skills",
        "pdf",
        "---\nname: {name}\ndescription: D.\nallowed-tools: Read\n---\nFill $1.\n",
    )
    play = console.project / "play.yaml"
    play.write_text('agents: {a: [{calls: [{name: todo, arguments: {items: [{text: x}]}}]}, {text: "end"}]}')
    ask = ("ask", "--yolo", "-m", f"scripted:{play}")
    assert "denied: a todo" in console.ok(*ask, "/pdf form").err
    assert "  · Skill pdf (sha256 " in console.ok("sessions", "show").out
    assert "skill: pdf (sha256 " in console.ok("sessions", "show", "--tree").out
    assert (
        "/pfd is not a command or skill, so it is sent as text. Did you mean /pdf?" in console.ok(*ask, "/pfd form").err
    )
    assert "no command" not in console.ok(*ask, "/etc/hosts is what?").err
    hook = {"type": "command", "command": "echo 'not now' >&2; exit 2"}
    (console.friday_home / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    assert "not now" in console(*ask, "/pdf form").err
    for show in (("sessions", "show"), ("sessions", "show", "--tree")):
        assert "skill" not in console.ok(*show).out.lower(), "the message with it was withheld"
