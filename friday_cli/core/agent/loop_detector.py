"""Detects an agent that repeats itself: the same turns with the same results, round after round."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

import msgspec

from ..protocol.messages import Message
from ..text.lazy_regex import pattern

PERIOD = 8
"""The longest round that is detected, in turns."""
ROUNDS_WARN, ROUNDS_STOP_SINGLE, ROUNDS_STOP = 3, 5, 4
"""Equal rounds after which the agent is warned, and stopped: a single turn, and more."""
NEAR_WARN, NEAR_STOP = 5, 8
"""Nearly equal rounds after which the agent is warned, and stopped."""

_NUMBER = pattern(r"\d+")
_BLANKS = pattern(r"(?:\s|\\[nrt])+")


class RepeatedRound(msgspec.Struct, frozen=True):
    """The round that an agent repeats: `size` turns, `rounds` times. `near`: its arguments differ in numbers or spaces."""

    size: int
    rounds: int
    near: bool

    @property
    def stops(self) -> bool:
        """Whether it was repeated too often."""
        return self.rounds >= (NEAR_STOP if self.near else ROUNDS_STOP if self.size > 1 else ROUNDS_STOP_SINGLE)

    def __str__(self) -> str:
        nearly = "nearly " if self.near else ""
        return f"{nearly}the same {'calls' if self.size == 1 else f'{self.size} turns of calls'}"


class LoopDetector:
    """Remembers the newest turns. Results that change are not a repetition, as those of a background job that is asked for
    its state. A tool of `writing` that succeeds with other arguments is progress."""

    def __init__(self, writing: Collection[str] = ()) -> None:
        self._writing = writing
        self._exact, self._near = _Turns(), _Turns()

    def add(self, reply: Message, results: Message) -> RepeatedRound | None:
        """Add a turn; returns the round that ends with it when the agent must be warned or stopped."""
        exact, near = self._exact.add(_exact(reply, results)), self._near.add(self._nearly(reply, results))
        if exact and exact[1] >= ROUNDS_WARN:
            return RepeatedRound(*exact, near=False)
        return RepeatedRound(*near, near=True) if near and near[1] >= NEAR_WARN else None

    def _nearly(self, reply: Message, results: Message) -> object:
        """Arguments without numbers and spaces, and the results."""
        if any(c.name in self._writing for c in reply.calls) and any(r.status == "ok" for r in results.results):
            return _exact(reply, results)
        sent = [(c.name, msgspec.json.encode(c.arguments, order="sorted").decode()) for c in reply.calls]
        calls = [(name, _BLANKS().sub("", _NUMBER().sub("#", text))) for name, text in sent]
        return calls, [(" ".join(r.text.split()), r.status) for r in results.results]


class _Turns:
    """The newest turns, by their keys."""

    def __init__(self) -> None:
        self._seen: deque[int] = deque(maxlen=PERIOD)
        self._equal = dict.fromkeys(range(1, PERIOD + 1), 0)

    def add(self, key: object) -> tuple[int, int] | None:
        """The turns of the shortest round that this turn ends, and the rounds so far."""
        turn = hash(msgspec.json.encode(key))
        for size in self._equal:
            same = len(self._seen) >= size and self._seen[-size] == turn
            self._equal[size] = self._equal[size] + 1 if same else 0
        self._seen.append(turn)
        return next(((size, 1 + n // size) for size, n in self._equal.items() if n and n % size == 0), None)


def _exact(reply: Message, results: Message) -> object:
    return [(c.name, c.arguments) for c in reply.calls], [(r.text, r.status) for r in results.results]
