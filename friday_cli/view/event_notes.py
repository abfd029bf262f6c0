"""Events that a transcript shows as one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from friday_cli.core.eventlog.notices import skill_text
from friday_cli.core.protocol import events
from friday_cli.core.protocol.format import cost
from friday_cli.core.text.sanitize import sanitize_line

from .items import Item, NoteItem, worktree_text

NOTES: Mapping[type, Callable[[Any], str]] = {
    events.SkillLoaded: skill_text,
    events.WorktreeChanged: lambda event: f"Worktree {worktree_text(event)}",
    events.CacheRefreshed: lambda event: (
        f"Kept the cache of {event.usage.context:,} tokens while waiting: {cost(event.usage)}."
    ),
    events.TakenOver: lambda event: "Taken over: it waits for you. /handback returns it to its parent.",
    events.HandedBack: lambda event: sanitize_line(f"Handed back: {event.part.text}", 400),
}
AGAIN, WORKED = " Trying again.", " The next try worked."
"""What is said of a failed request that is sent again, and of one that was answered then."""


def note_failure(transcript: list[Item], event: events.AttemptFailed, at: float) -> None:
    """Add a failed request to the end of a transcript: one note for all that fail one after the other."""
    note = transcript[-1] if transcript else None
    if not isinstance(note, NoteItem) or not note.failures:
        note = NoteItem("", "warning", at)
        transcript.append(note)
    note.failures += 1
    again = "" if event.retry_s is None else AGAIN
    count = f" ({note.failures} tries failed)" if note.failures > 1 else ""
    note.text = f"{event.message.rstrip('.')}.{again}{count}"


def settle_failure(transcript: list[Item], how: str) -> None:
    """Say how failed requests at the end of a transcript came out, in place of that they are tried again."""
    note = transcript[-1] if transcript else None
    if isinstance(note, NoteItem) and note.failures:
        note.text, note.failures = note.text.replace(AGAIN, how), 0
