"""`friday sessions repair`: what it says, and that what it saved is read and gone on with."""

from __future__ import annotations

from friday_cli.paths import store_path
from tests.cli.console import Console


def test_there_is_nothing_to_repair(console: Console) -> None:
    ran = console("sessions", "repair")
    assert (ran.code, "nothing to repair" in ran.error) == (0, True)
    assert not store_path().exists()
    console.keep()
    ran = console("sessions", "repair")
    assert (ran.code, "is not damaged; nothing was changed" in ran.error) == (0, True)


def test_what_is_saved_can_be_read_again(console: Console, session: str) -> None:
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
    ran = console("sessions", "show", session)
    assert ran.code == 0
    assert "main.py has 2 lines." in ran.out
    assert console("sessions", "list").out.count(session[:8]) == 1
