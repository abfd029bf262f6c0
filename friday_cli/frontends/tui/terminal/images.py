"""Pictures for a message: pasted paths, and the system's clipboard."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.known_keys import without_keys
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session.attachments import MOST_IMAGE_BYTES
from friday_cli.system.own_programs import find_program

_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
TOO_LARGE = f"is larger than {MOST_IMAGE_BYTES // 1_000_000} MB"
PATIENCE_S = 3.0


def named(text: str) -> list[Path]:
    """The files that a paste names, as a terminal writes files that are dropped on it; [] for any other text."""
    text = text.strip()
    if not text or len(text) > 4_000 or "\n" in text or not text.lower().rstrip("'\"").endswith(_SUFFIXES):
        return []
    whole = Path(os.path.expanduser(text))
    try:
        if whole.is_absolute() and whole.is_file():
            return [whole]  # with blanks in it and no quotes
        words = shlex.split(text)
        paths = [
            Path(unquote(urlsplit(word).path) if word.startswith("file://") else os.path.expanduser(word))
            for word in words
        ]
        fits = all(p.suffix.lower() in _SUFFIXES and p.is_absolute() and p.is_file() for p in paths)
    except (OSError, ValueError):
        return []
    return paths if fits else []


def read(path: Path) -> Image:
    """The picture in a file. Raises UsageError when the file is not a picture or too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_IMAGE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    return _picture(data, sanitize_line(path.name, 80))


def _picture(data: bytes, name: str) -> Image:
    if len(data) > MOST_IMAGE_BYTES:
        raise UsageError(f"{name} {TOO_LARGE}, so it was not attached.")
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        raise UsageError(f"{name} is not a PNG, JPEG, GIF or WebP picture, so it was not attached.")
    return Image(kind, base64.b64encode(data).decode())


async def on_clipboard() -> Image | None:
    """The picture on the clipboard, None where there is none or nothing to ask. Raises UsageError for one too large."""
    types: tuple[str, ...]
    show: tuple[str, ...]
    if os.environ.get("WAYLAND_DISPLAY") and (program := find_program("wl-paste", None)):
        types, show = (program, "--list-types"), (program, "--no-newline", "--type", "image/png")
    elif os.environ.get("DISPLAY") and (program := find_program("xclip", None)):
        asked = (program, "-selection", "clipboard", "-o", "-t")
        types, show = (*asked, "TARGETS"), (*asked, "image/png")
    elif sys.platform == "darwin" and (program := find_program("osascript", None)):
        types, show = (program, "-e", "clipboard info"), (program, "-e", "the clipboard as «class PNGf»")
    else:
        return None
    if not re.search(rb"image/png|PNGf", await _output(types)):
        return None
    data = await _output(show)
    if found := re.fullmatch(rb"\s*\xc2\xabdata PNGf([0-9A-Fa-f]+)\xc2\xbb\s*", data):
        data = bytes.fromhex(found[1].decode())
    return _picture(data, "The picture on the clipboard") if data else None


async def _output(command: tuple[str, ...]) -> bytes:
    """The output of a program, cut off a little above the size limit of a picture."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 20,
            env=without_keys(os.environ),
        )
    except OSError:
        return b""
    assert process.stdout is not None
    data = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(data) <= 2 * MOST_IMAGE_BYTES + 100 and (more := await process.stdout.read(1 << 20)):
                data += more
            if len(data) <= 2 * MOST_IMAGE_BYTES + 100:
                await process.wait()
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return data
