"""What the status line and the lists say about the session and the folder. Interface: `of`, `hint`, `watched`,
`Places`, `profiles`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import cost, is_demo
from friday_cli.paths import with_tilde

from .controller import SessionController
from .widgets.status_bar import StatusFacts


class Places:
    """The folder as it is shown, and its git branch, read from the repository's own file."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self.folder = with_tilde(cwd)
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


def of(engine: SessionController, places: Places, hint: str) -> StatusFacts:
    """What the status line says now."""
    state, session = engine.state, engine.session
    root = state.root
    badge = session.badge if session else "read only" if engine.window else ""
    demo = is_demo(session.model if session else root.model if root else "")
    effort = f":{session.effort}" if session and session.effort else ""
    totals = state.totals
    working = state.working
    waiting = sum(agent.status in ("queued", "waiting_child", "waiting_rate") for agent in working)
    running = sum(agent.status == "running" for agent in working)
    return StatusFacts(
        folder=places.folder,
        branch=places.branch,
        model=f"{session.model.partition('/')[2]}{effort}" if session else "",
        badge=badge if session or not demo else f"{badge} · demo: scripted",
        mode=engine.mode,
        sandbox=session.sandbox if session else "",
        context=root.context / root.window if root and root.context and root.window else None,
        free=root.free if root and root.context else None,
        cost="" if demo or not totals.billed else cost(totals),
        running=running,
        waiting=waiting,
        asks=len(state.asks),
        compacting=engine.compacting,
        hint=hint,
    )


Place = Literal["prompt", "chat", "child", "whole", "tree", "panel", "words", "marking", "welcome", ""]
"""Where a person's keys go; "whole" is a sub-agent's transcript that fills the screen, "words" the field of an answer, and
"" a field of its own."""

_HINTS: dict[Place, str] = {
    "marking": "arrows mark · v begins here · c copies · Esc leaves",
    "tree": "Enter opens · x cancels · m writes · f filters · Esc",
    "child": "Enter full screen · x cancels · m writes · Esc",
    "whole": "Enter shows the chat again · x cancels · m writes · Esc",
    "chat": "j k entries · Enter unfolds · v marks · / searches · Esc",
    "welcome": "Enter takes it · a pasted key goes into its field",
    "panel": "1-9 or Enter answers · Tab: prompt",
    "words": "Enter answers · Esc: the choices",
}


def watched(engine: SessionController) -> str:
    """Why nothing can be sent, "" where it can."""
    if engine.window is None:
        return ""
    if engine.window.owner_pid is None:
        return "Read only: the other window has ended"
    return f"Read only: window {engine.window.owner_pid} drives this session; it goes on here when that ends"


def hint(engine: SessionController, place: Place, *, pane: bool, queued: bool, chosen: str = "a") -> str:
    """The keys that matter now. `pane` tells whether the side pane is open, `queued` whether messages wait, `chosen` is
    the agent that the cursor of the tree stands on."""
    state, working = engine.state, engine.working
    if engine.window is not None and place in ("prompt", "panel"):
        return "F1 help · / commands"
    if place == "prompt" and state.asks:
        return "Ctrl+Y answers"
    if place == "tree" and engine.window is None and (agent := state.agents.get(chosen)) and agent.asks:
        return f"a answers · {_HINTS[place]}"
    if place in _HINTS:
        return _HINTS[place]
    if len(state.agents) > 1 and not pane:
        return "Ctrl+T agents" + (" · Esc interrupts" if working else "")
    if working:
        return "Enter sends now · Esc takes back" if queued else "Enter queues · Esc interrupts"
    return "F1 help · / commands · Shift+Tab mode"


def profiles(cwd: Path, trusted: bool) -> list[tuple[str, str]]:
    """(name, description) of the profiles here; none where they cannot be read (opening the session says why)."""
    from .commands.command_output import profile_names

    try:
        return profile_names(cwd, trusted=trusted)
    except FridayError:
        return []
