"""What a permission decision says, and the modes that decide where no rule does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from .rule import Decision, Rule

Mode = Literal["ask", "edits", "plan", "auto", "yolo"]
MODES: tuple[Mode, ...] = ("ask", "edits", "plan", "auto", "yolo")
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class PermissionDecision(msgspec.Struct, frozen=True):
    """A decision with its reason as text. `rule` is the rule that decided, "" when it was a mode or `always_ask_reason`,
    `source` where the rule is defined, and `effect` the effect that it met, "" if it names the tool. `read_only`: a command is allowed only because it reads, so it may do nothing else."""

    decision: Decision
    reason: str = ""
    rule: str = ""
    source: str = ""
    read_only: bool = False
    effect: str = ""


class StepOutcome(msgspec.Struct, frozen=True):
    """The finding of one step of `STEPS`. `whose` says whose rights it looked at: "the session", "profile coder" or a skill's."""

    whose: str
    step: str
    decision: PermissionDecision | None
    """None if the step says nothing about the call, so that the next one is taken."""


def strictest(found: Iterable[PermissionDecision]) -> PermissionDecision:
    """The first of the strictest of some decisions."""
    return max(found, key=lambda permission: _STRICTNESS[permission.decision])


def stricter(one: Decision, other: Decision) -> Decision:
    """The stricter of two decisions."""
    return max(one, other, key=_STRICTNESS.__getitem__)


def decided_by(rule: Rule, words: str, effect: str = "") -> PermissionDecision:
    """The decision of a rule. `words` say how it decides, such as "denied by", and `effect` what it met."""
    more = f": {rule.reason}" if rule.reason else ""
    reason = f"{effect}, {words} the rule {rule}{more}" if effect else f"{words} the rule {rule}{more}"
    return PermissionDecision(rule.decision, reason, str(rule), rule.source, effect=effect)
