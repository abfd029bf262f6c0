"""What commit 04dde396 left on disk is read unchanged: sessions, settings, profiles, batches.

The two databases were written by that version, in the folder FOLDER: a session of two prompts with three sub-agents, one of which
failed, and a batch of two items, one of which failed. Its settings, profile and script are those of the first version's test.
"""

from __future__ import annotations

import lzma
import sqlite3
from pathlib import Path

import pytest

from friday_cli.config import load
from tests.cli.console import Console

HERE = Path(__file__).parent
FIRST = HERE.parent / "first_version"
FOLDER = "/tmp/oldproject"
SESSION, BATCH = "dba0e8cd", "1519cf63"
MAP = ("map", "reviewer", "--items", "items.jsonl", "--task", "read {n}", "-m", "demo", "--max-cost", "1", "-y")


def _unpack(name: str, into: Path, *moves: str, project: Path) -> None:
    """Write a database of that version, with its folder moved to `project` in these columns (`table.column`)."""
    into.write_bytes(lzma.decompress((HERE / f"{name}.xz").read_bytes()))
    with sqlite3.connect(into) as db:
        for move in moves:
            table, column = move.split(".")
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (FOLDER, str(project)))
    db.close()


@pytest.fixture
def old(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    """A console in the project of the old session, with the home of that version."""
    kept, project = home / "friday", tmp_path / "project"
    (kept / "data").mkdir(parents=True)
    (kept / "profiles").mkdir()
    project.mkdir()
    (project / "a.txt").write_text("alpha\ngamma\n")
    (project / "items.jsonl").write_text('{"n": "a.txt"}\n{"n": "b.txt"}\n')
    (kept / "profiles" / "reviewer.md").write_bytes((FIRST / "reviewer.md").read_bytes())
    (kept / "config.toml").write_text((FIRST / "config.toml").read_text().replace("PLAY", str(FIRST / "play.yaml")))
    _unpack("friday.db", kept / "data" / "friday.db", "sessions.cwd", "events.body", project=project)
    _unpack("map.db", kept / "data" / "map.db", "batches.folder", "batches.job", "items.folder", project=project)
    monkeypatch.chdir(project)
    return Console(project, home, capsys)


def test_its_session_is_listed_and_shown(old: Console) -> None:
    assert SESSION in old("sessions", "list").out
    tree = old("sessions", "show", SESSION, "--tree").out
    for part in (
        "a friday · completed",
        "calls denied: 1 (bash)",
        "a.1 coder · completed",
        "1 finding: 1 [seen]",
        "a.2 reviewer · completed",
        "a.3 researcher · failed (provider)",
    ):
        assert part in tree, tree
    assert "And the third was reported." in old("sessions", "show", SESSION).out


def test_its_session_is_resumed_with_its_settings(old: Console) -> None:
    ran = old("ask", "-r", SESSION, "Go on")
    assert (ran.code, ran.out.strip()) == (0, "Changed once more."), ran.err
    settings = load().settings
    assert (settings.mode, settings.permissions.deny) == ("edits", ("bash(rm *)",))


def test_its_profile_is_read(old: Console) -> None:
    assert old("profiles", "check").code == 0
    assert "60,000 tokens, 30 turns, 300 s" in old("profiles", "list").out


def test_its_batch_is_shown_and_what_is_done_is_not_paid_again(old: Console) -> None:
    assert BATCH in old("map", "status").out
    before = old("map", "results", BATCH).out
    again = old(*MAP)
    assert (again.code, again.out) == (1, before), again.err
    assert "2 items: 1 done, 1 failed" in again.err
    (old.project / "b.txt").write_text("beta\n")
    assert old("map", "retry", BATCH, "--yes").code == 0
    assert '"state": "done", "result": "`b.txt` as `read_file` shows it' in old("map", "results", BATCH).out
