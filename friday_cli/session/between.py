"""What a person can do with a session between two prompts: go back, fork, compact, look through what was changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.agent.compaction import compact
from friday_cli.core.agent.model_call import prompt_tokens
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.untrusted import neutralize_line

from .open import SessionParts

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .rewind import Resolve, Rewinder, RewindPoint, RewindResult, What


class Between:
    """The part of a `Session` that works while nothing of it is at work."""

    def __init__(self, opened: SessionParts) -> None:
        self.id = opened.id
        self.log = opened.log
        self.tree = opened.tree
        self.root = opened.root
        self.world = opened.world
        self._opened = opened
        self._notes = opened.notes
        self._busy = ""

    @cached_property
    def _past(self) -> Rewinder:
        from .rewind import Rewinder

        keeper = self._opened.keeper
        return Rewinder(self.log, self._opened.apart.main, keeper.blobs, most=keeper.most)

    # ---- going back -----------------------------------------------------------------

    async def points(self) -> list[RewindPoint]:
        """The person's messages that are part of the conversation, to which `rewind` and `fork` can go back, each with
        the files that agents and their commands changed since."""
        return await self._past.points()

    async def rewind(
        self, to: int, what: What = "both", *, dry_run: bool = False, conflicts: Resolve = "ask"
    ) -> RewindResult:
        """Take the conversation of the main agent, the files of the workspace, or both back to right before the person's
        message number `to`.

        The answer has the message (`point.text`, so that a face can offer its words again), the files that came back, and
        what could not. Files that are not as the agents left them are never overwritten unasked: where there are any the
        answer is not `done`, nothing was changed, and a face asks and calls again with `conflicts` "overwrite" or "leave".
        `dry_run` only tells. Files come back all or none.

        Nothing is deleted: the event Rewound says from where the history goes on, and `undo_rewind` takes it back. What it
        cost stays counted, and the sub-agents that were started since keep their results. Raises UsageError while an agent
        is at work, for a number that is none, and where files cannot be written; then everything is as it was.
        """
        with self._while_idle("rewound"):
            done = await self._past.rewind(to, what, dry_run=dry_run, conflicts=conflicts)
            await self._resume_root(done)
        return done

    async def undo_rewind(self, *, dry_run: bool = False, conflicts: Resolve = "ask") -> RewindResult:
        """Take the newest rewind back that was not taken back yet, in the same way. Raises UsageError as `rewind`, and
        where there is none."""
        with self._while_idle("rewound"):
            done = await self._past.undo(dry_run=dry_run, conflicts=conflicts)
            await self._resume_root(done)
        return done

    async def _resume_root(self, done: RewindResult) -> None:
        """Let the root go on from what the log says now."""
        if not done.done:
            return
        root = self.root
        if done.what != "files":
            envelopes = await self.log.history()
            record = (await asyncio.to_thread(replay, envelopes))["a"]
            self._opened.tree.left = left_behind(envelopes)
            root.history, root.context, root.sent = record.history, record.context, 0
            root.seen.hashes.clear()
            while not root.inbox.empty():
                root.inbox.take()
            for message in record.inbox:
                root.inbox.restore(message)
        elif done.files:
            names = ", ".join(neutralize_line(file.path) for file in done.files[:20]) + (
                " ..." if len(done.files) > 20 else ""
            )
            self._notes.append(
                f"{NOTE} The user has taken files back to how they were before: {names}. Read them anew."
            )
        await self._opened.store.sync()

    async def fork(self, at: int | None = None) -> str:
        """A new session that begins with this one's history up to right before the person's message number `at` (None:
        all of it); gives its id, for `Session.open(Options(resume=...))`. This one stays as it is and may be at work; the
        files stay, too. Raises UsageError."""
        from .rewind import fork

        await self.log.flush()
        return await fork(self._opened.store, self.id, at=at)

    # ---- reviewing ------------------------------------------------------------------

    async def changes(self) -> list[FileDiff]:
        """What the main agent and each sub-agent did to each file: one row and one difference by agent and file, from what
        was kept to what is there now. What was taken back or accepted is left out. May be asked at any time."""
        return await self._past.changes()

    async def restore_file(self, key: str, agent: str | None = None, *, conflicts: Resolve = "ask") -> RewindResult:
        """Take back what `agent` did to a file, or what all agents did (None); `key` is that of a row of `changes`.

        Like a rewind of that one file: `undo_rewind` takes it back, and a file that is not as the agents left it needs a
        word of the person. Raises UsageError while an agent is at work, where another agent changed the file after this
        one, and where it cannot be written.
        """
        with self._while_idle("changed"):
            done = await self._past.restore_file(agent, key, conflicts=conflicts)
            await self._resume_root(done)
        return done

    async def accept(self, key: str) -> None:
        """Leave what was done to a file so far out of `changes` from now on; the file stays. Raises UsageError."""
        await self._past.accept(key)

    # ---- compacting -----------------------------------------------------------------

    async def compact(self, instructions: str = "") -> tuple[int, int]:
        """Replace the main agent's history by a summary of it, now; `instructions` say what the summary must not lose.

        Gives the tokens of the context before and after. The event is Compacted, as when the context is full; the log
        keeps all. Cancelling the task that waits here stops it, and then nothing has changed. Raises UsageError while an
        agent is at work or where there is nothing to compact, FridayError where the model could not make the summary.
        """
        root = self.root
        with self._while_idle("compacted"):
            if len(root.history) < 2:
                raise UsageError("There is nothing to compact yet.")
            before = prompt_tokens(root)
            root.slot = RunSlot("a", log=self.log, slots=None)
            try:
                await compact(root, self.world, requested=True, instructions=instructions)
            except LimitReached as limit:
                raise UsageError(f"Not compacted: the {limit.limit} budget of {limit.whose} is used up.") from None
            except StopRun as halt:
                raise FridayError(f"Not compacted: {halt.message}") from None
            finally:
                root.slot.end()
        await self._opened.store.sync()
        return before, prompt_tokens(root)

    # ---- one thing at a time --------------------------------------------------------

    def _require_idle(self) -> None:
        if self._busy:
            raise UsageError(f"The session is being {self._busy} just now.", hint="Wait until that is done.")

    @contextmanager
    def _while_idle(self, doing: str) -> Iterator[None]:
        """Nothing is at work, and nothing begins meanwhile. Raises UsageError where something is."""
        self._require_idle()
        if living := [node.path for node in self.tree.running("a")]:
            raise UsageError(
                f"The session cannot be {doing} while {', '.join(living)} is at work.", hint="Stop it first, or wait."
            )
        self._busy = doing
        try:
            yield
        finally:
            self._busy = ""
