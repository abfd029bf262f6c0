"""Detects what a command changed: files of the workspace, and protected files that its sandbox could not protect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from friday_cli.core.protocol.receipt import FileChange

from ..fs import change_detection
from ..sandbox import tamper_check
from .command import RunningCommand

SKIPPED_SCANS = 20
"""Commands without a scan for changed files after one scan took too long."""


class EffectDetector:
    """Scans the folders `roots`; `label` names a path as people see it."""

    def __init__(self, roots: Sequence[Path], label: Callable[[Path], str]) -> None:
        self._roots, self._label = roots, label
        self._scans_to_skip = 0

    async def changed(self, command: RunningCommand, written: Mapping[str, str]) -> tuple[FileChange, ...]:
        """The files that changed while `command` ran, except those with just the content that Friday wrote (`written`:
        sha256 by path). Empty if the scan takes too long."""
        if self._scans_to_skip:
            self._scans_to_skip -= 1
            return ()
        found = await asyncio.to_thread(
            change_detection.since,
            self._roots,
            command.file_time,
            label=self._label,
            known=dict(written),
            remark="seen while a command ran" + (", shared" if command.shared else ""),
        )
        if found is None:
            self._scans_to_skip = SKIPPED_SCANS
        return found or ()

    async def protected_files(self, before: tamper_check.ScannedFiles | None = None) -> tamper_check.ScannedFiles:
        """The protected files as they are now; `before` is an earlier scan to reuse."""
        return await asyncio.to_thread(tamper_check.scan, [str(root) for root in self._roots], before)

    async def tampered(self, command: RunningCommand) -> tuple[str, ...]:
        """The labels of protected files that changed while a sandboxed command ran."""
        if command.protected_before is None:
            return ()
        after = await self.protected_files(command.protected_before)
        return tuple(self._label(Path(name)) for name in tamper_check.changed(command.protected_before, after))
