"""The user's own keys, from keys.toml in the config folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode

from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import config_dir

_KEY = re.compile(r"(?:(?:ctrl|alt|shift|meta|super|hyper)\+)*(?:[a-z][a-z0-9_]*|[^\s,])")


@dataclass(frozen=True)
class Keys:
    """`chosen` maps names of bindings to keys; `problems` are messages to the user."""

    chosen: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def file() -> Path:
    """The path of keys.toml."""
    return config_dir() / "keys.toml"


def read(names: Callable[[], Collection[str]]) -> Keys:
    """The valid entries of the file. `names`, of all bindings, is called only if there is one: it loads all widgets. An invalid
    entry leaves the default key."""
    path = file()
    try:
        text = path.read_text(encoding="utf-8-sig")
        import tomllib

        data = _flat(tomllib.loads(text))
    except FileNotFoundError:
        return Keys()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not TOML
        return Keys(problems=(f"{path}: {sanitize_line(str(error), 200)}; the keys are unchanged.",))
    known = names()
    chosen: dict[str, str] = {}
    problems: list[str] = []
    for name, keys in data.items():
        if name not in known:
            problems.append(f"{path}: there is no {sanitize_line(name, 60)!r}; /keys has the names.")
        elif not isinstance(keys, str) or not all(_KEY.fullmatch(key.strip()) for key in keys.split(",")):
            problems.append(f'{path}: {name}: write keys such as "ctrl+f,slash", not {sanitize_line(str(keys), 60)!r}.')
        else:
            chosen[name] = ",".join(key.strip() for key in keys.split(","))
    return Keys(chosen, tuple(problems))


def held(widget: DOMNode) -> dict[str, list[Binding]]:
    """The bindings of one widget by key, with the user's own keys, whether it has the focus or not."""
    bindings = widget._bindings.copy()
    bindings.apply_keymap(widget.app._keymap)
    return bindings.key_to_bindings


def _flat(data: dict[str, object], above: str = "") -> dict[str, object]:
    """`tree.up = "w"` without quotes around the name is a table in TOML; it means the same."""
    out: dict[str, object] = {}
    for name, value in data.items():
        out |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return out
