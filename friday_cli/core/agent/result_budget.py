"""Truncates tool results to what the agent's remaining budget can pay for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..protocol.messages import Message, ToolResult, estimate_message
from .agent import Agent
from .model_call import prompt_tokens

HEAD = 0.8
"""Share of a truncated result that is its beginning; the rest is its end."""
LEAST = 64
"""Tokens that every result may have; less than that of a result is not worth sending."""


def truncate_results(agent: Agent, results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """The results, with the longest truncated when the budget cannot pay for all of them. The wrap-up reserve is not
    used for them, because the agent needs it for its last answer."""
    room = agent.budget.room(agent.provider.cost)
    if room == float("inf"):
        return tuple(results)
    known = prompt_tokens(agent)
    room -= known if agent.cold else max(0, known - agent.sent)
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
    head, tail = int(4 * room * HEAD), int(4 * room * (1 - HEAD))
    begins, ends = (part.decode("utf-8", "ignore") for part in (raw[:head], raw[len(raw) - tail :]))
    if (
        raw[: len(raw) - tail].rpartition(b"\n")[2].startswith(b">")
    ):  # within the words of a sub-agent, which stay quoted
        ends = f"> …{ends}"
    text = f"{begins}\n{note}\n{ends}" if head + tail < len(raw) else result.text
    return msgspec.structs.replace(result, text=text, images=())
