"""The last step before a command starts: confine it. The supervisor imports this: standard library only."""

from __future__ import annotations

from . import bubblewrap, landlock, seatbelt
from .plan import SandboxPlan


def confine(plan: SandboxPlan, words: list[bytes]) -> list[bytes]:
    """The program and arguments that run `words` confined by `plan`. Landlock confines the calling process itself, so
    `words` are returned unchanged. Raises OSError."""
    plan = plan.resolved()
    if plan.kind == "bubblewrap":
        return bubblewrap.wrap(plan, words)
    if plan.kind == "landlock":
        landlock.restrict(plan)
        return words
    if plan.kind == "seatbelt":
        return seatbelt.wrap(plan, words)
    raise OSError(f"unknown sandbox {plan.kind!r}")
