"""Sessions, agents, events and memories in one SQLite file."""

from __future__ import annotations

from .journal import SessionJournal
from .locks import Ownership
from .memory import StoredMemory
from .retention import prune
from .rows import AgentRow, MemoryItem, SessionRow, StatRow
from .store import Store, new_id

__all__ = [
    "AgentRow", "MemoryItem", "Ownership", "SessionJournal", "SessionRow", "StatRow", "Store", "StoredMemory", "new_id", "prune",
]  # fmt: skip
