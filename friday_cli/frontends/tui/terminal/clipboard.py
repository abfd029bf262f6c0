"""Copies text: by OSC 52 to the terminal, and to the clipboards of tmux and the desktop."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from textual.app import App

from friday_cli.core.text.known_keys import without_keys
from friday_cli.system.own_programs import find_program

MAX_CHARS = 500_000
"""Characters that are copied; the rest is cut off."""
_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("WSL_DISTRO_NAME", ("/mnt/c/Windows/System32/clip.exe",)),
)
"""Clipboard programs, each with the environment variable of its desktop."""


async def copy(app: App[Any], text: str) -> None:
    """Copy `text` to every clipboard that can be reached."""
    text = text[:MAX_CHARS]
    app.copy_to_clipboard(text)
    for command in takers():
        await _write_to_program(command, text.encode("utf-8", "replace"))


def takers() -> list[tuple[str, ...]]:
    """The commands that read a text to copy: tmux, and the first clipboard program that is installed."""
    tmux = [("tmux", "load-buffer", "-w", "-")] if os.environ.get("TMUX") else []
    there = [command for name, command in _PROGRAMS if os.environ.get(name) or (not name and sys.platform == "darwin")]
    return [*_existing_commands(tmux), *_existing_commands(there)[:1]]


def _existing_commands(commands: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The commands whose programs there are, with the paths of these."""
    find = (shutil.which(name) if "/" in name else find_program(name, None) for name, *_ in commands)
    return [(program, *command[1:]) for program, command in zip(find, commands, strict=True) if program]


def has_desktop() -> bool:
    """Whether there is a desktop to open windows on."""
    return sys.platform == "darwin" or any(n in os.environ for n in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))


async def _write_to_program(command: tuple[str, ...], data: bytes) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=without_keys(os.environ),
        )
    except OSError:
        return
    try:
        async with asyncio.timeout(2):
            await process.communicate(data)
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        if process.returncode is None:
            process.kill()
            await process.wait()
