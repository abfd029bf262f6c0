"""The one stream of a session: written first, published after; replayed, then live."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from ..protocol.errors import StoreError
from ..protocol.events import LIVE, AnyEvent, Envelope, Notice, TextDelta, ThinkingDelta, ToolOutput


class Journal(Protocol):
    """Where durable events are kept."""

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        """Keep `envelopes`, in order. Done when they survive the death of the process, and with `durable` they and all
        before them that of the machine; fails with StoreError."""
        ...

    async def read(self, after: int) -> list[Envelope]:
        """All envelopes with a number above `after`, in order."""
        ...


class MemoryJournal:
    """Keeps events in memory: for a session that can no longer be saved, and for tests."""

    def __init__(self, envelopes: Sequence[Envelope] = ()) -> None:
        self.envelopes = list(envelopes)

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.envelopes.extend(envelopes)
        done.set_result(None)
        return done

    async def read(self, after: int) -> list[Envelope]:
        return [e for e in self.envelopes if e.seq is not None and e.seq > after]


RECENT = 64
"""Events from the opening on that a reader is given from memory: one that is there from the start waits for no disk."""
MERGED = 16_000
"""Characters of a live event that get no more: joining ever longer texts would take ever longer."""


class Subscription:
    """One reader's queue. Durable events are never lost; live ones of an agent that continue each other are merged while
    they wait, also where those of other agents came between. Live ones wait for each other until `lull_s` seconds after the
    last that were handed out; a durable one ends the waiting."""

    def __init__(self, lull_s: float = 0.0) -> None:
        self._queue: deque[list[Envelope]] = deque()
        self._newest: dict[str, list[Envelope]] = {}
        self._ready = asyncio.Event()
        self._pressing = asyncio.Event()
        """Set by what may not wait."""
        self._lull_s = lull_s
        self._closed = False

    def put(self, envelope: Envelope) -> None:
        """Add an event, or merge it into the live one of its agent that waits."""
        place = self._newest.get(envelope.agent)
        if place is not None and (merged := _merge(place[0], envelope)):
            place[0] = merged
        else:
            place = self._newest[envelope.agent] = [envelope]
            self._queue.append(place)
        self._ready.set()
        if envelope.seq is not None:
            self._pressing.set()

    def skip(self, newest: int) -> None:
        """Forget what a replay up to number `newest` has shown, and the live events of each agent that came before it."""
        shown: set[str] = set()
        kept: list[list[Envelope]] = []
        for place in reversed(self._queue):
            envelope = place[0]
            if envelope.seq is not None and envelope.seq <= newest:
                shown.add(envelope.agent)
            elif envelope.seq is not None or envelope.agent not in shown:
                kept.append(place)
        self._queue = deque(reversed(kept))
        self._newest = {place[0].agent: place for place in self._queue}

    def close(self) -> None:
        """No event comes any more; what waits is still read."""
        self._closed = True
        self._ready.set()
        self._pressing.set()

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        while True:
            while self._queue:
                place = self._queue.popleft()
                if self._newest.get(place[0].agent) is place:
                    del self._newest[place[0].agent]
                yield place[0]
            if self._closed:
                return
            self._ready.clear()
            self._pressing.clear()
            clock = asyncio.get_running_loop().time
            over = clock() + self._lull_s
            await self._ready.wait()
            if (left := over - clock()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._pressing.wait(), left)


def _merge(old: Envelope, new: Envelope) -> Envelope | None:
    """Both as one, when `new` continues the text of `old`."""
    a, b = old.event, new.event
    if old.agent != new.agent or type(a) is not type(b) or not isinstance(b, (TextDelta, ThinkingDelta, ToolOutput)):
        return None
    assert isinstance(a, (TextDelta, ThinkingDelta, ToolOutput))
    if isinstance(b, ToolOutput):
        same = isinstance(a, ToolOutput) and a.call_id == b.call_id
    else:
        same = not isinstance(a, ToolOutput) and (a.turn, a.attempt) == (b.turn, b.attempt)
    if not same or a.offset + len(a.text) != b.offset or len(a.text) > MERGED:
        return None
    return msgspec.structs.replace(old, event=msgspec.structs.replace(a, text=a.text + b.text))


class Log:
    """Numbers, keeps and publishes the events of one session.

    When the journal fails, the session goes on in memory and says so once: what was acknowledged before is safe.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        last: int = 0,
        now: Callable[[], float] = time.time,
        watch: Callable[[Envelope], None] = lambda envelope: None,
    ) -> None:
        self._journal: Journal = journal
        self._seq = last
        self._now = now
        self._readers: list[Subscription] = []
        self._replays: set[asyncio.Future[list[Envelope]]] = set()
        """What readers are being given from the journal just now."""
        self._tail: asyncio.Future[None] | None = None
        self._opened = last
        self._recent: list[Envelope] | None = []
        """What was kept since the opening; None as soon as that is much."""
        self.failure: StoreError | None = None
        self._watch = watch
        """Called with every durable event before it is written."""

    @property
    def last(self) -> int:
        """The number of the newest event, written or about to be."""
        return self._seq

    async def emit(self, agent: str, *events: AnyEvent, durable: bool = False) -> None:
        """Keep `events` and then publish them, once each, even if the caller is cancelled meanwhile. With `durable` a
        power cut after this takes nothing that was emitted up to here."""
        envelopes = []
        for event in events:
            self._seq += 1
            envelopes.append(Envelope(self._seq, self._now(), agent, event))
            self._watch(envelopes[-1])
        task = asyncio.ensure_future(self._write(envelopes, self._tail, durable=durable))
        self._tail = task
        await asyncio.shield(task)

    def live(self, agent: str, event: AnyEvent) -> None:
        """Publish an event that is not kept."""
        assert isinstance(event, LIVE)
        self._publish((Envelope(None, self._now(), agent, event),))

    async def history(self) -> list[Envelope]:
        """Everything kept so far."""
        await self.flush()
        return await self._journal.read(0)

    async def flush(self) -> None:
        """Returns when everything emitted so far is kept and published."""
        while self._tail is not None and not self._tail.done():
            await asyncio.shield(self._tail)

    async def events(self, after: int = 0, *, lull_s: float = 0.0) -> AsyncIterator[Envelope]:
        """Everything kept after number `after`, then what happens, until `close`. Live events come at most every `lull_s`
        seconds, merged as far as they go on from each other."""
        reader = Subscription(lull_s)
        self._readers.append(reader)
        try:
            newest = after
            for envelope in await self._kept(after):
                assert envelope.seq is not None
                newest = envelope.seq
                yield envelope
            await self.flush()  # what the journal holds is published, too
            reader.skip(newest)
            async for envelope in reader:
                if envelope.seq is None or envelope.seq > newest:
                    yield envelope
        finally:
            self._readers.remove(reader)

    async def _kept(self, after: int) -> Sequence[Envelope]:
        if self._recent is None or after < self._opened:
            replay = asyncio.ensure_future(self._journal.read(after))
            self._replays.add(replay)
            replay.add_done_callback(self._replays.discard)
            return await replay
        return [e for e in self._recent if (e.seq or 0) > after]

    async def close(self) -> None:
        """Finish what was emitted and end every reader's stream. Nobody reads from the journal any more when it returns: a
        reader that has just come gets what is kept, however fast the session was over."""
        await self.flush()
        if self._replays:
            await asyncio.wait(self._replays)
        for reader in self._readers:
            reader.close()

    async def _write(
        self, envelopes: list[Envelope], before: asyncio.Future[None] | None, *, durable: bool = False
    ) -> None:
        journal = self._journal
        written = None  # called in order of numbers: it keeps that order
        if not self.failure:
            written = journal.append(envelopes, durable=durable)
        if before is not None:
            await before  # publish in order, too
        if written is not None:
            try:
                await written
            except StoreError as error:
                if self.failure is None:
                    await self._go_on_in_memory(error, envelopes[0])
        if written is None or journal is not self._journal:
            self._journal.append(envelopes)
        if self._recent is not None:
            self._recent = [*self._recent, *envelopes] if len(self._recent) < RECENT else None
        self._publish(envelopes)

    async def _go_on_in_memory(self, error: StoreError, first: Envelope) -> None:
        """From `first` on nothing is kept for good: what came before goes on being shown, and people are told."""
        self.failure = error
        kept: list[Envelope] = []
        try:
            kept = await self._journal.read(0)
        except StoreError:
            pass  # nothing to show from before; the sentence below says what happened
        self._journal = MemoryJournal([e for e in kept if (e.seq or 0) < (first.seq or 0)])
        self._seq += 1
        notice = Notice(f"This session is no longer saved: {error}", "error")
        self._tail = asyncio.ensure_future(self._write([Envelope(self._seq, self._now(), "a", notice)], self._tail))

    def _publish(self, envelopes: Sequence[Envelope]) -> None:
        for reader in self._readers:
            for envelope in envelopes:
                reader.put(envelope)
