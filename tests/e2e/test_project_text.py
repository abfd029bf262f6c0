"""What text of a project can put into a prompt by naming files: a table of ways and of files that must not get there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.friday import CommandResult, Friday
from tests.servers.fake_model_server import Say, Turn

HIDDEN = "HIDDEN-TEXT-71"
"""In each file that must stay out. It is valid as instructions, as a command, as a skill and as a profile."""
BODY = f"---\nname: go\ndescription: d\n---\n{HIDDEN}\n"


def sent_by(friday: Friday, *argv: str, prompt: str = "hello") -> tuple[str, CommandResult]:
    """What the model service got, and what the person saw."""
    bodies: list[str] = []

    def rule(turn: Turn) -> Say:
        bodies.append(json.dumps(turn.body))
        return Say("fin")

    with friday.meets(rule):
        ran = friday(*argv, prompt)
    return "\n".join(bodies), ran


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def imports(project: Path, target: str) -> None:
    put(project, "AGENTS.md", f"See @{target}")


def imports_of_an_import(project: Path, target: str) -> None:
    put(project, "CLAUDE.md", "See @docs/a.md")
    put(project, "docs/a.md", f"More in @{os.path.relpath(project / target, project / 'docs')}")


def imports_a_link(project: Path, target: str) -> None:
    put(project, "AGENTS.md", "See @docs/link.md")
    link(project, "docs/link.md", target)


def is_a_link(project: Path, target: str) -> None:
    link(project, "AGENTS.md", target)


def command_names(project: Path, target: str) -> None:
    put(project, ".claude/commands/go.md", f'Look at @{target} and @"{target}" now, @./{target}')


def command_is_a_link(project: Path, target: str) -> None:
    link(project, ".claude/commands/go.md", target)


def commands_are_a_linked_folder(project: Path, target: str) -> None:
    put(project, ".agents/commands/other.md", "Else.")
    link(project, ".friday/commands/go.md", target)


def skill_is_a_link(project: Path, target: str) -> None:
    link(project, ".claude/skills/go/SKILL.md", target)


def profile_is_a_link(project: Path, target: str) -> None:
    link(project, ".claude/agents/go.md", target)


def link(project: Path, name: str, target: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(project / target, path.parent))


WAYS: list[Callable[[Path, str], None]] = [
    imports,
    imports_of_an_import,
    imports_a_link,
    is_a_link,
    command_names,
    command_is_a_link,
    commands_are_a_linked_folder,
    skill_is_a_link,
    profile_is_a_link,
]
FILES = {
    ".env": "", "server.pem": "", "a/.aws/x.md": "", "../outside.md": "",
    "notes.md": ".gitignore: notes.md", "private/deep/a.md": ".gitignore: private/", "mine.md": ".git/info/exclude: mine.md",
    "his.md": "../home/.config/git/ignore: his.md", "hers.md": "../home/.ignored: hers.md", ".git/notes.md": "",
    "Mixed.md": ".gitignore: mixed.MD | .git/config: [core] ignoreCase = true", "data/x.md": "data/HEAD: ref: refs/heads/main | data/objects/a:",
    "server.pem.bak": "", "id_rsa.old": "", "é.md": ".gitignore: [!a][!a].md", "aa.md": r".gitignore: [\a]\a.md",
}  # fmt: skip


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_file_of_the_table_is_sent(
    friday: Friday, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path, str], None], trusted: bool
) -> None:
    monkeypatch.setenv("HOME", str(friday.home))
    for number, (target, rule) in enumerate(FILES.items()):
        project = friday.project / str(number)
        (project / ".git").mkdir(parents=True)
        put(project, target, BODY)
        for file, _, line in (one.partition(":") for one in rule.split(" | ") if one):
            put(
                friday.home if file.startswith("../home/") else project,
                file.removeprefix("../home/"),
                f"{line.strip()}\n",
            )
        put(
            friday.home,
            ".gitconfig",
            f"[core]\n\texcludesFile = {friday.home}/.ignored\n" if target == "hers.md" else "",
        )
        way(project, target)
        argv = ["-C", str(project), *(["--trust"] if trusted else [])]
        sent, ran = sent_by(friday, *argv, prompt="/go it")
        assert HIDDEN not in sent, target
        if trusted and (way.__name__.startswith("imports") or way is is_a_link):
            told = [line for line in ran.lines if "left out" in line or "not imported" in line]
            assert len(told) == 1, (target, ran.err)


@pytest.mark.parametrize("head", [f"{HIDDEN}\n", f"ref: refs/heads/{HIDDEN} and what it says\n", f"ref: {HIDDEN}\n"])
@pytest.mark.parametrize("way", ["HEAD", ".git", "gitdir"])
def test_a_branch_is_shown_and_no_other_text_to_which_git_files_lead(friday: Friday, head: str, way: str) -> None:
    secret = put(friday.home, "other/HEAD", head)
    if way == "HEAD":
        (friday.project / ".git").mkdir()
        (friday.project / ".git/HEAD").symlink_to(secret)
    elif way == ".git":
        (friday.project / ".git").symlink_to(secret.parent)
    else:
        put(friday.project, ".git", f"gitdir: {secret.parent}\n")
    assert HIDDEN[:12] not in sent_by(friday)[0]
    secret.write_text("ref: refs/heads/ü/a-1_b.c\n")
    assert "Git branch: \\u00fc/a-1_b.c" in sent_by(friday)[0]


def test_what_belongs_to_the_project_is_sent_when_it_is_trusted_and_only_then(friday: Friday) -> None:
    (friday.project / ".git").mkdir()
    put(friday.project, ".gitignore", "*.local.md\nprivate/\n")
    put(
        friday.project,
        "AGENTS.md",
        "See @docs/a.md, @mine.local.md and @.env, @../b.md, @c.pem, @d.pem, @e.pem, @f.pem",
    )
    for name in (".env", "../b.md", "c.pem", "d.pem", "e.pem", "f.pem"):
        put(friday.project, name, HIDDEN)
    put(friday.project, "docs/a.md", "Alpha.")
    put(friday.project, "mine.local.md", "Mine.")
    link(friday.project, "sub/AGENTS.md", "docs/a.md")
    sent, ran = sent_by(friday, "--trust", "-C", "sub")
    assert ("Alpha." in sent, "Mine." in sent, HIDDEN in sent) == (True, True, False)
    assert sent.count("[end of @docs/a.md]") == 1
    told = [line for line in ran.lines if "is not imported" in line]
    assert len(told) == 1, "one line for all"
    assert "@.env is not imported: its name is that of a file with secrets" in told[0]
    assert "and 1 more" in told[0]
    sent, ran = sent_by(friday, "-C", "sub")
    assert ("See @docs/a.md" in sent, "Alpha." in sent, "Mine." in sent, HIDDEN in sent) == (True, False, False, False)
    assert any(
        "not imported, because the folder is not trusted: @docs/a.md, @mine.local.md" in line for line in ran.lines
    )
    assert any("sub/AGENTS.md is a link, so it is not read" in line for line in ran.lines)


def test_a_command_of_a_project_brings_files_of_the_folder_and_the_person_any_of_them(friday: Friday) -> None:
    (friday.project / ".git").mkdir()
    put(friday.project, ".gitignore", "build.log\n")
    put(friday.project, "a.txt", "alpha\n")
    put(friday.project, "build.log", "BUILD-LOG\n")
    put(friday.project, ".claude/commands/go.md", "Look at @a.txt and @build.log for $ARGUMENTS")
    put(friday.home, "commands/own.md", "Look at @build.log")
    sent, ran = sent_by(friday, "--trust", prompt="/go me")
    assert ("alpha" in sent, "BUILD-LOG" in sent) == (True, False)
    assert any(
        "the command names files that were not attached: @build.log (git ignores it)" in text for text in ran.lines
    )
    for prompt in ("/go @build.log", "/own", "see @build.log"):
        assert "BUILD-LOG" in sent_by(friday, "--trust", prompt=prompt)[0], prompt


@pytest.mark.parametrize(
    "prompt",
    [
        "see https://a.example/?x=@a.txt",
        "see https://a.example/#@a.txt",
        "> he said @a.txt",
        "  > @a.txt\n> @a.txt",
        "```\n@a.txt\n```",
        "~~~sh\ncat @a.txt\n",
        "me@a.txt",
    ],
)
def test_links_quotes_and_code_in_a_prompt_name_no_files(friday: Friday, prompt: str) -> None:
    put(friday.project, "a.txt", HIDDEN)
    assert HIDDEN not in sent_by(friday, prompt=prompt)[0]
    assert HIDDEN in sent_by(friday, prompt=f"{prompt}\n\n(@a.txt)" if "~~~" not in prompt else "@a.txt")[0]


def test_rules_of_a_folder_that_nobody_trusts_hold_nothing_up(friday: Friday) -> None:
    (friday.project / ".git").mkdir()
    put(friday.project, ".gitignore", "*a" * 30 + "b\n")
    put(friday.project, "a" * 200 + "/x", "x")
    friday.plays("agents: {a: [{calls: [{name: bash, arguments: {command: 'echo x > y'}}]}, {text: done}]}")
    assert friday.run("--yolo", "go").out.strip() == "done"
