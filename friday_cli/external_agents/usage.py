"""What a request used: as the service's answer says, by the four wires, and as a program reports it."""

from __future__ import annotations

import json
from typing import Any

from friday_cli.core.protocol.messages import Usage

BYTES_PER_TOKEN = 4
"""A rough estimate, for requests and for replies without a usage."""
MAX_LINE = 4 * 1024 * 1024
"""Bytes of a line, or of a whole document, in which a usage is looked for."""


class UsageReader:
    """Reads the usage from the bytes of an answer while they pass: events (`data: {...}` lines) or one JSON document. `found` is the newest
    one, None as long as there is none; `size` counts the bytes; `status` is that of the answer, 0 before it came."""

    def __init__(self) -> None:
        self.size = self.status = 0
        self.sent = self.stopped = False
        """Whether the request was sent, and whether it was stopped before its answer began."""
        self.problem = ""
        """Why there is no whole answer, "" if there is one."""
        self._rest = b""
        self._fields: dict[str, int] = {}

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        self.size += len(data)
        end = data.rfind(b"\n")
        if end < 0:
            if len(self._rest) + len(data) <= MAX_LINE:
                self._rest += data
            return
        first = data.index(b"\n")
        self._read(self._rest + data[:first])
        self._rest = data[end + 1 :]
        if data.find(b"sage", first, end) >= 0:  # most of a stream is passed on without a copy
            for line in data[first:end].split(b"\n"):
                self._read(line)

    def finish(self) -> None:
        """The answer is complete."""
        self._read(self._rest)
        self._rest = b""

    def _read(self, line: bytes) -> None:
        if b"sage" not in line:
            return
        text = line.removeprefix(b"data:").strip()
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(document, dict):
            return
        inner = [document, document.get("message"), document.get("response")]
        for one in (part for part in inner if isinstance(part, dict)):
            given = one.get("usage") or one.get("usageMetadata")
            if isinstance(given, dict):
                self._fields |= _fields(given)

    @property
    def found(self) -> Usage | None:
        """The usage so far, without its price."""
        if not self._fields:
            return None
        fields = self._fields
        read, written = fields.get("cache_read", 0), fields.get("cache_write", 0)
        return Usage(
            input=max(0, fields.get("input", 0) - fields.get("inside", 0)),
            cache_read=read,
            cache_write=written,
            output=fields.get("output", 0),
            reasoning=fields.get("reasoning", 0),
            cost_usd=None,
        )


def _fields(given: dict[str, Any]) -> dict[str, int]:
    """The counts of a usage. `inside`: tokens from a cache that its input includes."""
    found: dict[str, int] = {}
    for name, keys in (
        ("input", ("input_tokens", "prompt_tokens", "promptTokenCount")),
        ("output", ("output_tokens", "completion_tokens", "candidatesTokenCount")),
        ("cache_read", ("cache_read_input_tokens",)),
        ("cache_write", ("cache_creation_input_tokens",)),
    ):
        for key in keys:
            if key in given:
                found[name] = count(given, key)
    for detail in ("input_tokens_details", "prompt_tokens_details"):
        inner = given.get(detail)
        if isinstance(inner, dict) and "cached_tokens" in inner:
            found["cache_read"] = found["inside"] = count(inner, "cached_tokens")
    if "cachedContentTokenCount" in given:
        found["cache_read"] = found["inside"] = count(given, "cachedContentTokenCount")
    for detail in ("output_tokens_details", "completion_tokens_details"):
        inner = given.get(detail)
        if isinstance(inner, dict):
            found["reasoning"] = count(inner, "reasoning_tokens")
    if "thoughtsTokenCount" in given:  # Gemini counts them beside the answer
        found["reasoning"] = count(given, "thoughtsTokenCount")
        found["output"] = found.get("output", 0) + found["reasoning"]
    return found


def count(given: dict[str, Any], name: str) -> int:
    """A count of tokens, 0 for anything else."""
    value = given.get(name)
    return value if type(value) is int and 0 <= value < 10**9 else 0


def reported_usage(answer: Any, cost_usd: float | None, before_usd: float) -> Usage:
    """What a program says that a prompt used: the answer to it, and the cost of its session now and before. All of it is marked as an
    estimate; an unknown cost is None."""
    given = answer.get("usage") if isinstance(answer, dict) else None
    cost = None if cost_usd is None else max(0.0, cost_usd - before_usd)
    if not isinstance(given, dict):
        return Usage(cost_usd=cost, estimated=True)
    return Usage(
        input=count(given, "inputTokens"),
        cache_read=count(given, "cachedReadTokens"),
        cache_write=count(given, "cachedWriteTokens"),
        output=count(given, "outputTokens"),
        cost_usd=cost,
        estimated=True,
    )
