"""The tools `glob` (files by name) and `grep` (files by content).

Imports nothing heavy: `scan` in this package runs as a separate program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from friday_cli.core.protocol.tool import Tool


def tools() -> list[Tool]:
    """The tools of this family."""
    from .find import GLOB_TOOL
    from .grep import GREP_TOOL

    return [GLOB_TOOL, GREP_TOOL]
