"""What a permission decision says, and the modes that decide where no rule does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from .rule import Decision, Rule

Mode = Literal["ask", "edits", "plan", "auto", "yolo"]
MODES: tuple[Mode, ...] = ("ask", "edits", "plan", "auto", "yolo")
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class PermissionDecision(msgspec.Struct, frozen=True):
    """A decision with its reason as text. `rule` is the rule that decided, "" when it was a mode or `always_ask_reason`, and
    `source` where the rule is defined. `read_only`: a command is allowed only because it reads, so it may do nothing else."""

    decision: Decision
    reason: str = ""
    rule: str = ""
    source: str = ""
    read_only: bool = False


class StepOutcome(NamedTuple):
    """What one step of `STEPS` found. `whose` says whose rights it looked at: "the session", "profile coder" or a skill's."""

    whose: str
    step: str
    decision: PermissionDecision | None
    """None if the step says nothing about the call, so that the next one is taken."""


def strictest(found: Iterable[PermissionDecision]) -> PermissionDecision:
    """The first of the strictest of some decisions."""
    return max(found, key=lambda permission: _STRICTNESS[permission.decision])


def decided_by(rule: Rule, words: str) -> PermissionDecision:
    """The decision of a rule. `words` say how it decides, such as "denied by"."""
    more = f": {rule.reason}" if rule.reason else ""
    return PermissionDecision(rule.decision, f"{words} the rule {rule}{more}", str(rule), rule.source)
