"""A text in the person's own editor, with the terminal handed over meanwhile. Interface: `edited(app, text)`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from typing import Any

from textual.app import App, SuspendNotSupported


def edited(app: App[Any], text: str) -> str | None:
    """The text as the person left it; None when there is no editor or it failed (which is said)."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        path = os.path.join(folder, "prompt.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            with app.suspend():
                code = subprocess.call([*command, path])
        except (OSError, SuspendNotSupported) as error:
            app.notify(f"{command[0]} cannot be started: {error}", severity="error", markup=False)
            return None
        if code:
            app.notify(f"{command[0]} ended with {code}; the text stays as it was.", severity="warning", markup=False)
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
