"""`# note` in the prompt: a note that is kept in memory for later sessions."""

from __future__ import annotations

import re
from typing import Literal

from friday_cli.session import lists

from .context import CommandContext

_NOTE = re.compile(r"#\s*[^\W\d]")
"""A heading of one line; `#12` is an issue."""


def is_note(text: str) -> bool:
    """Whether a text has the form of a note."""
    return "\n" not in text and _NOTE.match(text) is not None


async def keep_note(chat: CommandContext, text: str) -> bool:
    """Ask where a note is kept, and keep it; False when the user wants it sent as a message. Raises StoreError."""
    choices = [
        ("project", "For this project"),
        ("user", "For all projects"),
        ("message", "Nowhere: send it as a message"),
    ]
    note = text.lstrip("#").strip()
    where = await chat.choose(f"Keep this note for later sessions?\n{note}", choices)
    if where == "message":
        return False
    if where not in ("project", "user"):
        chat.offer(text)
        return True
    await save(chat, note, "project" if where == "project" else "user")
    return True


async def save(chat: CommandContext, note: str, scope: Literal["project", "user"]) -> None:
    """Keep a note, and say where. Raises StoreError."""
    session = chat.controller.require_session()
    saved = await lists.save_note(note, chat.controller.options.cwd, session.id, scope=scope)
    about = "for this project" if scope == "project" else "for all projects"
    chat.say_note(f"Note {saved.id} is kept in memory {about}. /memory lists the notes.")
