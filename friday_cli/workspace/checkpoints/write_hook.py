"""What a workspace does around a change of its files: the recorder saves their content first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from friday_cli.core.protocol.agent_path import PERSON
from friday_cli.core.protocol.errors import FileError, FridayError
from friday_cli.core.text.untrusted import neutralize_line

from ..fs.transaction import FileContent, PendingChange

if TYPE_CHECKING:
    from ..fs.change_detection import FileEffect
    from ..process.command import ObservedWork, ProtectedChanges
    from .recorder import CheckpointRecorder

MOST_WATCHED = 200
"""Files of one command whose texts a `ChangeWatch` gets."""
LATER_S = 0.2
"""Seconds after a message until the first snapshot is taken, beside the model's answer."""


FileText = str | FileError | None
"""The text of a file; None if there is no such file, an error if it is not known."""


class ChangeWatch(Protocol):
    """Is told of the files that agents change, with their texts before and after."""

    async def before(self, agent: str, paths: Sequence[Path]) -> Mapping[Path, FileText]:
        """The texts of those of `paths` that matter, before `agent` changes them."""

    async def changed(self, agent: str, before: Mapping[Path, FileText]) -> None:
        """`agent` changed these files, which had these texts before."""


class FirstChange:
    """The first change of files by an agent. `report` is called in a thread before it, if it must be reported."""

    def __init__(self, report: Callable[[], object]) -> None:
        self._report = report
        self._reported = False

    def must_be_reported(self) -> None:
        """Another session must know of it."""
        self._reported = True

    async def begins(self) -> None:
        """An agent is about to make it."""
        if self._reported:
            with suppress(FridayError, OSError):  # then this session still knows it
                await asyncio.to_thread(self._report)


