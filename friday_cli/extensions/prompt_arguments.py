"""The arguments of commands and skills: reads what their front matter says of them, and fills what was typed into the text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize_line

_PLACEHOLDER = pattern(r"\$(?:(ARGUMENTS)\b|([1-9])(?![.,]?\d)|([A-Za-z_]\w*))")
_SHELL = pattern(r"!`([^`\n]+)`")


def argument_names(value: object) -> tuple[str, ...]:
    """The names in the value of `arguments`: a list, or words."""
    words = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    return tuple(word for word in words if isinstance(word, str))


def argument_hint(value: object) -> str:
    """The value of `argument-hint` as one line. `[file]` without quotes is a list in YAML."""
    hint = " ".join(f"[{word}]" for word in value) if isinstance(value, list) else str(value or "")
    return sanitize_line(hint, 80)


def fill(text: str, rest: str, names: Sequence[str] = ()) -> str:
    """`text` with its arguments. `$ARGUMENTS` is replaced by `rest`, and `$1` or the name of the first argument by its first
    word. A placeholder for a word that was not given stays (`$4,050`, `awk '{print $4}'`). If nothing was replaced, `rest` is appended."""
    try:
        parts = shlex.split(rest)
    except ValueError:  # an unbalanced quote, as in a sentence
        parts = rest.split()
    used = False

    def replaced(found: re.Match[str]) -> str:
        nonlocal used
        number = int(found[2]) if found[2] else names.index(found[3]) + 1 if found[3] in names else 0
        if not found[1] and not 0 < number <= len(parts):
            return found[0]
        used = True
        return rest if found[1] else parts[number - 1]

    filled = _PLACEHOLDER().sub(replaced, text)
    return filled if used or not rest else f"{filled}\n\n{rest}"


def skipped_note(name: str, text: str) -> str:
    """Tells which shell commands of the text are not run; "" without any."""
    skipped = [sanitize_line(command, 60) for command in _SHELL().findall(text)]
    more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"/{name}: not run, sent as text: {', '.join(skipped[:3])}{more}." if skipped else ""
