"""The last step before a command begins: confine it. The launcher imports this: standard library only."""

from __future__ import annotations

from . import bubblewrap, landlock, seatbelt
from .plan import SandboxPlan


def enter(plan: SandboxPlan, words: list[bytes]) -> list[bytes]:
    """What to run so that `words` run as `plan` says; Landlock confines the calling process itself. Raises OSError."""
    plan = plan.resolved()
    if plan.kind == "bubblewrap":
        return bubblewrap.wrapped(plan, words)
    if plan.kind == "landlock":
        landlock.restrict(plan)
        return words
    if plan.kind == "seatbelt":
        return seatbelt.wrapped(plan, words)
    raise OSError(f"there is no sandbox {plan.kind!r}")
