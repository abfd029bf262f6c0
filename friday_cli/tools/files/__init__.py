"""The tools `read_file`, `write_file`, `edit_file` and `list_dir`."""

from __future__ import annotations

from friday_cli.core.protocol.tool import Tool

from .edit import EDIT_FILE, WRITE_FILE
from .read import LIST_DIR, READ_FILE


def tools() -> list[Tool]:
    """The tools of this family."""
    return [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR]
