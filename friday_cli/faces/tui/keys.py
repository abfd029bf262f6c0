"""The keys, one table by where the focus is, made from the bindings themselves.

Interface: `keys_page()` (Markdown, also docs/keys.md: `python -m friday_cli.faces.tui.keys`).
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

_NAMES = {
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "slash": "/",
    "pageup": "PageUp",
    "pagedown": "PageDown",
    "N": "N",
    "X": "X",
}
_INTRO = """# Keys

By where the focus is. Tab goes round: prompt, approval, chat, tree, sub-agent. There are no chords. A key is changed in
`keys.toml` in Friday's config folder: `"transcript.find" = "slash,ctrl+f"`."""


def tables() -> list[tuple[str, list[tuple[str, str, str]]]]:
    """(place, [(keys, what they do, name)]) of every binding."""
    from .approval import Approval
    from .bindings import EVERYWHERE
    from .prompt import Prompt
    from .reader import Reader
    from .side import Side
    from .transcript import Transcript
    from .tree import AgentTree

    places: list[tuple[str, Iterable[BindingType]]] = [
        ("Everywhere", EVERYWHERE),
        ("Prompt", Prompt.BINDINGS),
        ("Chat and sub-agent's transcript", [*Transcript.BINDINGS, *Reader.BINDINGS]),
        ("Tree of agents", AgentTree.BINDINGS),
        ("Tree and sub-agent's transcript", Side.BINDINGS),
        ("Questions and permissions", Approval.BINDINGS),
    ]
    return [(place, [_row(b) for b in bindings if isinstance(b, Binding)]) for place, bindings in places]


def _row(binding: Binding) -> tuple[str, str, str]:
    names = ", ".join(_key(key) for key in binding.key.split(","))
    return names, binding.description, binding.id or ""


def _key(key: str) -> str:
    key = _NAMES.get(key, key)
    return key if len(key) == 1 else "+".join(part[:1].upper() + part[1:] for part in key.split("+"))


def keys_page() -> str:
    """All keys as Markdown."""
    parts = [_INTRO]
    for place, rows in tables():
        parts.append(f"## {place}\n\n| key | what it does | name |\n|---|---|---|")
        parts[-1] += "".join(f"\n| `{keys}` | {words} | `{name}` |" for keys, words, name in rows)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(keys_page(), end="")
