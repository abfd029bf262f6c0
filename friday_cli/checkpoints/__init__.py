"""What files held before agents changed them, kept outside the workspace, and the way back."""

from __future__ import annotations

from .baseline import Baseline, Limits
from .blobs import MEGABYTE, Blobs, blobs_of
from .keeper import Keeper

__all__ = ["MEGABYTE", "Baseline", "Blobs", "Keeper", "Limits", "blobs_of"]
