"""The page of keys, one table per place of the focus, made from the bindings.

docs/keys.md is this page without own keys: `python -m friday_cli.frontends.tui.keys.keys`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding, BindingType

EVERYWHERE: list[BindingType] = [
    Binding("escape", "back", "Close or stop; twice: rewind", id="app.back"),
    Binding("ctrl+c", "interrupt", "Stop; copy, clear; twice: quit", id="app.interrupt"),
    Binding("ctrl+d", "leave_empty", "Quit, when the prompt is empty", id="app.quit"),
    Binding("ctrl+q", "quit", "Quit", show=False, priority=True, id="app.quit_now"),
    Binding("shift+tab", "mode", "Next mode: what runs without asking", priority=True, id="app.mode"),
    Binding("ctrl+o", "details", "Show or hide all details", priority=True, id="app.details"),
    Binding("ctrl+t", "tree", "The tree of agents: show, go there, hide", priority=True, id="app.tree"),
    Binding("ctrl+b", "background", "Continue the newest sub-agent in the background", priority=True, id="app.background"),
    Binding("ctrl+y", "answer", "Go to the open question", priority=True, id="app.answer"),
    Binding("alt+left", "wider(4)", "Wider side pane", show=False, id="app.wider"),
    Binding("alt+right", "wider(-4)", "Narrower side pane", show=False, id="app.narrower"),
    Binding("ctrl+l", "redraw", "Redraw the screen", show=False, priority=True, id="app.redraw"),
    Binding("f1", "help", "Help", id="app.help"),
    Binding("ctrl+p", "command_palette", "All commands", priority=True, id="app.palette"),
]  # fmt: skip
"""The keys that work everywhere. Widgets have their own in their `BINDINGS`."""
_NAMES = {
    "right_square_bracket": "]", "left_square_bracket": "[", "slash": "/", "question_mark": "?", "plus": "+", "equals_sign": "=", "minus": "-", "pageup": "PageUp", "pagedown": "PageDown",
}  # fmt: skip
_INTRO = """# Keys

By where the focus is. Tab cycles through the prompt, the question, the chat, the tree and the sub-agent.
A key is changed in `keys.toml` in Friday's config folder, by its name: `"transcript.find" = "slash,ctrl+f"`.
`/keys` shows the keys in use."""


HINTED = {
    "Ctrl+T agents": "app.tree", "Ctrl+Y answers": "app.answer", "Shift+Tab mode": "app.mode", "F1 help": "app.help",
    "Enter opens": "tree.open", "a answers": "tree.answer", "x stops": "agent.cancel", "m writes": "agent.message", "f filters": "tree.filter",
    "v marks": "transcript.mark", "/ searches": "transcript.find", "Esc stops": "app.back",
}  # fmt: skip
"""Hints that name a key which users can change."""


_VIM = """## Vim keys in the prompt

`/vim` turns them on and off, as does `tui.vim = true` in the settings. The prompt begins in insert mode, and again after a
message; its line shows the mode. Enter sends in every mode, and Esc stops what runs in every mode.

| keys | what they do |
|---|---|
| `Esc` | normal mode |
| `i` `a` `I` `A` `o` `O` | insert mode: here, behind, at the begin or end of the row, in a new row below or above |
| `h` `j` `k` `l` `w` `b` `e` `W` `B` `E` `0` `^` `$` `gg` `G` `fx` `Fx` `tx` `Tx` | move; `k` in the first row goes to earlier prompts |
| `d` `c` `y` with a motion, `iw` or `aw`, or twice for the row | delete, change, copy |
| `x` `X` `D` `C` `Y` `s` `S` `rx` `~` `J` | one character, the rest of the row, replace, change the case, join rows |
| `p` `P` | put what was deleted or copied behind or before the cursor |
| `u` `U` | undo, redo |
| `v` `V` | mark characters or rows, then `d` `c` `y` `p`; `o` goes to the other end |

A number before a key repeats it, as in `3w` or `2dd`."""


def places() -> list[tuple[str, list[Binding]]]:
    """Every place with its bindings."""
    from ..fleet_screen import FleetApp
    from ..widgets.agent_panel import AgentPanel
    from ..widgets.agent_tree import AgentTree
    from ..widgets.approval_panel import Approval
    from ..widgets.diff_review import Review
    from ..widgets.profile_dialog import ProfileDialog
    from ..widgets.text_input import Prompt
    from ..widgets.timeline_screen import TimelineScreen
    from ..widgets.transcript import Transcript

    found: list[tuple[str, Iterable[BindingType]]] = [
        ("Everywhere", EVERYWHERE),
        ("Prompt", Prompt.BINDINGS),
        ("Chat and sub-agent's transcript", Transcript.BINDINGS),
        ("Tree of agents", AgentTree.BINDINGS),
        ("Tree and sub-agent's transcript", AgentPanel.BINDINGS),
        ("Questions and permissions", Approval.BINDINGS),
        ("Review of changes", Review.BINDINGS),
        ("Profiles", ProfileDialog.BINDINGS),
        ("Timeline", TimelineScreen.BINDINGS),
        ("All sessions (`friday agents`)", FleetApp.BINDINGS),
    ]
    return [(place, [b for b in bindings if isinstance(b, Binding)]) for place, bindings in found]


def names() -> set[str]:
    """The names of bindings in keys.toml."""
    return {binding.id for _, bindings in places() for binding in bindings if binding.id}


def _key(key: str) -> str:
    key = _NAMES.get(key, key)
    return key if len(key) == 1 else "+".join(part[:1].upper() + part[1:] for part in key.split("+"))


def respelled(words: str, chosen: Mapping[str, str]) -> str:
    """A hint with the user's own keys instead of the defaults."""
    parts = words.split(" · ")
    for at, part in enumerate(parts):
        if (name := HINTED.get(part, "")) in chosen:
            parts[at] = f"{_key(chosen[name].split(',')[0])} {part.partition(' ')[2]}"
    return " · ".join(parts)


def keys_page(chosen: Mapping[str, str] | None = None) -> str:
    """All keys as Markdown; `chosen` are the user's own, by name."""
    mine = chosen or {}
    parts = [_INTRO if chosen is None else _INTRO.rpartition("\n")[0]]
    for place, bindings in places():
        parts.append(f"## {place}\n\n| key | what it does | name |\n|---|---|---|")
        for binding in bindings:
            name = binding.id or ""
            keys = ", ".join(_key(key) for key in mine.get(name, binding.key).split(","))
            parts[-1] += f"\n| `{keys}` | {binding.description}{' (yours)' if name in mine else ''} | `{name}` |"
    return "\n\n".join([*parts, _VIM]) + "\n"


if __name__ == "__main__":
    print(keys_page(), end="")
