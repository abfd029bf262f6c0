"""The digests of requests, which the log has of each."""

from __future__ import annotations

import hashlib
import json
import operator
from typing import Any

import msgspec

from ..protocol.messages import Message
from ..protocol.provider import Request
from ..text.known_keys import known_keys, mask_keys_in


def encoded(value: Any) -> bytes:
    """The JSON of a struct, also of one with text that UTF-8 cannot encode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


class RequestDigests:
    """The digests of the requests of one conversation, whose messages mostly stay: each is read once. Keys are masked as in the
    log, so that a request that is made from the log has the same digest."""

    def __init__(self) -> None:
        self._known: list[tuple[Message, bytes]] = []
        """Messages of the last request, each with the digest of all up to it."""
        self._prefix: tuple[object, ...] = ()
        """The objects from which `_start` was made."""
        self._start = b""

    def of(self, request: Request) -> str:
        """The sha256 of its system text, tools and messages, as hexadecimal digits."""
        prefix = (request.system, request.tools, known_keys())
        if not (self._prefix and all(map(operator.is_, prefix, self._prefix))):  # most requests have the same objects
            start = hashlib.sha256(encoded((mask_keys_in(request.system), request.tools))).digest()
            if start != self._start:
                self._start, self._known = start, []
            self._prefix = prefix
        same = 0
        for known, message in zip(self._known, request.messages, strict=False):
            if known[0] is not message:
                break
            same += 1
        del self._known[same:]
        digest = self._known[-1][1] if self._known else self._start
        for message in request.messages[same:]:
            digest = hashlib.sha256(digest + encoded(mask_keys_in(message))).digest()
            self._known.append((message, digest))
        return digest.hex()
