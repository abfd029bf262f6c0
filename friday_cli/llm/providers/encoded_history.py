"""The messages of a conversation as JSON. Every request of a run has the whole history: what an earlier request has encoded
is used again."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from friday_cli.core.protocol.messages import Message, estimate_message
from friday_cli.core.protocol.provider import Request, estimate_request
from friday_cli.core.text.known_keys import known_keys

from ..transport.json_body import EncodedList, encode_value

BLOCK_BYTES = 64 * 1024
"""Size from which on neighbouring pieces are not joined any further."""
REFUSED_IMAGES = "refused_images"
"""In `Request.provider_state`: the hashes of images that the service refused, each with the reason."""
UNREAD = "unread_reasoning"
"""In `Request.provider_state`: how many messages have reasoning that the service cannot read."""
_STATE = "history"
_LIST_END = b"}]}"
"""The end of an item whose last field is a list of blocks."""

Convert = Callable[[Sequence[Message], bool], list[dict[str, Any]]]
"""Makes the API's items of consecutive messages; the second argument: they are the first of the conversation."""


class _Section(NamedTuple):
    """Consecutive messages and their items: the roles of the first and last item (None: the API has none) and the JSON."""

    messages: Sequence[Message]
    first: object
    last: object
    json: bytes

    def ends_before(self, later: _Section) -> bool:
        """Whether no item of `later` or of messages after it can become part of an item of this section."""
        separate = later.first is None or later.first == "assistant" != self.last
        return separate and bool(self.json and later.json)


class EncodedHistory:
    """The JSON of a history that grows at its end. Another history, `variant` or table of known keys starts again.

    The history is cut before assistant messages into sections. A section is final when an item of the assistant follows
    one of another role, since an API joins only neighbours of the same role. The last section is never final: the next
    message may still belong to it.
    """

    def __init__(self) -> None:
        self._reset(None)

    def _reset(self, variant: object) -> None:
        self._variant = variant
        self._final: list[Message] = []
        """The messages of all final sections."""
        self._blocks: list[bytes] = []
        self._recent: list[bytes] = []
        """The newest final sections, until they are large enough for a block."""
        self._open: _Section | None = None
        self._newest: Sequence[Message] = ()
        """The messages of the newest request."""
        self._call_ids: dict[str, None] = {}
        self._estimated = self._tokens = 0
        """How many final messages are estimated, and their tokens."""

    @classmethod
    def of(cls, request: Request) -> EncodedHistory:
        """The history that the conversation of `request` keeps between its requests."""
        found: EncodedHistory = request.provider_state.setdefault(_STATE, cls())
        return found

    def encode(
        self, messages: Sequence[Message], convert: Convert, variant: object, *, mark: bytes = b""
    ) -> EncodedList:
        """The items of `messages`. `variant` is equal for requests in which `convert` makes the same items. `mark` is JSON
        that is put into the last block of the request before, after the block's own fields."""
        variant = (variant, known_keys())
        if variant != self._variant or not self._begins(messages):
            self._reset(variant)
        pending: _Section | None = None
        for section in _cut(messages[len(self._final) :]):
            new = self._converted(section, convert, first=pending is None and not self._final)
            if pending is not None and pending.ends_before(new):
                self._finish(pending)
            elif pending is not None:
                new = self._converted([*pending.messages, *section], convert, first=not self._final)
            pending = new
        self._open = pending
        ends = self._separated([pending.json] if pending is not None and pending.json else [])
        blocks, recent = self._blocks, self._recent
        newest = recent or blocks
        if not (mark and newest and newest[-1].endswith(_LIST_END)):
            return EncodedList([*blocks, b"".join([*recent, *ends])])
        marked = newest[-1][: -len(_LIST_END)] + mark + _LIST_END
        if recent:
            return EncodedList([*blocks, b"".join([*recent[:-1], marked, *ends])], marked=True)
        return EncodedList([*blocks[:-1], marked, b"".join(ends)], marked=True)

    def call_ids(self, messages: Sequence[Message]) -> ChainMap[str, None]:
        """The ids of all calls in `messages`."""
        final = self._begins(messages)
        rest = messages[len(self._final) :] if final else messages
        return ChainMap({call.id: None for m in rest for call in m.calls}, self._call_ids if final else {})

    def estimate(self, request: Request) -> int:
        """An estimate of the input tokens of `request`, as that of `estimate_request`."""
        if not self._begins(request.messages):
            return estimate_request(request)
        self._tokens += sum(map(estimate_message, self._final[self._estimated :]))
        self._estimated = len(self._final)
        rest = msgspec.structs.replace(request, messages=request.messages[self._estimated :])
        return self._tokens + estimate_request(rest)

    def _begins(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` begins with the final ones, and has more."""
        if messages is not self._newest:
            count = len(self._final)
            if len(messages) <= count or self._final != list(messages[:count]):
                return False
            self._newest = messages
        return True

    def _converted(self, messages: Sequence[Message], convert: Convert, *, first: bool) -> _Section:
        known = self._open
        if known and list(known.messages) == list(messages):
            return known
        items = convert(messages, first)
        if not items:
            return _Section(messages, None, None, b"")
        return _Section(messages, items[0].get("role"), items[-1].get("role"), encode_value(items)[1:-1])

    def _finish(self, section: _Section) -> None:
        self._recent += self._separated([section.json])
        self._final += section.messages
        self._call_ids.update((call.id, None) for message in section.messages for call in message.calls)
        if sum(map(len, self._recent)) >= BLOCK_BYTES:
            self._blocks.append(b"".join(self._recent))
            self._recent.clear()

    def _separated(self, pieces: list[bytes]) -> list[bytes]:
        return [b"," + piece for piece in pieces] if self._blocks or self._recent else pieces


def _cut(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """`messages` in sections that begin with an assistant's message, except the first."""
    starts = [0, *(i for i, message in enumerate(messages) if i and message.role == "assistant")]
    return [messages[a:b] for a, b in zip(starts, [*starts[1:], len(messages)], strict=True) if a < b]
