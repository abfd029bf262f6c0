"""A shell command with its process and its output, and the detection of what it changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from friday_cli.core.permissions.runs_later import is_protected
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.workspace import tamper_warning
from friday_cli.core.text.known_keys import StreamMasker

from ..fs import change_detection
from ..sandbox import denial_detection, tamper_check
from ..sandbox.plan import SandboxPlan
from .client import Process
from .line_watch import LineWatch
from .output import LiveOutput, OutputCapture

ProtectedChanges = Mapping[Path, tuple[tamper_check.ScannedFile | None, tamper_check.ScannedFile | None]]
"""Protected files before and after; None: it did not exist."""
SKIPPED_SCANS = 20
"""Commands without a scan for changed files after one scan took too long."""


class PreparedCommand(NamedTuple):
    """A command that can be started: `plan` is its sandbox (None: not confined), `request` what its supervisor reads."""

    text: str
    plan: SandboxPlan | None
    request: bytes

    @property
    def read_only(self) -> bool:
        """Whether it runs read-only, so that it changes nothing."""
        return self.plan is not None and bool(self.plan.read_only)


class ObservedWork:
    """What a program does for `agent`, whose effects on files are determined: a command, or a call of a server. `text` names it.
    `shared` is set if work of another agent ran at the same time. `protected_before` are the protected files as they were before it
    started; None if it is not confined, or after they were compared."""

    def __init__(
        self, agent: str, text: str, protected_before: tamper_check.ScannedFiles | None, *, read_only: bool = False
    ) -> None:
        self.agent, self.text, self.read_only = agent, text, read_only
        self.protected_before = protected_before
        self.started_at = time.monotonic()
        self.file_time = change_detection.now()
        self.shared = False
        self.open = True
        """False once its effects were determined after its end."""
        self.effects: dict[Path, change_detection.FileEffect] = {}
        self.touched: list[str] | None = None
        """The paths that changed while it ran, and others; None: a scan must find them."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.open

    def add_effects(self, effects: Mapping[Path, change_detection.FileEffect]) -> None:
        """Add what happened to files while it ran."""
        for path, new in effects.items():
            old = self.effects.get(path, change_detection.FileEffect(new.before, new.after))
            self.effects[path] = change_detection.FileEffect(
                old.before, new.after, old.added + new.added, old.removed + new.removed
            )


class RunningCommand(ObservedWork):
    """A command from start to end. `id` is set for one in the background."""

    def __init__(
        self,
        process: Process,
        prepared: PreparedCommand,
        capture: OutputCapture,
        live: LiveOutput | None,
        protected_before: tamper_check.ScannedFiles | None,
    ) -> None:
        super().__init__(process.agent, prepared.text, protected_before, read_only=prepared.read_only)
        self.process, self.capture = process, capture
        self.id = ""
        self.killed = False
        self.end_reported = False
        self.activity = asyncio.Event()
        """Set when output arrives or the command ends."""
        self._prepared = prepared
        self._live = live
        self._watch: LineWatch | None = None
        """What an agent waits for, or waited for last."""
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

    @property
    def running(self) -> bool:
        return self.process.running

    async def run(self) -> None:
        """Start the command and wait until it and everything it started have ended. Raises ToolError if it could not be
        started."""
        await self.process.begin()
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

    async def wait_for_line(self, pattern: str, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds for a line, also in the output that was not read yet, or for the end of the command.
        `pattern` as for `LineWatch`. Returns whether it came."""
        watch = self._watch = LineWatch(pattern)
        watch.feed(self.capture.fresh.text().encode())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not watch.found and self.process.running:
                    self.activity.clear()
                    await self.activity.wait()
        return watch.found

    async def finish(self) -> None:
        """End what still runs and read the rest of the output. Completes even if the caller is cancelled."""
        if self._finished is None:
            self._finished = asyncio.create_task(self._finish())
        await asyncio.shield(self._finished)

    def _on_output(self, data: bytes, *, last: bool = False) -> Awaitable[None] | None:
        data = self._masker.feed(data, last=last)
        if self._live is not None:
            self._live.feed(data)
        if self._watch is not None:
            self._watch.feed(data)
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
    `label` names a path as people see it. `record(agent, changes)` records changes of protected files, which a snapshot may
    not include."""

    def __init__(
        self,
        roots: Sequence[Path],
        label: Callable[[Path], str],
        record: Callable[[str, ProtectedChanges], Awaitable[None]],
    ) -> None:
        self._roots, self._label, self._record = roots, label, record
        self._scans_to_skip = 0
        self._recorded: dict[Path, tuple[float, tamper_check.ScannedFile | None]] = {}
        """When a change of a protected file was recorded, and what the file was then."""
        self.unchecked: set[ObservedWork] = set()
        """The confined commands whose changes of protected files were not reported yet."""

    async def changed(
        self, command: ObservedWork, written: Mapping[str, str], problem: str | None
    ) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
        """The files that changed while `command` ran, except those with just the content that Friday wrote (`written`:
        sha256 by path); and what is not known. `problem`: why there is no snapshot of the folder, "" if there is one, None
        if there should be none."""
        if command.read_only:
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

    async def tampered(self, command: ObservedWork) -> tuple[str, ...]:
        """The labels of protected files that changed while a sandboxed command ran, once. Some are restored, and of the
        others the earlier content is recorded."""
        before = command.protected_before
        if before is None:
            return ()
        after = await self.protected_files(before)
        found = tamper_check.changed(before, after)
        if found:
            await asyncio.to_thread(tamper_check.restore, before, found)
        rows = {Path(name): (before.get(name), after.get(name)) for name in found}
        await self._record(command.agent, self._unrecorded(command, rows))
        command.protected_before = None
        self.unchecked.discard(command)
        nested = (path for path in command.effects if is_protected(self._label(path)))
        return tuple(sorted({self._label(path) for path in (*rows, *nested)}))

    def _unrecorded(self, command: ObservedWork, rows: ProtectedChanges) -> ProtectedChanges:
        """The changes that no snapshot has, from what the last record says if that was made while `command` ran."""
        found = {}
        for path, (old, new) in rows.items():
            at, last = self._recorded.get(path, (0.0, None))
            old = last if at > command.started_at else old
            if path not in command.effects and old != new:
                found[path] = old, new
                self._recorded[path] = time.monotonic(), new
        return found

    async def unreported(self, agent: str) -> tuple[str, ...]:
        """Warnings about protected files that changed during commands of `agent` whose results nobody read."""
        ended = [command for command in self.unchecked if command.agent == agent]
        found = [(command.text, await self.tampered(command)) for command in ended]
        return tuple(tamper_warning(text, names) for text, names in found if names)
