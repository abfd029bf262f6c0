"""Sessions, agents, events and memories in one SQLite file. Submodules are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .journal import SessionJournal
    from .locks import Ownership
    from .memory import StoredMemory
    from .records import AgentRow, MemoryItem, SessionRow, StatRow
    from .retention import prune
    from .store import Store, new_id

_MODULES = {
    "SessionJournal": "journal",
    "Ownership": "locks",
    "StoredMemory": "memory",
    "prune": "retention",
    **dict.fromkeys(("AgentRow", "MemoryItem", "SessionRow", "StatRow"), "records"),
    **dict.fromkeys(("Store", "new_id"), "store"),
}

__all__ = [
    "AgentRow", "MemoryItem", "Ownership", "SessionJournal", "SessionRow", "StatRow", "Store", "StoredMemory", "new_id", "prune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
