"""Search tools: glob finds files by name, grep by content. This file stays light: `scan` runs as a program of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from friday_cli.core.protocol.tool import Tool


def tools() -> list[Tool]:
    """The tools of this group."""
    from .find import GLOB
    from .grep import GREP

    return [GLOB, GREP]
