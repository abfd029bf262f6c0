"""What files held before agents changed them, kept outside the workspace, and the way back."""

from __future__ import annotations

from .blobs import MEGABYTE, Blobs, blobs_of
from .recorder import CheckpointRecorder
from .snapshot import Snapshot, SnapshotLimits

__all__ = ["MEGABYTE", "Blobs", "CheckpointRecorder", "Snapshot", "SnapshotLimits", "blobs_of"]
