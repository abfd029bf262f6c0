"""Texts of the status line: the session, the folder, and the keys that matter now."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import cost, is_demo
from friday_cli.core.protocol.messages import Usage
from friday_cli.system.git_head import short_branch
from friday_cli.system.paths import with_tilde
from friday_cli.view.tree import cap_wait, network_wait

from .controller import SessionController
from .widgets.status_bar import StatusFacts


class Folder:
    """The name of a folder for the status line, and its git branch, read from `.git/HEAD`."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self.name = with_tilde(cwd)
        self.branch = ""

    def read_branch(self) -> None:
        """Read the branch."""
        self.branch = short_branch(self._cwd)


def facts(controller: SessionController, folder: Folder, hint: str) -> StatusFacts:
    """What the status line shows now."""
    state, session = controller.state, controller.session
    root = state.root
    now = session.facts if session else None
    badge = now.badge if now else "read only" if controller.observer else ""
    demo = is_demo(now.model if now else root.model if root else "")
    effort = f":{now.effort}" if now and now.effort else ""
    used = root.context if root else 0
    chosen, last = now.context_window if now else 0, root.window if root else 0
    window = chosen or last  # `/model` changes the first one at once
    totals = state.usage_of(root.path) if root else Usage()
    working = state.working
    waiting = sum(agent.status in ("queued", "waiting_child", "waiting_rate", "waiting_budget") for agent in working)
    running = sum(agent.status == "running" for agent in working)
    return StatusFacts(
        folder=folder.name,
        branch=folder.branch,
        model=f"{now.model.partition('/')[2]}{effort}" if now else "",
        badge=badge if now or not demo else f"{badge} · demo: scripted",
        mode=controller.mode,
        sandbox=now.sandbox if now else "",
        context=used / window if used and window else None,
        free=max(window - used, 0) if used and window else None,
        cost="" if demo or not totals.billed else cost(totals),
        running=running,
        waiting=waiting,
        offline=network_wait(state, time.time()) or cap_wait(state),
        asks=len(state.asks),
        compacting=controller.compaction.running,
        hint=hint,
    )


Place = Literal["prompt", "chat", "child", "whole", "tree", "panel", "words", "marking", "welcome", ""]
"""Where the keys go: "whole" is a sub-agent's transcript that fills the screen, "panel" what an agent asks, "words" the field of
an answer, "" any other field."""

_HINTS: dict[Place, str] = {
    "marking": "arrows mark · v begins here · c copies · Esc leaves",
    "tree": "Enter opens · x stops · m writes · f filters · Esc",
    "child": "Enter full screen · x stops · m writes · Esc",
    "whole": "Enter shows the chat again · x stops · m writes · Esc",
    "chat": "j k entries · Enter unfolds · v marks · / searches · Esc",
    "welcome": "Enter selects · paste an API key to use it",
    "words": "Enter answers · Up: the choices",
}


def read_only_reason(controller: SessionController) -> str:
    """Why messages cannot be sent; "" when they can."""
    if controller.observer is None:
        return ""
    if controller.observer.owner_pid is None:
        return "Read only: the other process has ended"
    return f"Read only: open in process {controller.observer.owner_pid}; /detach or quit it there"


def hint(
    controller: SessionController, place: Place, *, pane: bool, queued: bool, chosen: str = "a", asked: str = ""
) -> str:
    """The keys that matter now. `pane`: the side pane is open; `queued`: messages wait; `chosen`: the agent under the
    cursor of the tree; `asked`: the keys of the question that is shown."""
    state, working = controller.state, controller.working
    if controller.observer is not None and place in ("prompt", "panel"):
        return "F1 help · / commands"
    if place == "prompt" and state.asks:
        return "Ctrl+Y answers"
    if place == "tree" and controller.observer is None and (agent := state.agents.get(chosen)) and agent.asks:
        return f"a answers · {_HINTS[place]}"
    if place == "panel":
        return f"{asked} · Tab: prompt" if asked else "Tab: prompt"
    if place in _HINTS:
        return _HINTS[place]
    if len(state.agents) > 1 and not pane:
        return "Ctrl+T agents" + (" · Esc stops" if working else "")
    if working:
        return "Enter sends now · Up edits · Esc stops" if queued else "Enter queues · Esc stops"
    return "F1 help · / commands · Shift+Tab mode"


def profiles(cwd: Path, trusted: bool) -> list[tuple[str, str]]:
    """(name, description) of the profiles of a folder; none when they cannot be read (opening the session reports why)."""
    from .commands.command_output import profile_names

    try:
        return profile_names(cwd, trusted=trusted)
    except FridayError:
        return []
