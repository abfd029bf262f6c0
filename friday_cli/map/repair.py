"""Repairs a damaged file of batches: every item's result that can be read is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import msgspec

from friday_cli.store.salvage import Layout, Saved, salvage

from .charges import State
from .job import MapJob
from .store import TABLES, connect


def repair(path: Path, report: Callable[[str], object] = lambda text: None) -> Saved:
    """Replace a damaged file with a new one that has all readable rows. Raises as `salvage`. Blocks."""
    return salvage(path, LAYOUT, report)


def _fits(table: str, row: Mapping[str, object]) -> bool:
    """Whether Friday can use a row: a damaged text may still be a text."""
    if table == "items":
        return row["state"] in get_args(State)
    try:
        if table == "batches":
            msgspec.json.decode(str(row["job"]), type=MapJob)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


LAYOUT = Layout(connect, TABLES, "items", "map", fits=_fits)
"""A lost batch is made again by its command; the work of its items, which is named by what decides it, is not done twice."""
