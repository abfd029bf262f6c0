"""`friday sessions repair`: what it says, and that what it saved is read and gone on with."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from friday_cli.paths import store_path
from tests.cli.console import Console


def cut_out(path: Path, seq: int) -> None:
    """Damage the file by the table of agents, and lose an event."""
    with sqlite3.connect(path) as raw:
        raw.execute("DELETE FROM events WHERE seq = ?", (seq,))
        raw.execute("DROP TABLE agents")
    raw.close()


def test_there_is_nothing_to_repair(console: Console) -> None:
    ran = console("sessions", "repair")
    assert (ran.code, "nothing to repair" in ran.error) == (0, True)
    assert not store_path().exists()
    console.keep()
    ran = console("sessions", "repair")
    assert (ran.code, "is not damaged; nothing was changed" in ran.error) == (0, True)


def test_what_is_saved_can_be_read_again(console: Console) -> None:
    session = console.keep()
    cut_out(store_path(), 2)  # where its main agent began
    ran = console("sessions", "show", session)
    assert (ran.code, "is damaged" in ran.error, "friday sessions repair" in ran.error) == (1, True, True)
    ran = console("sessions", "repair")
    assert (ran.code, ran.out) == (0, "")
    first, second = ran.err.splitlines()
    assert first.startswith("friday: saved 1 sessions with ")
    assert first.endswith(", and 0 notes; 1 events of them could not be read")
    (kept,) = store_path().parent.glob("friday.db.damaged-*")
    assert second.startswith("friday: the damaged file is kept as ")
    assert second.endswith(kept.name)
    ran = console("sessions", "show", session)
    assert ran.code == 0
    assert "main.py has 2 lines." in ran.out
    assert console("sessions", "list").out.count(session[:8]) == 1


def test_another_programs_file_is_left_alone(console: Console) -> None:
    store_path().parent.mkdir(parents=True)
    with sqlite3.connect(store_path()) as raw:
        raw.execute("CREATE TABLE bookmarks(url)")
        raw.execute("PRAGMA user_version = 2")
    raw.close()
    before = store_path().read_bytes()
    ran = console("sessions", "repair")
    assert (ran.code, "another program" in ran.error) == (1, True)
    assert store_path().read_bytes() == before
