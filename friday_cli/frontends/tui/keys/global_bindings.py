"""The keys that work everywhere. Widgets have their own in their `BINDINGS`."""

from __future__ import annotations

from textual.binding import Binding, BindingType

EVERYWHERE: list[BindingType] = [
    Binding("escape", "back", "Close, undo or interrupt; twice: rewind", id="app.back"),
    Binding("ctrl+c", "interrupt", "Copy, clear, interrupt; twice: quit", id="app.interrupt"),
    Binding("ctrl+d", "leave_empty", "Quit, when the prompt is empty", id="app.quit"),
    Binding("ctrl+q", "leave", "Quit", show=False, priority=True, id="app.quit_now"),
    Binding("shift+tab", "mode", "Next mode: what passes without asking", priority=True, id="app.mode"),
    Binding("ctrl+o", "details", "Show or hide all details", priority=True, id="app.details"),
    Binding("ctrl+t", "tree", "The tree of agents: show, go there, hide", priority=True, id="app.tree"),
    Binding("ctrl+b", "background", "Continue the newest sub-agent in the background", priority=True, id="app.background"),
    Binding("ctrl+y", "answer", "Go to what is asked", priority=True, id="app.answer"),
    Binding("alt+left", "wider(4)", "Wider side pane", show=False, id="app.wider"),
    Binding("alt+right", "wider(-4)", "Narrower side pane", show=False, id="app.narrower"),
    Binding("ctrl+l", "redraw", "Draw the screen again", show=False, priority=True, id="app.redraw"),
    Binding("f1", "help", "Help", id="app.help"),
    Binding("ctrl+p", "command_palette", "All commands", priority=True, id="app.palette"),
]  # fmt: skip
