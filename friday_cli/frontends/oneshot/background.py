"""`friday ask --background`: a run in a process without a terminal. It has no output, it is read from the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope

from ..host.owner import Starter, run_in_background
from .output import OutputWriter

Values = dict[str, Any]


def ask_in_background(values: Values, answer: Callable[[Values], int], fail: Callable[[Values, str, int], int]) -> int:
    """Begin the run and return the exit code of its start. `answer` does all of it; `fail` reports why there is none."""
    for name in ("output_format", "output", "ci"):
        if values[name]:
            flag = f"--{name.replace('_', '-')}"
            hint = "Read the result from the session: `friday sessions show ID`."
            return fail(values, str(UsageError(f"{flag} cannot be used with --background.", hint=hint)), 2)
    return run_in_background(lambda starter: answer(values | {"background": starter}))


class BackgroundWriter(OutputWriter):
    """Tells `starter` of the first event of the run, which is on disk by then."""

    def __init__(self, starter: Starter, session: str) -> None:
        super().__init__()
        self._starter, self._session = starter, session

    def apply(self, envelope: Envelope) -> None:
        super().apply(envelope)
        if isinstance(envelope.event, AgentStarted):
            self._starter.started(self._session)
