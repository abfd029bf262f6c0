"""The page of keys, one table per place of the focus, made from the bindings.

docs/keys.md is this page without own keys: `python -m friday_cli.frontends.tui.keys.keys`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding, BindingType

_NAMES = {
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "slash": "/",
    "pageup": "PageUp",
    "pagedown": "PageDown",
    "N": "N",
    "P": "P",
    "X": "X",
}
_INTRO = """# Keys

By where the focus is. Tab goes round: prompt, approval, chat, tree, sub-agent. There are no chords.
A key is changed in `keys.toml` in Friday's config folder, by its name: `"transcript.find" = "slash,ctrl+f"`.
`/keys` shows the keys that hold."""


HINTED = {
    "Ctrl+T agents": "app.tree", "Ctrl+Y answers": "app.answer", "Shift+Tab mode": "app.mode", "F1 help": "app.help",
    "Enter opens": "tree.open", "a answers": "tree.answer", "x cancels": "agent.cancel", "m writes": "agent.message", "f filters": "tree.filter",
    "v marks": "transcript.mark", "/ searches": "transcript.find", "Esc interrupts": "app.back",
}  # fmt: skip
"""Hints that name a key which users can change."""


def places() -> list[tuple[str, list[Binding]]]:
    """Every place with its bindings."""
    from ..widgets.agent_panel import AgentPanel
    from ..widgets.agent_tree import AgentTree
    from ..widgets.approval_panel import Approval
    from ..widgets.diff_review import Review
    from ..widgets.text_input import Prompt
    from ..widgets.transcript import Transcript
    from .global_bindings import EVERYWHERE

    found: list[tuple[str, Iterable[BindingType]]] = [
        ("Everywhere", EVERYWHERE),
        ("Prompt", Prompt.BINDINGS),
        ("Chat and sub-agent's transcript", Transcript.BINDINGS),
        ("Tree of agents", AgentTree.BINDINGS),
        ("Tree and sub-agent's transcript", AgentPanel.BINDINGS),
        ("Questions and permissions", Approval.BINDINGS),
        ("Review of changes", Review.BINDINGS),
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
    parts = [_INTRO]
    for place, bindings in places():
        parts.append(f"## {place}\n\n| key | what it does | name |\n|---|---|---|")
        for binding in bindings:
            name = binding.id or ""
            keys = ", ".join(_key(key) for key in mine.get(name, binding.key).split(","))
            parts[-1] += f"\n| `{keys}` | {binding.description}{' (yours)' if name in mine else ''} | `{name}` |"
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(keys_page(), end="")
