"""Makes what saves the earlier contents of a session's files. Imported with the first change: it needs eight modules."""

from __future__ import annotations

from collections.abc import Mapping

from friday_cli.config import Settings
from friday_cli.core.eventlog.log import Log
from friday_cli.workspace.checkpoints.blobs import MEGABYTE, baseline_of, blobs_of
from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
from friday_cli.workspace.checkpoints.scan import SnapshotLimits
from friday_cli.workspace.checkpoints.snapshot import Snapshot
from friday_cli.workspace.local_files import WorkspaceFiles


def recorder_of(
    files: WorkspaceFiles, settings: Settings, log: Log, session: str, env: Mapping[str, str] | None
) -> CheckpointRecorder:
    """What saves the earlier contents of `files` in the folders of the session, and records that in `log`."""
    limits, blobs = settings.checkpoints, blobs_of(session, settings, env)
    most = limits.file_megabytes * MEGABYTE
    sizes = SnapshotLimits(file=most, all=limits.folder_megabytes * MEGABYTE)
    base = Snapshot(files.roots, baseline_of(session, env), sizes) if limits.commands else None
    return CheckpointRecorder(blobs, base, log, label=files.label, most=most)
