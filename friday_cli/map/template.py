"""The task of an item from a template. The fields of an item go in once; braces in their values mean nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import UsageError

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"[^\s{}.\[\]!:]+")
WHOLE = "item"
"""The field that is the whole item."""


class Template:
    """A text with fields such as `{path}`; `{{` and `}}` are braces. Raises UsageError for a brace that is not a field."""

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[str, str]] = []
        """A text and the field after it, "" for none."""
        at, literal = 0, ""
        for found in _PART.finditer(text):
            literal += text[at : found.start()]
            at = found.end()
            if found[0] in ("{{", "}}"):
                literal += found[0][0]
                continue
            if found[1] is None or not _NAME.fullmatch(found[1]):
                line = text.count("\n", 0, found.start()) + 1
                raise UsageError(
                    f"--task: line {line}: {found[0]!r} is not a field.",
                    hint="Write a field as {name}, a brace as {{ or }}.",
                )
            self._parts.append((literal, found[1]))
            literal = ""
        self._parts.append((literal + text[at:], ""))
        self.fields = frozenset(field for _, field in self._parts if field)

    def missing(self, item: Mapping[str, Any]) -> list[str]:
        """The fields that an item lacks, sorted."""
        return sorted(self.fields - item.keys())

    def render(self, item: Mapping[str, Any]) -> str:
        """The task of an item that lacks no field."""
        return "".join(literal + (_text(item[field]) if field else "") for literal, field in self._parts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
