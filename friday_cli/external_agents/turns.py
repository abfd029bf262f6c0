"""The turns and the limits of an external agent: one turn is one request of its program to a model, as far as it is known."""

from __future__ import annotations

import asyncio
from typing import Literal

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.protocol.events import RequestSent, TurnFinished, TurnStarted
from friday_cli.core.protocol.messages import Usage


class Turns:
    """Counts, charges and logs the turns of a run. `limited` has the first limit that is reached."""

    def __init__(self, agent: Agent, services: Services) -> None:
        self._agent, self._log = agent, services.log
        self.limited: asyncio.Future[LimitReached] = asyncio.get_running_loop().create_future()
        self.phase: Literal["work", "stopping", "last turn"] = "work"
        """No request is sent while the work is stopped; no limit stops the last turn."""
        self.context = 0
        """Tokens of the program's context, as far as they are known."""
        self.counted = False
        """Whether Friday counts the requests of the program."""
        self._open = False

    def check(self) -> None:
        """Raises LimitReached if no further turn may begin."""
        self._agent.budget.check()
        if self._agent.turn >= self._agent.max_turns:
            raise LimitReached("iterations", self._agent.path)

    def stop_at(self, limit: LimitReached) -> None:
        """A limit is reached."""
        if not self.limited.done():
            self.limited.set_result(limit)

    def full(self) -> bool:
        """Whether no further turn may begin; then its limit is reached."""
        if self.phase == "last turn" or self._agent.turn < self._agent.max_turns:
            return False
        self.stop_at(LimitReached("iterations", self._agent.path))
        return True

    def seen(self) -> None:
        """The program seems to have sent a request. Where its requests are counted, that is known better."""
        if not self.counted and not self.full():
            self.begin(RequestSent(Usage(cost_usd=None, estimated=True)))  # its cost is known at the end, if ever

    def begin(self, sent: RequestSent) -> None:
        """A turn begins; `sent` estimates what its request costs."""
        agent = self._agent
        self.end(Usage(), "tool_use")
        agent.turn += 1
        self._open = True
        started = TurnStarted(
            agent.turn,
            self.phase == "last turn",
            self.context,
            request=sent.request,
            output_usd=sent.output_usd,
            marked=self.counted and agent.budget.needs_log,
        )
        self._log.emit_soon(agent.path, started)

    def end(self, usage: Usage, stop: str, *, marked: bool = False) -> None:
        """A turn ends, or what it used becomes known later. `marked`: the log has the start of its request, and gets its end."""
        if self._open or marked or usage != Usage():
            self._open = False
            self._log.emit_soon(self._agent.path, TurnFinished(self._agent.turn, usage, stop, self.context))

    def charge(self, usage: Usage) -> None:
        """The program says that it used this."""
        self._agent.account(usage)
        self._agent.budget.charge(usage.billed, usage.cost_usd)
        try:
            self._agent.budget.check()
        except LimitReached as limit:
            self.stop_at(limit)
