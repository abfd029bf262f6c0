"""After the process was killed: undoes an unfinished rewind, and records what running commands changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    AskWithdrawn,
    Checkpoint,
    Envelope,
    Notice,
    SessionStarted,
    ToolFinished,
)
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.receipt import KeptFile
from friday_cli.workspace.checkpoints.restore_plan import undo_unfinished_rewind
from friday_cli.workspace.checkpoints.scan import SnapshotLimits
from friday_cli.workspace.checkpoints.snapshot import Snapshot
from friday_cli.workspace.local import LocalWorkspace

ENDING_S = 2.0
"""Seconds within which the commands of a killed process have ended."""


async def recover_files(
    log: Log, workspace: LocalWorkspace, envelopes: Sequence[Envelope], baseline: Path, *, died_at: float
) -> list[str]:
    """Make the files of a session whose process was killed agree with its log, `envelopes`; the caller owns the session.
    `died_at`: when its process was last known to be alive (Unix seconds), 0.0 if the lock does not tell. Returns what a
    person must know."""
    recorder = workspace.write_hook.recorder
    assert recorder is not None
    told = []
    if unfinished := unfinished_rewind(envelopes):
        failed = await asyncio.to_thread(
            undo_unfinished_rewind, unfinished, workspace, recorder.blobs, most=recorder.most
        )
        left = {conflict.path for conflict in failed}
        await recorder.changes_failed("", [kept for kept in unfinished if kept.path not in left])
        told.append(
            f"A rewind was cut off when its process ended. {pluralize(len(unfinished) - len(left), 'file')} have the content "
            "from before it; rewind again if you still want to."
        )
        told += [f"{conflict.path} was left as it is: {conflict.reason}." for conflict in failed[:5]]
    limits = SnapshotLimits(file=recorder.most)
    if left_behind := await asyncio.to_thread(Snapshot.left_behind, baseline, limits):
        died_at = max(died_at, _last_alive_at(envelopes))
        await asyncio.sleep(min(ENDING_S, max(0.0, died_at + ENDING_S - time.time())))
        if count := await recorder.recover(*left_behind, died_at):
            told.append(
                f"The process ended while a command of {left_behind[1]} was running. {pluralize(count, 'file')} that "
                "changed since it began can be restored by a rewind."
            )
        elif left_behind[0].problem:
            told.append(f"What a command changed before its process ended is not known: {left_behind[0].problem}.")
    return told


def unfinished_rewind(envelopes: Sequence[Envelope]) -> list[KeptFile]:
    """The files that a rewind was about to change when its process ended; they may have changed or not."""
    first = envelopes[0].event if envelopes else None
    taken = first.taken if isinstance(first, SessionStarted) else 0
    for envelope in reversed(envelopes):
        event = envelope.event
        if (envelope.seq or 0) <= taken:
            break  # the rewind of the session that this one was forked from
        if isinstance(event, Checkpoint) and event.by == "person":
            return [kept for kept in event.files if (kept.before, kept.mode) != (kept.after, kept.new_mode)]
        if not isinstance(event, (Notice, AskWithdrawn)) and not _is_recovery_event(event):
            break
    return []


def _is_recovery_event(event: msgspec.Struct) -> bool:
    """Whether an event may have been added after the death of a process."""
    cancelled = isinstance(event, ToolFinished) and event.status == "cancelled"
    return cancelled or (isinstance(event, AgentFinished) and event.stop_reason == "process")


def _last_alive_at(envelopes: Sequence[Envelope]) -> float:
    """When the last process of a session was known to be alive, by its log."""
    died, started = 0.0, dict[str, float]()
    for envelope in envelopes:
        event = envelope.event
        if isinstance(event, AgentStarted):
            started[envelope.agent] = envelope.at
        if isinstance(event, AgentFinished) and event.stop_reason == "process":
            died = max(died, started.get(envelope.agent, 0.0) + event.wall_s)
        elif not isinstance(event, (Notice, AskWithdrawn)) and not _is_recovery_event(event):
            died = max(died, envelope.at)
    return died
