"""Instructions of skills in a conversation: which ones it has, and what a compaction keeps of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.messages import CHARS_PER_TOKEN, Message, Text, user
from ..protocol.tool_info import SKILL
from ..text.skill_marks import BEGIN, BLOCK

KEPT_SHARE = 0.2
"""The part of the context window that instructions of skills may take after a compaction."""


def loaded_skills(history: Sequence[Message]) -> dict[str, str]:
    """The instructions of skills that a conversation has, by name, the newest last. They are in results of the tool `skill` and
    at the beginning of messages; text that other tools return never counts."""
    found: dict[str, str] = {}
    calls: set[str] = set()
    for message in history:
        calls.update(call.id for call in message.calls if call.name == SKILL)
        texts = [result.text for result in message.results if result.call_id in calls]
        if message.role == "user":  # notes of the harness are parts before the message itself
            texts += [part.text for part in message.parts if isinstance(part, Text) and part.text.startswith(BEGIN)]
        for text in texts if any(BEGIN in text for text in texts) else ():
            for block in BLOCK().finditer(text):
                found.pop(block[1], None)
                found[block[1]] = block[0]
    return found


def kept_skills(history: Sequence[Message], rest: Sequence[Message], window: int) -> list[Message]:
    """A message with the instructions of the skills of `history` that `rest`, its part that a compaction keeps, has not: the
    newest ones, as many as fit their share of `window` (tokens). The others are named."""
    room = int(window * KEPT_SHARE * CHARS_PER_TOKEN)
    lost: list[str] = []
    kept: list[str] = []
    has = loaded_skills(rest)
    for name, block in reversed(loaded_skills(history).items()):
        if name in has:
            continue
        room -= len(block)
        if room < 0:
            lost.append(name)
        else:
            kept.insert(0, block)
    if not (kept or lost):
        return []
    note = f"[These skills did not fit: {', '.join(lost)}. Load them again if you need them.]" if lost else ""
    return [user("\n\n".join(filter(None, (*kept, note))), source="harness")]
