"""The digests of requests, which the log has of each."""

from __future__ import annotations

import hashlib
import json
import operator
from typing import Any, ClassVar

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

    _newest: ClassVar[tuple[tuple[object, ...], bytes]] = ((), b"")
    """Of all conversations: the newest system text, tools and known keys, and their digest."""

    def __init__(self) -> None:
        self._known: list[Message] = []
        """The messages of the last request."""
        self._digests: list[bytes] = []
        """Of each of them, the digest of all up to it."""
        self._prefix: tuple[object, ...] = ()
        """The objects from which `_start` was made."""
        self._start = b""

    def of(self, request: Request) -> str:
        """The sha256 of its system text, tools and messages, as hexadecimal digits."""
        prefix = (request.system, request.tools, known_keys())
        if not (self._prefix and all(map(operator.is_, prefix, self._prefix))):  # most requests have the same objects
            if prefix != RequestDigests._newest[0]:  # most sub-agents have equal ones
                made = hashlib.sha256(encoded((mask_keys_in(request.system), request.tools))).digest()
                RequestDigests._newest = prefix, made
            start = RequestDigests._newest[1]
            if start != self._start:
                self._start, self._known, self._digests = start, [], []
            self._prefix = prefix
        messages = request.messages
        same = min(len(self._known), len(messages))
        if not all(map(operator.is_, self._known, messages)):
            same = next(at for at, (old, new) in enumerate(zip(self._known, messages, strict=False)) if old is not new)
        del self._known[same:], self._digests[same:]
        digest = self._digests[-1] if self._digests else self._start
        for message in messages[same:]:
            digest = hashlib.sha256(digest + encoded(mask_keys_in(message))).digest()
            self._known.append(message)
            self._digests.append(digest)
        return digest.hex()
