"""What the user chose for later chats: the theme and the width of the side pane. Errors of the file are ignored."""

from __future__ import annotations

from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FridayError
from friday_cli.system.paths import state_dir


class Preferences(msgspec.Struct):
    """`side` is a width in cells, 0 for none; `theme` is "" for none."""

    theme: str = ""
    side: int = 0


def _path() -> Path:
    return state_dir() / "chat.json"


def read() -> Preferences:
    """The saved preferences."""
    try:
        return msgspec.json.decode(_path().read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def keep(*, theme: str | None = None, side: int | None = None) -> None:
    """Save a preference."""
    from friday_cli.system import atomic_file

    known = read()
    kept = Preferences(known.theme if theme is None else theme, known.side if side is None else side)
    try:
        _path().parent.mkdir(parents=True, exist_ok=True)
        atomic_file.replace(_path(), msgspec.json.encode(kept).decode())
    except (OSError, FridayError):
        pass
