"""A person works with a sub-agent in place of its parent: between its turns it waits for them."""

from __future__ import annotations

import asyncio

from ..limits.slots import RunSlot
from ..protocol.handover import PersonPart


class Takeover:
    """What a person does with an agent from `since` (Unix seconds) until they hand it back."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.over = False
        """Whether it was handed back."""
        self.result = ""
        """The result of the person; with "" that of the agent counts."""
        self._said: list[str] = []
        self._answering = False
        self._changed = asyncio.Event()

    def say(self, text: str) -> None:
        """The person has sent the agent a message: it works until it has answered."""
        self._said.append(text)
        self._answering = True
        self._changed.set()

    def hand_back(self, result: str) -> None:
        """The person is done."""
        self.over, self.result = True, result
        self._changed.set()

    def answered(self) -> None:
        """The agent has answered, and waits for the person again."""
        self._answering = False

    async def wait(self, slot: RunSlot) -> None:
        """Wait until the person has said something or is done, if the agent has nothing to answer. Holds no slot meanwhile."""
        while not self._answering and not self.over:
            self._changed.clear()
            async with slot.waiting("waiting_user"):
                await self._changed.wait()

    def part(self, until: float) -> PersonPart:
        """The part of the receipt about the time in which a person had the agent."""
        return PersonPart(self.since, until, tuple(self._said), bool(self.result))
