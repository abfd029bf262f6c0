"""What a person chose and finds again the next time: the theme, the width of the side pane.

Interface: `read()`, `keep(theme=..., side=...)`. A file that cannot be read or written costs nothing but memory.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FridayError
from friday_cli.paths import state_dir


class Preferences(msgspec.Struct):
    """`side` is a width in cells, 0 where none was chosen; `theme` "" likewise."""

    theme: str = ""
    side: int = 0


def _path() -> Path:
    return state_dir() / "chat.json"


def read() -> Preferences:
    """What was chosen."""
    try:
        return msgspec.json.decode(_path().read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def keep(*, theme: str | None = None, side: int | None = None) -> None:
    """Remember a choice."""
    from friday_cli import atomic_file

    taste = read()
    taste.theme = taste.theme if theme is None else theme
    taste.side = taste.side if side is None else side
    try:
        _path().parent.mkdir(parents=True, exist_ok=True)
        atomic_file.replace(_path(), msgspec.json.encode(taste).decode())
    except (OSError, FridayError):
        pass
