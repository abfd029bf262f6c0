"""Events that a transcript shows as one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from friday_cli.core.eventlog.notices import skill_text
from friday_cli.core.protocol import events
from friday_cli.core.text.sanitize import sanitize_line

from .items import worktree_text

NOTES: Mapping[type, Callable[[Any], str]] = {
    events.SkillLoaded: skill_text,
    events.WorktreeChanged: lambda event: f"Worktree {worktree_text(event)}",
    events.TakenOver: lambda event: "Taken over: it waits for you. /handback returns it to its parent.",
    events.HandedBack: lambda event: sanitize_line(f"Handed back: {event.part.text}", 400),
}
