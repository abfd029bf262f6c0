"""What a request used: as the service's answer says, by the four wires, and as a program reports it."""

from __future__ import annotations

import json
from typing import Any

from friday_cli.core.protocol.messages import Usage
from friday_cli.extensions.profiles.profile import Wire
from friday_cli.llm.providers import anthropic_stream, openai_parts
from friday_cli.llm.transport.text import dict_in

BYTES_PER_TOKEN = 4
"""A rough estimate, for requests and for replies without a usage."""
MAX_LINE = 4 * 1024 * 1024
"""Bytes of a line, or of a whole document, in which a usage is looked for."""


class UsageReader:
    """Reads the usage from the bytes of an answer while they pass: events (`data: {...}` lines) or one JSON document. `size` counts the
    bytes; `status` is that of the answer, 0 before it came."""

    def __init__(self, wire: Wire) -> None:
        self.size = self.status = 0
        self.sent = self.stopped = False
        """Whether the request was sent, and whether it was stopped before its answer began."""
        self.problem = ""
        """Why there is no whole answer, "" if there is one."""
        self._wire = wire
        self._rest = b""
        self._given: dict[str, Any] = {}

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
        try:
            document = dict_in(json.loads(line.removeprefix(b"data:")))
        except (ValueError, RecursionError):
            return
        for one in (document, dict_in(document.get("message")), dict_in(document.get("response"))):
            given = dict_in(one.get("usage") or one.get("usageMetadata"))
            self._given |= {key: value for key, value in given.items() if value is not None}

    @property
    def found(self) -> Usage | None:
        """The newest usage, None as long as there is none. Without its price, unless the service says what it charges."""
        given = self._given
        if not given:
            return None
        if self._wire == "anthropic":
            return anthropic_stream.reported_usage(given)
        if self._wire == "gemini":
            thoughts = count(given, "thoughtsTokenCount")  # counted beside the answer
            given = {
                "prompt_tokens": given.get("promptTokenCount"),
                "prompt_tokens_details": {"cached_tokens": given.get("cachedContentTokenCount")},
                "completion_tokens": count(given, "candidatesTokenCount") + thoughts,
                "completion_tokens_details": {"reasoning_tokens": thoughts},
            }
        return openai_parts.reported_usage(given, lambda: 0, ())


def count(given: dict[str, Any], name: str) -> int:
    """A count of tokens, 0 for anything else."""
    value = given.get(name)
    return value if type(value) is int and 0 <= value < 10**9 else 0


def reported_usage(answer: Any, cost_usd: float | None, before_usd: float) -> Usage:
    """What a program says that a prompt used: the answer to it, and the cost of its session now and before. All of it is marked as an
    estimate; an unknown cost is None."""
    given = dict_in(dict_in(answer).get("usage"))
    return Usage(
        input=count(given, "inputTokens"),
        cache_read=count(given, "cachedReadTokens"),
        cache_write=count(given, "cachedWriteTokens"),
        output=count(given, "outputTokens"),
        cost_usd=None if cost_usd is None else max(0.0, cost_usd - before_usd),
        estimated=True,
    )
