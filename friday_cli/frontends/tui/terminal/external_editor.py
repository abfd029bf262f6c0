"""Edits a text in the user's editor, which gets the terminal meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from friday_cli.core.text.known_keys import without_keys


async def edited(app: App[Any], text: str) -> str | None:
    """The edited text; None when the editor failed, which is reported. Agents keep running."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(wanted) or ["vi"]
    except ValueError as error:
        app.notify(f"{wanted} cannot be started: {error}", severity="error", markup=False)
        return None
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        path = Path(folder, "prompt.md")
        await asyncio.to_thread(path.write_text, text, encoding="utf-8", errors="replace")
        try:
            with app.suspend():
                code = await _run(*command, str(path))
        except (OSError, SuspendNotSupported) as error:
            app.notify(f"{command[0]} cannot be started: {error}", severity="error", markup=False)
            return None
        if code:
            app.notify(f"{command[0]} ended with {code}; the text is unchanged.", severity="warning", markup=False)
            return None
        written = await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
        return written.rstrip("\n")


async def _run(*command: str) -> int:
    """The exit code; an editor that is open when Friday ends is ended with it."""
    process = await asyncio.create_subprocess_exec(*command, env=without_keys(os.environ))
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
