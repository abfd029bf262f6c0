"""The status of an agent, and the result of a run."""

from __future__ import annotations

from typing import Literal

import msgspec

from .claims import Claims
from .format import how_it_ended
from .receipt import Finding

Status = Literal[
    "queued",
    "running",
    "waiting_child",
    "waiting_user",
    "waiting_rate",
    "waiting_budget",
    "completed",
    "failed",
    "timeout",
    "cancelled",
    "interrupted",
]
StopReason = Literal[
    "done",
    "reported",
    "iterations",
    "tokens",
    "cost",
    "time",
    "cancelled",
    "aborted",
    "parent",
    "provider",
    "refusal",
    "context",
    "supervision",
    "loop",
    "process",
    "hook",
]
ENDED: frozenset[str] = frozenset(("completed", "failed", "timeout", "cancelled", "interrupted"))
LIMIT_REASONS: frozenset[str] = frozenset(("iterations", "tokens", "cost", "time"))
RESULT_CHARS = 24_000
"""Characters of a result that a parent reads at once if neither settings nor profile say otherwise."""


class RunResult(msgspec.Struct, frozen=True):
    """The end of a run. `text` is what it returned; `partial` marks a text that the agent did not finish. `limit_of` is
    the path of the agent whose limit was reached. `claims` are compared with the receipt and not logged. `error_kind` is the
    `ErrorKind` of the request that failed, "" if none did; it is not logged either."""

    status: Status
    stop_reason: StopReason
    text: str = ""
    error: str = ""
    limit_of: str = ""
    partial: bool = False
    findings: tuple[Finding, ...] = ()
    claims: Claims = Claims()
    error_kind: str = ""

    def to_keep(self, earlier: RunResult | None) -> RunResult | None:
        """The result to keep of two runs of an agent: this one, unless only the `earlier` one completed or has a text."""
        if self.status == "completed" or earlier is None or not earlier.text:
            return self
        return self if self.text and earlier.status != "completed" else earlier

    def summary(self, path: str) -> str:
        """The status for people and models, with the reason where it says more: `completed (tokens of a.1)`. `path` is
        the agent whose run it was."""
        return how_it_ended(self.status, self.stop_reason, self.limit_of if self.limit_of != path else "")
