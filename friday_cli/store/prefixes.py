"""Stores each system text and each tool of a session's prefixes once: later prefixes name the row that has them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

import msgspec

from friday_cli.core.protocol.events import Prefix

_MARK = b'{"kind":"prefix","again":true'
_SYSTEM = -1
"""In the place of a tool's number: the system text."""
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_tools = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_place = msgspec.json.Decoder(tuple[int, int]).decode


class StoredPrefixes:
    """Where the texts and tools of one session are stored, for its writer."""

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[int, int]] | None = None
        """The number of the event, and that of the tool in it, by content."""
        self._again: tuple[Prefix, str] | None = None
        """The newest prefix that only names rows, and what is stored for it: one like it gets the same."""

    def known(self, prefix: Prefix) -> str | None:
        """What is stored for a prefix like the one before; None for another one."""
        return self._again[1] if self._again is not None and self._again[0] == prefix else None

    def body(self, db: sqlite3.Connection, key: int, seq: int, prefix: Prefix, body: str) -> str:
        """What is stored for the `prefix` of event number `seq` with the JSON `body`; `key` is that of the session's row."""
        if self._places is None:
            self._places = {}
            for number, earlier in db.execute(
                "SELECT seq, CAST(body AS BLOB) FROM events WHERE session = ? AND kind = 'prefix' AND seq < ?",
                (key, seq),
            ):
                for index, part in _parts(earlier):
                    self._places.setdefault(_digest(part), (number, index))
        places = [self._places.setdefault(_digest(part), (seq, index)) for index, part in _parts(body.encode())]
        if all(number == seq for number, _ in places):
            return body
        parts = _decode(body)
        system, *tools = [
            part if place[0] == seq else msgspec.Raw(msgspec.json.encode(place))
            for place, (_, part) in zip(places, _parts(body.encode()), strict=True)
        ]
        again = {"kind": "prefix", "again": True, "model": parts["model"], "system": system, "tools": tools}
        stored = msgspec.json.encode(again).decode()
        if all(number != seq for number, _ in places):
            self._again = prefix, stored
        return stored


def _parts(body: bytes) -> Iterator[tuple[int, msgspec.Raw]]:
    """The system text and the tools of a stored body that are not named by their place."""
    parts = _decode(body)
    for index, part in enumerate((parts["system"], *_decode_tools(parts["tools"])), _SYSTEM):
        if not bytes(part).startswith(b"["):
            yield index, part


def _digest(part: msgspec.Raw) -> bytes:
    return hashlib.sha256(part).digest()


def whole_body(db: sqlite3.Connection, key: int, body: bytes) -> bytes:
    """The JSON of a stored event. Raises msgspec.DecodeError if a row that it names is gone."""
    if not body.startswith(_MARK):
        return body
    rows: dict[int, dict[int, msgspec.Raw]] = {}

    def part(stored: msgspec.Raw) -> msgspec.Raw:
        if not bytes(stored).startswith(b"["):
            return stored
        number, index = _decode_place(stored)
        if number not in rows:
            found = db.execute(
                "SELECT CAST(body AS BLOB) FROM events WHERE session = ? AND seq = ? AND kind = 'prefix'", (key, number)
            ).fetchone()
            rows[number] = dict(_parts(found[0])) if found else {}
        if index not in rows[number]:
            raise msgspec.DecodeError(f"What event {number} has of this prefix is missing.")
        return rows[number][index]

    parts = _decode(body)
    tools = [part(tool) for tool in _decode_tools(parts["tools"])]
    return msgspec.json.encode(
        {"kind": "prefix", "model": parts["model"], "system": part(parts["system"]), "tools": tools}
    )
