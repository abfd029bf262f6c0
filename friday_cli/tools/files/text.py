"""Decodes text files, and encodes changed text with the same encoding, byte order mark and line ends."""

from __future__ import annotations

import asyncio
import codecs
import hashlib

import msgspec

from friday_cli.core.protocol.errors import ToolError

LIMIT = 16 * 1024 * 1024
"""Largest file, in bytes, that the file tools read completely; use grep and bash for larger ones."""
_THREAD_FROM = 256 * 1024
"""Bytes from which decoding runs in a thread."""
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
    """A decoded file. `text` has the original line ends; `mark`: the byte order mark."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def newline(self) -> str:
        """The most frequent line end."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"

    def encode(self, text: str) -> bytes:
        """`text` in the encoding of this file. Raises ToolError for characters that the encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start : error.start + 1]
            problem = f"The encoding of the file ({self.encoding}) has no {bad!r} (U+{ord(bad):04X})."
            raise ToolError(problem, hint="Use another character.") from None


def decode(data: bytes) -> DecodedFile | None:
    """Decode `data`; None if it is not text. Without UTF-8 or a byte order mark it is read as Windows-1252 or Latin-1."""
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


async def decode_and_hash(data: bytes) -> tuple[DecodedFile | None, str]:
    """The decoded `data` (see `decode`) and its sha256; large data is processed in a thread."""
    if len(data) < _THREAD_FROM:
        return decode(data), hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: (decode(data), hashlib.sha256(data).hexdigest()))


def kind_of(data: bytes) -> str:
    """The kind of binary data, for a message."""
    return next((kind for start, kind in _KINDS if data.startswith(start)), "binary data")
