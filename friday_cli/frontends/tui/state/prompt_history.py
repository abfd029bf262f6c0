"""The earlier prompts of a folder, and the draft that was not sent. Errors of the files are ignored."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from friday_cli.core.text.known_keys import mask_keys
from friday_cli.system.paths import state_dir

KEPT = 1_000
LONGEST = 50_000


class PromptHistory:
    """The prompts of one folder, the newest last; read when they are needed first."""

    def __init__(self, folder: Path) -> None:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        self._path = state_dir() / "prompts" / f"{name}.jsonl"
        self._draft_path = self._path.with_suffix(".draft")
        self._entries: list[str] | None = None
        self._at: int | None = None
        self._typed = ""

    @property
    def entries(self) -> list[str]:
        if self._entries is None:
            self._entries = []
            try:
                lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                lines = []
            for text in lines[-KEPT:]:
                try:
                    entry = json.loads(text)
                except ValueError:
                    continue  # a line that was cut off
                if isinstance(entry, str):
                    self._entries.append(entry)
        return self._entries

    def add(self, text: str) -> None:
        """Save a prompt that was sent."""
        self._at = None
        if not text.strip() or len(text) > LONGEST or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        self._write(self._path, json.dumps(mask_keys(text)) + "\n", append=True)

    def older(self, typed: str) -> str | None:
        """The entry before the one shown; `newer` returns `typed` after the last. None at the beginning."""
        if self._at is None:
            self._at, self._typed = len(self.entries), typed
        if self._at == 0:
            return None
        self._at -= 1
        return self.entries[self._at]

    def newer(self) -> str | None:
        """The entry after the one shown, after the last one the typed text. None if no earlier entry is shown."""
        if self._at is None:
            return None
        self._at += 1
        if self._at >= len(self.entries):
            self._at = None
            return self._typed
        return self.entries[self._at]

    def leave(self) -> None:
        """The prompt has new text: no earlier entry is shown."""
        self._at = None

    def matches(self, query: str, *, most: int = 200) -> list[str]:
        """Entries that contain `query`, the newest first, each once."""
        wanted = query.lower()
        return list(dict.fromkeys(e for e in reversed(self.entries) if wanted in e.lower()))[:most]

    @property
    def draft(self) -> str:
        """The text that was typed and not sent in the last chat."""
        try:
            return self._draft_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_draft(self, text: str) -> None:
        """Save what is typed for the next chat; "" deletes it."""
        if text.strip():
            self._write(self._draft_path, mask_keys(text))
        else:
            try:
                self._draft_path.unlink(missing_ok=True)
            except OSError:
                pass

    def _write(self, path: Path, text: str, *, append: bool = False) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
            with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError:
            pass  # a full disk takes away the history, not the chat
