"""Tells a person when a service did not use its cache for a request that began like the one before, and what changed. Such a
request costs up to ten times as much."""

from __future__ import annotations

import msgspec

from ..protocol.events import Notice
from ..protocol.messages import Usage
from ..protocol.provider import Request

LEAST = 1_024
"""Tokens that a service must have cached before their loss counts: services cache nothing shorter."""
KEPT_S = 300.0
"""Seconds for which a service keeps a prefix at least."""


class LastRequest(msgspec.Struct, frozen=True):
    """An agent's last request: the model that answered it, when (loop time), and the tokens in the service's cache since."""

    model: str
    request: Request
    at: float
    cached: int


def last_request(model: str, request: Request, usage: Usage, at: float) -> LastRequest:
    """The facts of a request with which `broken_prefix` compares the next one."""
    return LastRequest(model, request, at, usage.cache_read + usage.cache_write if usage.cached else 0)


def broken_prefix(before: LastRequest, now: LastRequest, usage: Usage) -> Notice | None:
    """The notice if less than half of what was cached was used for `now`, whose usage is `usage`."""
    if not usage.cached or before.cached < LEAST or usage.cache_read >= before.cached // 2:
        return None
    change = _change(before, now)
    lost = f"{before.cached - usage.cache_read:,} tokens that {now.model} had cached were not read from its cache"
    return Notice(
        f"{lost}: {change or 'nothing in the request changed, so the service dropped them'}.",
        "warning" if change else "info",
        "cache",
    )


def _change(before: LastRequest, now: LastRequest) -> str:
    """What differs in the part that both requests have; "" for nothing."""
    old, new = before.request, now.request
    if before.model != now.model:
        return f"the model was {before.model}"
    if [tool.name for tool in old.tools] != [tool.name for tool in new.tools]:
        names = sorted({tool.name for tool in old.tools} ^ {tool.name for tool in new.tools})
        return f"the list of tools changed ({', '.join(names) or 'their order'})"
    if old.tools != new.tools:
        return "the description of a tool changed"
    if old.system != new.system:
        return "the system text changed"
    if old.effort != new.effort:
        return "the effort changed"
    for number, message in enumerate(old.messages):
        if number >= len(new.messages) or (message is not new.messages[number] and message != new.messages[number]):
            return f"message {number + 1} of the conversation changed"
    if now.at - before.at > KEPT_S:
        return f"the previous request was sent {(now.at - before.at) / 60:.0f} minutes ago"
    return ""
