"""`friday sessions fork`, `rewind` and `diff`."""

from __future__ import annotations

from tests.cli.console import Console


def test_a_fork_is_a_session_of_its_own(console: Console) -> None:
    session = console.keep()
    ran = console("sessions", "fork", session[:6], "--json")
    assert ran.code == 0
    made = ran.document["session_id"]
    assert made != session
    shown = console("sessions", "show", made, "--tree")
    assert "researcher" in shown.out
    assert len(console("sessions", "list").rows) == 2
    assert "(fork)" in console("sessions", "list").out


def test_a_fork_says_what_it_cannot(console: Console) -> None:
    session = console.keep()
    assert (
        "There is no message 9 in this conversation. It has 1"
        in console("sessions", "fork", session, "--at", "9").error
    )
    assert "nothing before that message" in console("sessions", "fork", session, "--at", "1").error
    assert "with all its agents" in console("sessions", "fork", f"{session}:a.1").error
