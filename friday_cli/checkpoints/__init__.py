"""What files held before agents changed them, kept outside the workspace, and the way back."""

from __future__ import annotations

from .baseline import Baseline, Limits
from .blobs import MEGABYTE, Blobs
from .keeper import Keeper
from .ledger import Change, Ledger, follows
from .plan import Conflict, Plan, plan
from .review import FileDiff, review, standing, strands

__all__ = [
    "MEGABYTE", "Baseline", "Blobs", "Change", "Conflict", "FileDiff", "Keeper", "Ledger", "Limits", "Plan", "follows",
    "plan", "review", "standing", "strands",
]  # fmt: skip
