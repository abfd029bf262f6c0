"""Truncates tool results: to a size that can be kept, and to what the agent's remaining budget can pay for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..protocol.errors import ToolError
from ..protocol.messages import Message, ToolResult, estimate_message
from ..protocol.workspace import Workspace
from .agent import Agent, Services
from .next_request import expected, prompt_tokens

MAX_RESULT_BYTES, KEPT_BYTES = 1_000_000, 100_000
"""Bytes of a result from which on it is saved as a file, and those of its beginning and end that are kept then."""
HEAD = 0.8
"""Share of a truncated result that is its beginning; the rest is its end."""
LEAST = 64
"""Tokens that every result may have; less than that of a result is not worth sending."""


async def save_long(workspace: Workspace, text: str) -> str:
    """`text`, or the beginning and end of a very long one with the path of a file with all of it."""
    if len(text) <= MAX_RESULT_BYTES // 4 or len(raw := text.encode("utf-8", "replace")) <= MAX_RESULT_BYTES:
        return text
    try:
        where = f"The full result is in {await workspace.keep_output(raw)}"
    except ToolError as error:
        where = str(error)
    return _shortened(raw, KEPT_BYTES, f"[... {len(raw) - KEPT_BYTES:,} of {len(raw):,} bytes left out. {where} ...]")


def truncate_results(agent: Agent, services: Services, results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """The results, with the longest truncated when the budget cannot pay for all of them. Of the wrap-up reserve
    half is used for them at most, because the agent needs it for its last answer."""
    sent, provider = expected(agent, prompt_tokens(agent)), agent.conversation.provider
    room = agent.budget.room(provider.cost, sent.cache_read)
    if room == float("inf"):
        return tuple(results)
    room = room / services.input_counts.margin(provider.rate_limit_key, provider.model) - sent.input
    share = max(LEAST, _share([_tokens(result) for result in results], room))
    return tuple(result if _tokens(result) <= share else _cut(result, share) for result in results)


def _tokens(result: ToolResult) -> int:
    return estimate_message(Message("tool", (result,)))


def _share(sizes: Sequence[int], room: float) -> float:
    """The most that each may have so that all fit into `room`. Smaller ones leave the rest to larger ones."""
    left = sorted(sizes)
    while left and left[0] <= room / len(left):
        room -= left.pop(0)
    return max(0.0, room) / len(left) if left else float("inf")


def _cut(result: ToolResult, share: float) -> ToolResult:
    note = "[truncated: the budget cannot pay for the rest of this result]"
    room = int(share) - _tokens(ToolResult(result.call_id, note))
    if room < LEAST:
        return msgspec.structs.replace(result, text=note, images=())
    raw = result.text.encode("utf-8", "replace")
    text = _shortened(raw, 4 * room, note) if 4 * room < len(raw) else result.text
    return msgspec.structs.replace(result, text=text, images=())


def _shortened(raw: bytes, size: int, note: str) -> str:
    """`size` bytes of a text: its beginning, `note` and its end."""
    head, tail = int(size * HEAD), int(size * (1 - HEAD))
    begins, ends = (part.decode("utf-8", "ignore") for part in (raw[:head], raw[len(raw) - tail :]))
    if raw[: len(raw) - tail].rpartition(b"\n")[2].startswith(b">"):  # the words of a sub-agent stay quoted
        ends = f"> …{ends}"
    return f"{begins}\n{note}\n{ends}"
