"""What the first version (commit 626ac29) left on disk still works: sessions, settings, keys, profiles, a script.

The files beside this one were written by that version. Its session file holds a session of three prompts with three
sub-agents (one failed in the background) that was rewound to before the third, and a fork of it.
"""

from __future__ import annotations

import lzma
import sqlite3
from pathlib import Path

import pytest

from friday_cli.config import load
from friday_cli.frontends.tui.state import keymap
from tests.cli.console import Console

HERE = Path(__file__).parent
SESSION, FORK = "3eda2cb2", "140613e1"


@pytest.fixture
def old(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    """A console in the project of the old session, with the home of the first version."""
    kept, project = home / "friday", tmp_path / "project"
    (kept / "data").mkdir(parents=True)
    (kept / "profiles").mkdir()
    project.mkdir()
    (project / "a.txt").write_text("omega\ngamma\n")
    for name in ("auth.toml", "keys.toml"):
        (kept / name).write_bytes((HERE / name).read_bytes())
    (kept / "profiles" / "reviewer.md").write_bytes((HERE / "reviewer.md").read_bytes())
    settings = (HERE / "config.toml").read_text().replace("PLAY", str(HERE / "play.yaml"))
    (kept / "config.toml").write_text(settings)
    (kept / "data" / "friday.db").write_bytes(lzma.decompress((HERE / "friday.db.xz").read_bytes()))
    with sqlite3.connect(kept / "data" / "friday.db") as store:
        store.execute("UPDATE sessions SET cwd = ?", (str(project),))
        store.execute("UPDATE events SET body = replace(body, '/tmp/oldproject', ?)", (str(project),))
    store.close()
    monkeypatch.chdir(project)
    return Console(project, home, capsys)


def test_the_tree_of_an_old_session_is_shown(old: Console) -> None:
    tree = old("sessions", "show", SESSION, "--tree").out
    for part in (
        "a.1 coder · completed",
        "a.2 reviewer · completed",
        "a.3 researcher · failed (provider)",
        "changed: a.txt +1 -1",
        "WARNING: says that a command ran",
        "calls denied: 1",
    ):
        assert part in tree, tree


@pytest.mark.parametrize(("where", "said"), [
    (SESSION, "Two of three are done."),
    (f"{SESSION}:a.2", "It holds two lines."),
    (FORK, "Two of three are done."),
])  # fmt: skip
def test_the_conversations_of_old_sessions_are_shown(old: Console, where: str, said: str) -> None:
    assert said in old("sessions", "show", where).out


@pytest.mark.parametrize("form", ["md", "json", "atif"])
def test_an_old_session_is_exported(old: Console, form: str) -> None:
    assert "Changed a.txt." in old("sessions", "export", SESSION, "-f", form).out


def test_a_rewind_of_the_first_version_is_undone_and_its_changes_are_listed(old: Console) -> None:
    assert "Third question" not in old("sessions", "show", SESSION).out.splitlines()[-1]
    assert old("sessions", "rewind", SESSION, "--undo", "--yes").code == 0
    assert "Third question" in old("sessions", "show", SESSION).out
    assert "a.txt" in old("sessions", "diff", SESSION).out


def test_an_old_session_is_resumed_with_its_script_and_settings(old: Console) -> None:
    ran = old("ask", "-r", SESSION, "Go on")
    assert ran.code == 0, ran.err
    assert ran.out.strip() in {"Changed once more.", "Later."}


def test_old_settings_keys_and_profiles_hold(old: Console) -> None:
    settings = load().settings
    assert (settings.mode, settings.limits.max_turns, settings.agents.delegation.max_concurrent) == ("edits", 30, 3)
    assert settings.permissions.deny == ("bash(rm *)",)
    assert settings.providers["work"].base_url == "http://127.0.0.1:9/v1"
    assert "auth.toml" in old("auth", "list").out
    assert old("profiles", "check").code == 0
    assert "60,000 tokens, 30 turns, 300 s" in old("profiles", "list").out
    assert "friday: " not in old("config", "show").err
    assert keymap.read(lambda: ["transcript.find"]) == keymap.Keys({"transcript.find": "slash,ctrl+f"})
