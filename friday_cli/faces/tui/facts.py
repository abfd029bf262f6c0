"""What the status line and the lists say about the session and the folder. Interface: `of`, `hint`, `Places`, `profiles`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from friday_cli.core.errors import FridayError
from friday_cli.view import State, cost

from .engine import Engine
from .status import Facts


class Places:
    """The folder as it is shown, and its git branch, read from the repository's own file."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        home = os.path.expanduser("~")
        text = str(cwd)
        self.folder = "~" + text[len(home) :] if text == home or text.startswith(home + os.sep) else text
        self.branch = ""

    def look(self) -> None:
        """Read the branch."""
        for folder in (self._cwd, *self._cwd.parents):
            git = folder / ".git"
            try:
                if git.is_file():
                    git = folder / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
                head = (git / "HEAD").read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                continue
            self.branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
            return


def of(engine: Engine, places: Places, hint: str) -> Facts:
    """What the status line says now."""
    state, session = engine.state, engine.session
    provider = session.root.provider if session else None
    root = state.root
    window = (root.window if root else 0) or (provider.window if provider else 0)
    badge = provider.badge if provider else ""
    effort = f":{session.root.effort}" if session and session.root.effort else ""
    totals = state.totals
    working = state.working
    waiting = sum(agent.status.startswith("waiting") or agent.status == "queued" for agent in working)
    demo = bool(provider and provider.name == "demo")
    return Facts(
        folder=places.folder,
        branch=places.branch,
        model=f"{provider.model}{effort}" if provider else "",
        badge=badge,
        mode=state.mode or (session.rules.mode if session else ""),
        sandbox=session.sandbox if session else "",
        context=root.context / window if root and root.context and window else None,
        free=max(window - root.context, 0) if root and root.context and window else None,
        cost="" if demo or not totals.billed else cost(totals),
        running=len(working) - waiting,
        waiting=waiting,
        asks=len(state.asks),
        hint=hint,
    )


Place = Literal["prompt", "chat", "child", "tree", "panel", "marking", ""]
"""Where a person's keys go; "" is a field of its own."""

_HINTS: dict[Place, str] = {
    "marking": "arrows mark · v begins here · c copies · Esc leaves",
    "tree": "Enter opens · x cancels · m writes · f filters · Esc",
    "child": "Enter full screen · x cancels · m writes · Esc",
    "chat": "j k entries · Enter unfolds · v marks · / searches · Esc",
    "panel": "1-9 or Enter answers · Tab: prompt",
}


def hint(state: State, place: Place, *, working: bool, pane: bool, queued: bool) -> str:
    """The keys that matter now. `pane` tells whether the side pane is open, `queued` whether messages wait."""
    if place == "prompt" and state.asks:
        return "Ctrl+Y answers"
    if place in _HINTS:
        return _HINTS[place]
    if len(state.agents) > 1 and not pane:
        return "Ctrl+T agents" + (" · Esc interrupts" if working else "")
    if working:
        return "Enter sends now · Esc takes back" if queued else "Enter queues · Esc interrupts"
    return "F1 help · / commands · Shift+Tab mode"


def profiles(cwd: Path, trusted: bool) -> list[tuple[str, str]]:
    """(name, description) of the profiles here; none where they cannot be read (opening the session says why)."""
    from .cards import profile_names

    try:
        return profile_names(cwd, trusted=trusted)
    except FridayError:
        return []
