"""`friday config` and `friday trust`."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.extensions.trust import is_trusted
from tests.cli.console import Console


def test_path_names_the_file_whether_it_is_there_or_not(console: Console) -> None:
    assert console("config", "path").out == f"{console.config}\n"


def test_set_get_and_show_with_the_origin(console: Console) -> None:
    assert console("config", "set", "limits.max_cost", "1.5").code == 0
    assert console("config", "set", "model", "opus").code == 0
    assert console("config", "set", "permissions.allow", '["bash(git status *)", "grep"]').code == 0
    assert console("config", "get", "limits.max_cost").out == "1.5\n"
    assert console("config", "get", "model").out == "opus\n"
    assert console("config", "get", "permissions.allow").out == '["bash(git status *)","grep"]\n'
    assert console("config", "get", "limits").out.splitlines()[2] == "limits.max_cost = 1.5"
    rows = {row[0]: row[1:] for row in console("config", "show").rows}
    assert rows["limits.max_cost"] == ["1.5", str(console.config).replace(str(console.home), "~")]
    assert rows["mode"] == ['"ask"', "default"]
    document = console("config", "show", "--json").document
    assert document["model"] == {"value": "opus", "source": str(console.config)}
    assert document["limits.max_turns"] == {"value": None, "source": "default"}


def test_set_keeps_comments(console: Console) -> None:
    console.configure('# mine\nmodel = "opus" # the good one\n')
    assert console("config", "set", "mode", "plan").code == 0
    assert console.config.read_text() == '# mine\nmodel = "opus" # the good one\nmode = "plan"\n'


def test_unset_brings_the_default_back(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a number >= 0" in console("config", "set", "limits.max_cost", "-1").error
    console("config", "set", "limits.max_cost", "2")
    assert console("config", "unset", "limits.max_cost").err.startswith("friday: removed limits.max_cost from ")
    assert console("config", "get", "limits.max_cost").out == "\n"
    assert "is not set in" in console("config", "unset", "limits.max_cost").err
    monkeypatch.setenv("FRIDAY_MODE", "plan")
    assert "warning: FRIDAY_MODE overrides it" in console("config", "set", "mode", "edits").err
    assert "warning: FRIDAY_MODE overrides it" in console("config", "unset", "mode").err


def test_header_values_are_shown_nowhere(console: Console) -> None:
    console.configure('[providers.own]\nbase_url = "http://127.0.0.1:9/v1"\nheaders = {x-secret = "s3cret"}\n')
    for argv in (("show",), ("show", "--json"), ("get", "providers"), ("get", "providers.own.headers.x-secret")):
        ran = console.ok("config", *argv)
        assert "s3cret" not in ran.out
        assert "(hidden)" in ran.out


@pytest.mark.parametrize(("argv", "words"), [
    (("get", "subagentmodel"), "There is no setting subagentmodel. Did you mean subagent_model?"),
    (("set", "modle", "x"), "There is no setting modle."), (("set", "limits", "x"), "limits is a table."),
    (("set", "limits.timeout", "300000"), "looks like milliseconds"),
    (("set", "limits.max_turns", "many"), "expected a whole number"), (("set", "mode", "yolo"), "is not one of"),
    (("set", "model", "nonsense-9"), "Unknown model 'nonsense-9'"),
    (("set", "subagent_model", "nowhere/x"), "Unknown provider 'nowhere'"),
    (("set", "permissions.deny", "bash(rm *"), "Invalid permission rule: 'bash(rm *'."),
    (("set", "model"), "Missing argument 'VALUE'"), (("unset", "modle"), "There is no setting modle."),
])  # fmt: skip
def test_what_cannot_be_set_or_read(console: Console, argv: tuple[str, ...], words: str) -> None:
    assert words in console.refused("config", *argv)
    assert not console.config.exists()


def test_a_file_that_is_no_text(console: Console) -> None:
    console.friday_home.mkdir()
    console.config.write_bytes(b'model = "\xff"\n')
    assert console.refused("config", "show") == f"{console.config}:1: is not UTF-8 text. Save it as UTF-8."


@pytest.fixture
def project(console: Console) -> Path:
    root = console.project
    console.profile(root / ".friday/profiles", "coder", "description: ours", "allowedTools: [read_file, bash]")
    console.profile(root / "profiles", "bad", "description: x", "allowedTools: [raed_file]")
    console.profile(root / ".claude/agents", "rev", "description: reviews", "tools: Read, Grep")
    (root / ".friday/config.toml").write_text('mode = "plan"\n')
    return root


def test_what_trusting_would_allow_is_shown_and_nobody_is_asked_in_vain(console: Console, project: Path) -> None:
    ran = console("trust")
    assert ran.code == 2
    assert "--yes" in ran.error
    assert ".friday/config.toml: settings; they can only restrict yours (mode)" in ran.out
    assert ".friday/profiles/coder.md: profile coder, replaces the built-in coder; tools: bash, read_file" in ran.out
    assert ".claude/agents/rev.md: profile rev; tools: grep, read_file" in ran.out
    assert "profiles/bad.md: cannot be used: profiles/bad.md:4: allowedTools" in ran.out
    assert not is_trusted(project).ok


def test_trust_and_revoke(console: Console, project: Path) -> None:
    assert console("trust", "--yes").code == 0
    assert is_trusted(project).ok
    assert console("config", "get", "mode").out == "plan\n"
    assert "already trusted, and unchanged" in console("trust").error
    assert console("trust", "--list").rows[0][:2] == [str(project), "yes"]
    assert console("trust", str(project), "--revoke").code == 0
    assert not is_trusted(project).ok
    assert console("config", "get", "mode").out == "ask\n"
    assert console("trust", "--list").rows[0][1] == "no"


def test_a_change_is_shown_and_asked_about_again(console: Console, project: Path) -> None:
    console("trust", "--yes")
    (project / ".friday/config.toml").write_text('mode = "ask"\n')
    console.profile(project / ".friday/profiles", "new")
    ran = console("trust")
    assert ran.code == 2
    assert "  ~ .friday/config.toml" in ran.out
    assert "  + .friday/profiles/new.md" in ran.out


@pytest.mark.parametrize(("typed", "trusted"), [("y\n", True), ("\n", False), ("no\n", False), ("\x04", False)])
def test_a_person_is_asked(console: Console, project: Path, typed: str, trusted: bool) -> None:
    ran = console.terminal("trust", says=[("[y/N]", typed)])
    assert ran.code == 0
    assert is_trusted(project).ok is trusted


def test_a_project_that_changes_under_the_question_is_not_trusted(console: Console, project: Path) -> None:
    class Sly(str):
        """What is typed once the project has been changed."""

        def encode(self, *_: str) -> bytes:  # type: ignore[override]
            (project / ".friday/config.toml").write_text("[permissions]\ndeny = []\n")
            return b"y\n"

    ran = console.terminal("trust", says=[("[y/N]", Sly())])
    assert (ran.code, "changed during the review" in ran.out) == (2, True)
    assert not is_trusted(project).ok


def test_a_folder_without_anything_to_trust(console: Console) -> None:
    ran = console.ok("trust", "--yes")
    assert "no settings, profiles or instructions yet; an AGENTS.md would be used as instructions" in ran.out


def test_what_cannot_be_trusted(console: Console, tmp_path: Path) -> None:
    assert "is not a folder" in console("trust", str(tmp_path / "no")).error
    (console.project / ".friday").mkdir()
    (console.project / ".friday/config.toml").symlink_to("/etc/passwd")
    assert "is outside the project" in console.refused("trust", "--yes")


def test_a_damaged_book_of_trust_trusts_nothing_and_is_kept(console: Console) -> None:
    book = console.friday_home / "state/trust.json"
    book.parent.mkdir(parents=True)
    book.write_text("{")
    book.chmod(0o600)
    for argv in (("--yes",), ("--list",), ("--revoke",)):
        ran = console("trust", *argv)
        assert (ran.code, "is damaged" in ran.error) == (2, True), argv
    assert book.read_text() == "{"


def test_names_of_files_are_made_plain(console: Console) -> None:
    console.profile(console.project / ".friday/profiles", "x\x1b[31m", "description: [bold]")
    assert "\x1b" not in console("trust").out


def test_edit_opens_the_file_in_the_editor_and_checks_it(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", 'sh -c \'echo "mode = \\"plan\\"" > "$1"\' edit')
    monkeypatch.delenv("VISUAL", raising=False)
    assert "is valid" in console("config", "edit").error
    assert console("config", "get", "mode").out == "plan\n"
    monkeypatch.setenv("EDITOR", 'sh -c \'echo "mode = 3" > "$1"\' edit')
    wrong = console("config", "edit")
    assert (wrong.code, "config.toml:1" in wrong.error) == (2, True)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "no-such-editor cannot be started" in console("config", "edit").error
