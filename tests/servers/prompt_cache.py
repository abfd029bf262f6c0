"""The caches of Anthropic and OpenAI as a model: what of a request is read, written and neither, on a given clock.

Anthropic ("Prompt caching"): an entry ends at a cache breakpoint and lives 5 minutes after its last use. From each breakpoint the
service looks back 20 blocks for an entry. Tools, system and messages are a chain; `tool_choice`, thinking and effort belong to the
messages, an output format to everything. OpenAI: the longest prefix of items that was sent before, for 30 minutes; effort, format and
tools belong to the prefix. A prefix below 1,024 tokens is never cached. A token is four bytes of JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

LOOK_BACK = 20
LEAST = 1024
KEPT_S = {"messages": 300.0, "responses": 1800.0}


class Block(NamedTuple):
    """One block of a prefix: what it adds to the key, its tokens, and whether it ends at a breakpoint."""

    key: str
    tokens: int
    marked: bool


class PromptCache:
    """The cache of one service. `repeatable` counts the tokens of requests that began like an earlier one, `read` those that came from
    the cache. `now` is the clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._entries: dict[str, float] = {}
        self._seen: set[str] = set()
        self.repeatable = self.read = 0

    def usage(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """The tokens of a request that are neither, read, and written."""
        wire = "messages" if "messages" in body else "responses"
        blocks = _claude(body) if wire == "messages" else _gpt(body)
        hashes, sizes, plain = _chain(blocks)
        self._count_repeatable(plain, sizes)
        marks = [i for i, block in enumerate(blocks) if block.marked]
        now, kept = self._now(), KEPT_S[wire]
        steps = LOOK_BACK if wire == "messages" else len(blocks)
        found = -1
        for mark in reversed(marks):
            near = range(mark, max(-1, mark - steps), -1)
            found = max(found, next((i for i in near if now - self._entries.get(hashes[i], -kept) < kept), -1))
        end = marks[-1] if marks else -1
        for mark in marks:
            if sizes[mark] >= LEAST:
                self._entries[hashes[mark]] = now
        if found >= 0:
            self._entries[hashes[found]] = now
        read = sizes[found] if found >= 0 else 0
        written = max(0, sizes[end] - read) if end >= 0 and sizes[end] >= LEAST else 0
        self.read += read
        return sizes[-1] - read - written, read, written

    def _count_repeatable(self, plain: list[str], sizes: list[int]) -> None:
        known = [size for key, size in zip(plain, sizes, strict=True) if key in self._seen and size >= LEAST]
        self.repeatable += max(known, default=0)
        self._seen.update(plain)


def _chain(blocks: list[Block]) -> tuple[list[str], list[int], list[str]]:
    """For each block the hash and the tokens of all up to it, and a hash without what only keys the cache."""
    hashes, sizes, plain = [], [], []
    one, two, size = hashlib.sha256(), hashlib.sha256(), 0
    for block in blocks:
        one.update(block.key.encode())
        two.update(block.key.partition("\0")[2].encode())
        size += block.tokens
        hashes.append(one.hexdigest())
        plain.append(two.hexdigest())
        sizes.append(size)
    return hashes, sizes, plain


def _block(tier: object, data: dict[str, Any], *, marked: bool | None = None) -> Block:
    marks = "cache_control" in data if marked is None else marked
    text = json.dumps({key: value for key, value in data.items() if key != "cache_control"}, sort_keys=True)
    return Block(f"{json.dumps(tier, sort_keys=True)}\0{text}", (len(text) + 3) // 4, marks)


def _claude(body: dict[str, Any]) -> list[Block]:
    output = body.get("output_config", {})
    everything = [body["model"], output.get("format")]
    said = [*everything, *map(body.get, ("tool_choice", "thinking")), *map(output.get, ("effort", "task_budget"))]
    blocks = [_block(everything, tool) for tool in body.get("tools", ())]
    blocks += [_block(everything, part) for part in body.get("system", ())]
    for message in body["messages"]:
        blocks += [_block(said, {**part, "role": message["role"]}) for part in message["content"]]
    if "cache_control" in body:
        blocks[-1] = blocks[-1]._replace(marked=True)
    assert sum(block.marked for block in blocks) <= 4, "the service refuses more breakpoints"
    return blocks


def _gpt(body: dict[str, Any]) -> list[Block]:
    key = [body["model"], body.get("reasoning"), body.get("text"), body.get("prompt_cache_key")]
    items = [*body.get("tools", ()), {"instructions": body.get("instructions")}, *body["input"]]
    return [_block(key, item, marked=True) for item in items]
