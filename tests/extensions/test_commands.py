"""Commands that people write: where they come from, what they say, and that they only take tools away."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.extensions import commands, trust
from tests.command_safety import workspace_fixture


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    return folder


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_projects_commands_count_only_when_it_is_trusted_and_unchanged(root: Path, tmp_path: Path) -> None:
    put(root / ".friday/commands/fix.md", "Fix it.")
    put(root / ".claude/commands/git/sync.md", "---\ndescription: syncs\nmodel: opus\n---\nSync.")
    put(tmp_path / "home/commands/mine.md", "Mine.")
    assert set(commands.load(root).found) == {"mine"}
    assert set(commands.load(root, trusted=True).found) == {"fix", "git:sync", "mine"}
    trust.decide(root, True)
    found = commands.load(root).found
    assert set(found) == {"fix", "git:sync", "mine"}
    assert (found["git:sync"].description, found["fix"].description) == ("syncs", "Fix it.")
    put(root / ".friday/commands/fix.md", "Steal it.")
    assert set(commands.load(root).found) == {"mine"}


def test_the_persons_own_command_stands_before_a_projects_and_none_before_a_built_in(
    root: Path, tmp_path: Path
) -> None:
    put(root / ".friday/commands/fix.md", "Theirs.")
    put(tmp_path / "home/commands/fix.md", "Mine.")
    path = put(tmp_path / "home/commands/help.md", "Mine.")
    put(tmp_path / "home/commands/two words.md", "Text.")
    loaded = commands.load(root, trusted=True, reserved={"help"})
    assert [command.text for command in loaded.found.values()] == ["Mine."]
    assert str(loaded.problems[0]) == f"{path}: /help is a built-in command. Rename the file."
    assert "is not a valid command name" in str(loaded.problems[1])


@pytest.mark.parametrize(
    ("text", "rest", "words"),
    [
        ("Look at $ARGUMENTS.", "a b", "Look at a b."),
        ("$2 before $1, $3.", "one 'two words'", "two words before one, $3."),
        (
            "It costs $4,050 or $1.50; awk '{print $4}' $HOME $1x",
            "a b c",
            "It costs $4,050 or $1.50; awk '{print $4}' $HOME ax",
        ),
        ("It costs $1,000.", "a b", "It costs $1,000.\n\na b"),
        ("No place.", "a b", "No place.\n\na b"),
        ("No place.", "", "No place."),
        ("$1 is $ARGUMENTS", "$2 it's", "$2 is $2 it's"),  # what was typed is never filled in again
        ("$10 and $ARGUMENTSX", "a", "$10 and $ARGUMENTSX\n\na"),
    ],
)
def test_what_is_typed_behind_the_name_is_filled_in(text: str, rest: str, words: str) -> None:
    assert commands.CustomCommand("x", text, "x.md").prompt(rest) == words


def test_named_arguments_are_filled_in_by_their_position(root: Path) -> None:
    put(root / ".claude/commands/fix.md", "---\narguments: [issue, branch]\n---\nFix $issue on $branch, $other.")
    custom = commands.load(root, trusted=True).found["fix"]
    assert custom.prompt("7 main") == "Fix 7 on main, $other."
    assert custom.prompt("7") == "Fix 7 on $branch, $other."


def test_shell_commands_in_the_text_are_named_as_not_run() -> None:
    custom = commands.CustomCommand("x", "Status: !`git status`, and !`git diff`.", "x.md")
    assert custom.skipped_note() == "/x: not run, sent as text: git status, git diff."
    assert custom.prompt("") == custom.text
    assert commands.CustomCommand("x", "Nothing here! `code`", "x.md").skipped_note() == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("---\ndescription: a\ncolour: red\n---\nText.", ":3: colour: unknown key."),
        ("---\ndescription: a\nallowed-tools: Read, Fly\n---\nText.", ":3: allowed-tools: unknown tool 'Fly'."),
        ("---\ndescription: a\nText.", ":1: the front matter is not closed."),
        ("---\ndescription: a\n---\n", ": has no text."),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(root: Path, tmp_path: Path, text: str, error: str) -> None:
    path = put(tmp_path / "home/commands/x.md", text)
    put(tmp_path / "home/commands/good.md", "Good.")
    loaded = commands.load(root)
    assert set(loaded.found) == {"good"}
    assert str(loaded.problems[0]).startswith(f"{path}{error}")


def test_allowed_tools_take_away_and_never_give(root: Path, tmp_path: Path) -> None:
    keys = "argument-hint: [file] [how]\nallowed-tools: Read, Bash(git diff:*)"
    put(tmp_path / "home/commands/x.md", f"---\n{keys}\n---\nText.")
    found = commands.load(root).found["x"]
    bounds = found.restrictions().rules()
    assert found.hint == "[file] [how]"
    assert bounds is not None
    assert bounds.decide(RuleInput("write_file", "write", ("a",))).decision == "deny"
    assert bounds.decide(RuleInput("bash", "run", ("rm a",))).decision == "deny"
    rules, context = Rules(mode="ask"), workspace_fixture.virtual_context()
    rules.narrowed["the command"] = bounds
    assert rules.decide(workspace_fixture.bash("git diff a", context)).decision == "allow"  # it only reads
    assert rules.decide(workspace_fixture.bash("ls a", context)).decision == "deny"
    assert rules.decide(RuleInput("read_file", "read", ("a",))).decision == "allow"
    assert rules.decide(RuleInput("read_file", "read", (".env",))).decision == "ask"


def test_a_prompt_that_begins_with_a_path_is_no_command(root: Path, tmp_path: Path) -> None:
    put(tmp_path / "home/commands/fix.md", "Fix $1.")
    customs = commands.load(root)
    assert commands.find_command("/fix/me please", customs) is None
    assert commands.find_command("fix it", customs) is None
    called = commands.find_command("/fix a\nb ", customs)
    assert called is not None
    assert (called[0].name, called[1]) == ("fix", "a\nb")
