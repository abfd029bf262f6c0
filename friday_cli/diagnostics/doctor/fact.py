"""The result of a doctor check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

Level = Literal["ok", "note", "bad"]


class DoctorFact(msgspec.Struct, frozen=True):
    """One result. `level` is `bad` if something is broken; `hint` says what to do about it."""

    area: str
    name: str
    text: str
    level: Level = "ok"
    hint: str = ""


class Fact(NamedTuple):
    """A `DoctorFact` before its area is known and its text is redacted."""

    name: str
    text: str
    level: Level = "ok"
    hint: str = ""


Facts = Iterator[Fact]
