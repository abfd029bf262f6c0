"""Saves the content of files before agents change them, outside the workspace, and plans how to restore it."""

from __future__ import annotations

from .blobs import MEGABYTE, Blobs, baseline_of, blobs_of
from .recorder import CheckpointRecorder
from .scan import SnapshotLimits
from .snapshot import Snapshot

__all__ = ["MEGABYTE", "Blobs", "CheckpointRecorder", "Snapshot", "SnapshotLimits", "baseline_of", "blobs_of"]
