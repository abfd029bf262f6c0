"""A shell command with its process and its output, and the detection of what it changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.text.known_keys import StreamMasker

from ..fs import change_detection
from ..sandbox import denial_detection, tamper_check
from ..sandbox.plan import SandboxPlan
from .client import Process
from .output import LiveOutput, OutputCapture

SKIPPED_SCANS = 20
"""Commands without a scan for changed files after one scan took too long."""


class PreparedCommand(NamedTuple):
    """A command that can be started: `plan` is its sandbox (None: not confined), `request` what its supervisor reads."""

    text: str
    plan: SandboxPlan | None
    request: bytes

    @property
    def only_looks(self) -> bool:
        """Whether it is confined to looking, so that it changes nothing."""
        return self.plan is not None and bool(self.plan.look)


class RunningCommand:
    """A command from start to end. `id` is set for one in the background, `shared` if a command of another agent ran at
    the same time. `protected_before` are the protected files as they were before it started; None if it is not confined."""

    def __init__(
        self,
        process: Process,
        prepared: PreparedCommand,
        capture: OutputCapture,
        live: LiveOutput | None,
        protected_before: tamper_check.ScannedFiles | None,
    ) -> None:
        self.process, self.text, self.capture = process, prepared.text, capture
        self.only_looks = prepared.only_looks
        self.protected_before = protected_before
        self.id = ""
        self.started_at = time.monotonic()
        self.file_time = change_detection.now()
        self.shared = False
        self.killed = False
        self.end_reported = False
        self.open = True
        """False once its effects were determined after its end."""
        self.effects: dict[Path, change_detection.FileEffect] = {}
        self.touched: list[str] | None = None
        """The paths that changed while it ran, and others; None: a scan must find them."""
        self.activity = asyncio.Event()
        """Set when output arrives or the command ends."""
        self._prepared = prepared
        self._live = live
        self._masker = StreamMasker()
        self._reading = asyncio.create_task(process.pump(self._on_output))
        self._finished: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int | None:
        """As a shell reports it: 128 + N for signal N; None while unknown."""
        return shell_code(self.process.exit_code)

    def denial(self, output: str) -> str:
        """What the sandbox seems to have denied, judged by `output`; "" if nothing indicates a denial."""
        plan = self._prepared.plan
        return denial_detection.explain(output, plan) if plan is not None and self.exit_code else ""

    def add_effects(self, effects: Mapping[Path, change_detection.FileEffect]) -> None:
        """Add what happened to files while it ran."""
        for path, new in effects.items():
            old = self.effects.get(path, change_detection.FileEffect(new.before, new.after))
            self.effects[path] = change_detection.FileEffect(
                old.before, new.after, old.added + new.added, old.removed + new.removed
            )

    async def run(self) -> None:
        """Start the command and wait until it and everything it started have ended. Raises ToolError if it could not be
        started."""
        await self.process.begin(self._prepared.request)
        await self.process.wait()

    async def run_in_background(self) -> None:
        """Run the command and finish it; the reason why it could not be started becomes its output."""
        try:
            await self.run()
        except ToolError as error:
            self.capture.feed(str(error).encode())
        finally:
            await self.finish()

    async def wait_for_output(self, wait_s: float) -> None:
        """Wait at most `wait_s` seconds for output that was not read yet, or for the end of the command."""
        if wait_s <= 0 or not self.process.running or self.capture.fresh.total:
            return
        self.activity.clear()
        with suppress(TimeoutError):  # no new output is a valid result
            await asyncio.wait_for(self.activity.wait(), wait_s)

    async def finish(self) -> None:
        """End what still runs and read the rest of the output. Completes even if the caller is cancelled."""
        if self._finished is None:
            self._finished = asyncio.create_task(self._finish())
        await asyncio.shield(self._finished)

    def _on_output(self, data: bytes, *, last: bool = False) -> Awaitable[None] | None:
        data = self._masker.feed(data, last=last)
        if self._live is not None:
            self._live.feed(data)
        self.activity.set()
        if self.capture.wants_disk(data):
            return asyncio.to_thread(self.capture.feed, data)
        self.capture.feed(data)
        return None

    async def _finish(self) -> None:
        await self.process.end()
        await self._reading
        if (written := self._on_output(b"", last=True)) is not None:
            await written
        if self._live is not None:
            self._live.flush()
        self.capture.close()
        self.activity.set()


def shell_code(code: int | None) -> int | None:
    """An exit code as a shell reports it: 128 + N for signal N."""
    return code if code is None or code >= 0 else 128 - code


class EffectDetector:
    """Detects what commands changed in the folders `roots`: files, and protected files that no sandbox could protect.
    `label` names a path as people see it."""

    def __init__(self, roots: Sequence[Path], label: Callable[[Path], str]) -> None:
        self._roots, self._label = roots, label
        self._scans_to_skip = 0

    async def changed(
        self, command: RunningCommand, written: Mapping[str, str], problem: str | None
    ) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
        """The files that changed while `command` ran, except those with just the content that Friday wrote (`written`:
        sha256 by path); and what is not known. `problem`: why there is no snapshot of the folder, "" if there is one, None
        if there should be none."""
        if command.only_looks:
            return (), ()
        remark = "seen while a command ran" + (", shared" if command.shared else "")
        found = None
        if command.touched is None and self._scans_to_skip:
            self._scans_to_skip -= 1
        else:
            found = await asyncio.to_thread(
                change_detection.since,
                self._roots,
                command.file_time,
                among=command.touched,
                label=self._label,
                known=dict(written),
                remark=remark,
            )
            if found is None:
                self._scans_to_skip = SKIPPED_SCANS
        rows = change_detection.with_effects(found or (), command.effects, label=self._label, remark=remark)
        if found is None and problem != "":
            return rows, (f"changes by commands: {problem or 'scanning the folder takes too long'}",)
        return rows, (f"files that commands removed: {problem}",) if problem else ()

    async def protected_files(self, before: tamper_check.ScannedFiles | None = None) -> tamper_check.ScannedFiles:
        """The protected files as they are now; `before` is an earlier scan to reuse."""
        return await asyncio.to_thread(tamper_check.scan, [str(root) for root in self._roots], before)

    async def tampered(self, command: RunningCommand) -> tuple[str, ...]:
        """The labels of protected files that changed while a sandboxed command ran. Some are restored."""
        before = command.protected_before
        if before is None:
            return ()
        found = tamper_check.changed(before, await self.protected_files(before))
        if found:
            await asyncio.to_thread(tamper_check.restore, before, found)
        return tuple(self._label(Path(name)) for name in found)
