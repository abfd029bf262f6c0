"""The tools `read_file`, `write_file`, `edit_file` and `list_dir`."""

from __future__ import annotations

from friday_cli.core.protocol.tool import Tool

from .edit import EDIT_FILE_TOOL, WRITE_FILE_TOOL
from .read import LIST_DIR_TOOL, READ_FILE_TOOL


def tools() -> list[Tool]:
    """The tools of this family."""
    return [READ_FILE_TOOL, WRITE_FILE_TOOL, EDIT_FILE_TOOL, LIST_DIR_TOOL]
