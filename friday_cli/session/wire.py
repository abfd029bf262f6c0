"""What goes through the socket of a session: JSON-RPC, one object a line.

Requests of a frontend: `hello` (first), `follow`, `do`, `reopen`, `end`. The owner sends `event`, `facts` and `output`. An event is what
`stream-json` and the log have. A frontend reads the log first, then follows from there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from friday_cli.core.protocol import errors
from friday_cli.core.protocol.errors import BudgetSpent, FridayError, UsageError
from friday_cli.core.protocol.provider import Effort
from friday_cli.jsonrpc.connection import Dialect

DIALECT = Dialect("cancel")
PROTOCOL = 1
"""Goes up when a side of an earlier version could misunderstand one of this version."""
MOST_SENT, MOST_RECEIVED = 32 * 1024 * 1024, 128 * 1024 * 1024
"""Bytes of a message from a frontend (a message with pictures), and to it."""
READ_BYTES = 256 * 1024


class Reopening(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options with which the owner opens its session again; those that are not set stay, None: as the settings say."""

    model: str | msgspec.UnsetType | None = msgspec.UNSET
    effort: Effort | msgspec.UnsetType | None = msgspec.UNSET
    mode: msgspec.UnsetType | None = msgspec.UNSET
    add_dirs: tuple[str, ...] = ()
    """Absolute folders beside those that it has."""


class StreamChannel:
    """The bytes of a socket for `RpcConnection`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise BrokenPipeError
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the other side has read most of what was sent. Raises OSError."""
        await self._writer.drain()

    def abort(self) -> None:
        """Close the socket without what the other side did not read."""
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the socket."""
        self._writer.close()


def failure(error: FridayError) -> dict[str, Any]:
    """An error of a command as data."""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "needed": getattr(error, "needed", 0),
    }


def raised(data: dict[str, Any]) -> FridayError:
    """The error that `failure` made data of."""
    text, hint = str(data.get("message", "")), str(data.get("hint", ""))
    kind = getattr(errors, str(data.get("kind")), None)
    if kind is BudgetSpent:
        return BudgetSpent(text, hint=hint, needed=int(data.get("needed", 0)))
    return UsageError(text, hint=hint) if kind is UsageError else FridayError(text, hint=hint)


def unknown_there(theirs: str) -> UsageError:
    """The error where a request is not known to an owner of another version."""
    return UsageError(
        f"The process of this session runs Friday {theirs} and cannot do this.",
        hint="`/stop` ends it; `friday attach` then resumes the session with the installed Friday.",
    )


def other_version(mine: str, theirs: str) -> UsageError:
    """The error where both sides speak another version of this."""
    return UsageError(
        f"The session runs Friday {theirs}, this is {mine}: the two cannot talk to each other.",
        hint="Use the same version on both sides, or read the session: `friday sessions show ID --follow`.",
    )
