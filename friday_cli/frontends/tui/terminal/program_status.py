"""Reports to the terminal whether Friday works, waits for the person, is done or has failed (OSC 7501, program status).

Nothing is reported before the terminal has answered that it reads such reports. A report never has a text of the session.
"""

from __future__ import annotations

from collections.abc import Callable

from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.view import SessionView

CLEAR = "\x1b]7501;state=clear\x1b\\"
"""Removes what was reported."""


class ProgramStatus:
    """Calls `write` with a report when the state has changed."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._has_worked = False
        self.supported = False
        """Whether the terminal reads reports."""
        self.reported = ""
        """The last report, "" for none."""

    def follow(self, view: SessionView, *, working: bool) -> None:
        """Report the state of a session. `working`: the main agent is at work."""
        state = self._state(view, working=working)
        report = f"\x1b]7501;state={state}:app=friday\x1b\\"
        if self.supported and report != self.reported:
            self.reported = report
            self._write(report)

    def _state(self, view: SessionView, *, working: bool) -> str:
        if view.asks:
            question = any(isinstance(ask.event, QuestionAsked) for ask in view.asks.values())
            return f"blocked:kind={'question' if question else 'permission'}"
        if working or view.working:
            self._has_worked = True
            return "working"
        root = view.root
        if not self._has_worked or root is None:
            return "idle"
        return {"completed": "done", "failed": "error", "timeout": "error"}.get(root.status, "idle")
