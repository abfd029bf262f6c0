"""A plan that a model hands in: the answers of a person, and the mode that each leads to."""

from __future__ import annotations

from typing import Literal

from .tool_info import ASK_USER

PLAN_MODES: dict[str, Literal["edits", "ask"]] = {
    "Do it; change files without asking (mode edits)": "edits",
    "Do it; ask about each change (mode ask)": "ask",
    "Leave plan mode; do nothing": "ask",
}
"""The mode of the session after each answer. Any other answer, in words, keeps the mode: go on planning."""
DO_IT = tuple(PLAN_MODES)[:2]
PLAN_CHOICES = tuple(PLAN_MODES)
"""The choices of a `QuestionAsked` whose question is a plan, as Markdown. The engine changes the mode only for a plan that a
model handed in, whatever choices another question has."""
APPROVED = "The user approved the plan."
"""How the result of a call begins whose plan is to be done."""
INSTEAD = f", so hand in a plan with {ASK_USER} instead of the change"
"""What a model is told of the mode, and a person is not."""
MAX_PLAN = 20_000
"""Characters of a plan."""