class WriteHook:
    """Runs around every change of a workspace's files, so that a recorder can save their content first. `make_recorder` makes
    it when it is first needed (None: nothing is saved). `root_of` returns the root that contains a path. `watch` is told of the
    changes, `first` of the first one by an agent."""

    def __init__(
        self,
        root_of: Callable[[Path], Path | None],
        make_recorder: Callable[[], CheckpointRecorder] | None = None,
        watch: ChangeWatch | None = None,
        first: FirstChange | None = None,
    ) -> None:
        self._root_of = root_of
        self._make_recorder = make_recorder
        self._recorder: CheckpointRecorder | None = None
        self._lock = asyncio.Lock()
        self._cancel_timer: Callable[[], object] = lambda: None
        self._closed = False
        self.agents_changed = False
        """Whether an agent changed files, or ran a command that could."""
        self._watch, self._first = watch, first

    async def note(self, agent: str) -> None:
        """Call before `agent` changes files, or after a server did for it; "" and `PERSON` are the user."""
        if agent not in ("", PERSON) and not self.agents_changed:
            self.agents_changed = True
            if self._first is not None:
                await self._first.begins()

    @property
    def recorder(self) -> CheckpointRecorder | None:
        """The recorder that saves the content of files before they change; None if nothing is saved."""
        if self._recorder is None and self._make_recorder is not None:
            self._recorder = self._make_recorder()
        return self._recorder

    def expect_commands(self) -> None:
        """Call when an agent begins to work: where the first snapshot takes long, it is taken beside the model's answer."""
        if self._make_recorder is not None and not self._closed:
            self._cancel_timer()
            self._cancel_timer = asyncio.get_running_loop().call_later(LATER_S, self._prepare_snapshot).cancel

    def _prepare_snapshot(self) -> None:
        if self.recorder is not None:
            self.recorder.prepare_snapshot()

    @asynccontextmanager
    async def changing(self, agent: str, changes: Sequence[tuple[Path, FileContent | None]]) -> AsyncIterator[None]:
        """Save the content of these files before the block changes them; one block at a time."""
        await self.note(agent)
        texts = {} if self._watch is None else await self._watch.before(agent, [path for path, _ in changes])
        async with self._saved(agent, changes):
            yield
        if self._watch is not None and texts:
            await self._watch.changed(agent, texts)

    @asynccontextmanager
    async def _saved(self, agent: str, changes: Sequence[tuple[Path, FileContent | None]]) -> AsyncIterator[None]:
        if self.recorder is None:
            yield
            return
        async with self._lock:
            pending = [PendingChange(root, path, new) for path, new in changes if (root := self._root_of(path))]
            kept = await self.recorder.save_before(agent, pending)
            try:
                yield
            except Exception:
                await self.recorder.changes_failed(agent, kept)
                raise
            await self.recorder.changes_made(pending)

    @property
    def problem(self) -> str | None:
        """Why changes of commands are not recorded, "" if they are; None if they are not to be."""
        return None if self.recorder is None else self.recorder.problem

    async def command_started(self, agent: str, commands: Iterable[ObservedWork]) -> None:
        """Call before a command of `agent` starts; `commands` are those that may already be running."""
        await self.note(agent)
        await self.work_started(agent, commands)

    async def work_started(self, agent: str, commands: Iterable[ObservedWork]) -> None:
        """As `command_started`, for work of a server that was trusted."""
        if self.recorder is not None:
            earlier = [command for command in commands if command.open]
            effects = await self.recorder.command_started(agent, _agent_of(earlier, PERSON))
            for command in earlier:
                command.add_effects(effects)

    async def command_ended(self, agent: str, commands: Iterable[ObservedWork], *ended: ObservedWork) -> None:
        """Call after the commands `ended` of `agent` ended; `commands` are those that may still be running."""
        running = [command for command in commands if command.open and command not in ended]
        effects: Mapping[Path, FileEffect] = {}
        if self.recorder is not None:
            effects = await self.recorder.command_ended(agent, _agent_of(running, ""))
            for command in ended:
                command.touched = self.recorder.touched_since(command.file_time)
        for command in (*running, *ended):
            command.add_effects(effects)
            command.open = command not in ended
        if self._watch is not None and self.recorder is not None:
            for command in ended:
                await self._watch.changed(command.agent, await asyncio.to_thread(self._texts_before, command))

    def _texts_before(self, command: ObservedWork) -> dict[Path, FileText]:
        """The texts that the files had which a command changed."""
        assert self.recorder is not None
        found: dict[Path, FileText] = {}
        for path, effect in list(command.effects.items())[:MOST_WATCHED]:
            mode, digest = effect.before
            data = self.recorder.blobs.get(digest) if mode else None
            if data is not None:
                text: FileText = data.decode("utf-8", "replace")
            else:
                text = FileError(neutralize_line(path.name), "was not saved before it changed.") if mode else None
            if effect.before != effect.after:
                found[path] = text
        return found

    async def protected_files_changed(self, agent: str, changes: ProtectedChanges) -> None:
        """Call after a command of `agent` changed protected files that may not be in the snapshot."""
        if self.recorder is not None:
            mine = {path: both for path, both in changes.items() if self._root_of(path) and _is_rewound(path)}
            await self.recorder.protected_files_changed(agent, mine)

    async def close(self) -> None:
        """Call when no command runs and none will start."""
        self._closed = True
        self._cancel_timer()
        if self._recorder is not None:
            await self._recorder.close()


def _agent_of(commands: Iterable[ObservedWork], person: str) -> str:
    """The agent of one of these commands; `person` if all are of the user, "" if there is none."""
    agents = {command.agent for command in commands}
    return min(agents - {PERSON}, default=person if agents else "")


def _is_rewound(path: Path) -> bool:
    """Whether a rewind restores a protected file: of the repositories of submodules only what runs code."""
    _, inside, rest = str(path).partition("/.git/modules/")
    return not inside or path.name in ("config", "config.worktree") or bool({"hooks", "info"} & set(rest.split("/")))
