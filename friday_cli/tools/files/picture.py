"""Images for a model: detected by their first bytes, with the size limits of the providers."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.messages import Image

MAX_BYTES, MAX_PIXELS = 3_750_000, 8000
"""Limits of the providers: bytes before base64, and pixels per side."""


def media_type(data: bytes) -> str:
    """The media type of an image that every provider reads, "" for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def image(data: bytes) -> tuple[Image, str]:
    """An image as a message part, and its dimensions as text. Raises ToolError if it is damaged or too large."""
    kind = media_type(data)
    try:
        width, height = _SIZES[kind](data)
    except (struct.error, IndexError, ValueError):
        width = height = 0
    if not (width and height):
        raise ToolError("The image is damaged: its size cannot be read.")
    if len(data) > MAX_BYTES or max(width, height) > MAX_PIXELS:
        raise ToolError(
            f"The image is too large: {width}x{height} pixels, {len(data):,} bytes"
            f" (at most {MAX_PIXELS} pixels per side and {MAX_BYTES:,} bytes).",
            hint="Make a smaller copy with bash and read that.",
        )
    return Image(kind, base64.b64encode(data).decode()), f"{width}x{height} pixels"


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        while data[at] == 0xFF and data[at + 1] == 0xFF:
            at += 1
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        if data[at] != 0xFF:
            raise ValueError("no marker")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length


def _webp(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


_SIZES: dict[str, Callable[[bytes], tuple[int, ...]]] = {
    "image/png": lambda data: struct.unpack(">II", data[16:24]),
    "image/gif": lambda data: struct.unpack("<HH", data[6:10]),
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
