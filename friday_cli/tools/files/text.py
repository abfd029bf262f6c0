"""Text as it lies in files: encoding, byte order mark and line ends are kept when a file changes."""

from __future__ import annotations

import asyncio
import codecs
import hashlib

import msgspec

from friday_cli.core.protocol.errors import ToolError

LIMIT = 16 * 1024 * 1024
"""Bytes of a file that the tools will hold; what is larger is for grep and bash."""
_SHORT = 256 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KINDS = (
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a program (Windows)"),
    (b"\xca\xfe\xba\xbe", "compiled code"),
    (b"\xcf\xfa\xed\xfe", "a program (macOS)"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\xfd7zXZ", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\0asm", "WebAssembly"),
)


class DecodedFile(msgspec.Struct, frozen=True):
    """A decoded file. `text` has its own line ends; `mark` is its byte order mark."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"

    def encode(self, text: str) -> bytes:
        """`text` as bytes of this file. Raises ToolError for characters its encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start : error.start + 1]
            raise ToolError(
                f"The file's encoding ({self.encoding}) has no {bad!r} (U+{ord(bad):04X}).", hint="Write it otherwise."
            ) from None


def decode(data: bytes) -> DecodedFile | None:
    """The text in `data`, None when it is none. What is not UTF-8 is read as Windows or ISO Latin, byte for byte."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return DecodedFile(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                return None
    if b"\0" in data:
        return None
    try:
        return DecodedFile(data.decode())
    except UnicodeDecodeError:
        start = data[:8192]
        if sum(byte < 32 and byte not in (9, 10, 12, 13, 27) for byte in start) * 50 > len(start):
            return None
    try:
        return DecodedFile(data.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        return DecodedFile(data.decode("latin-1"), "latin-1")


async def understood(data: bytes) -> tuple[DecodedFile | None, str]:
    """The text in `data` (see `decode`) and the sha256 of it; much of it is looked at in a thread."""
    if len(data) < _SHORT:
        return decode(data), hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: (decode(data), hashlib.sha256(data).hexdigest()))


def kind_of(data: bytes) -> str:
    """What binary data seems to be, in words."""
    return next((words for start, words in _KINDS if data.startswith(start)), "binary data")
