"""Who plays: the script for a prompt, by the agent's place in the tree."""

from __future__ import annotations

from . import answers, overview, survey
from .intent import intent
from .play import Script, Seat
from .tasks import COUNT_TASK, READ_TASK, WRITE_TASK

CHILDREN = {READ_TASK: survey.researcher, COUNT_TASK: survey.analyst, WRITE_TASK: survey.summarizer}


def plot(seat: Seat) -> Script:
    """The script for what an agent was asked."""
    if seat.is_child:
        for task, script in CHILDREN.items():
            if seat.prompt.startswith(task):
                return script(seat)
    wanted = intent(seat.prompt)
    if wanted.kind == "overview":
        return overview.overview(seat)
    return answers.answer(seat, wanted)
