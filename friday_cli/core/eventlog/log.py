"""The event log of a session. Events are written first and published afterwards."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from ..protocol.errors import StoreError, Unwritable
from ..protocol.events import LIVE, AnyEvent, Envelope, Notice, Prefix, TextDelta, ThinkingDelta, ToolOutput
from ..text.known_keys import known_keys, mask_keys_in


class Journal(Protocol):
    """Storage of durable events."""

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        """Store `envelopes`, in order. Done when they survive the death of the process; with `durable`, when they and all
        earlier ones survive a power failure. Fails with StoreError."""

    def append_again(self, envelopes: Sequence[Envelope]) -> asyncio.Future[None]:
        """As a durable `append` after one that failed, of all that is not stored since then."""

    async def read(self, after: int) -> list[Envelope]:
        """All envelopes with a number above `after`, in order."""


class MemoryJournal:
    """Stores events in memory: for a session that can no longer be saved, and for tests."""

    def __init__(self, envelopes: Sequence[Envelope] = ()) -> None:
        self.envelopes = list(envelopes)

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.envelopes.extend(envelopes)
        done.set_result(None)
        return done

    def append_again(self, envelopes: Sequence[Envelope]) -> asyncio.Future[None]:
        return self.append(envelopes, durable=True)

    async def read(self, after: int) -> list[Envelope]:
        return [e for e in self.envelopes if e.seq is not None and e.seq > after]


RECENT = 64
"""First events of a process that readers get from memory, so that the first reader does not wait for the disk."""
AT_ONCE = 250
"""Events that a reader gets before other tasks of the event loop run."""
SOON_S = 0.005
"""Seconds that events wait for others, to be stored with them in one transaction."""
SAVE_AGAIN_S = 10.0
"""Seconds between two tries to save what is in memory only, as on a disk that was full."""
MERGED = 16_000
"""Characters from which on nothing is merged into a live event, because merging takes longer the longer it is."""


class Subscription:
    """The queue of one reader. Durable events are never lost. Live events of one agent that continue each other are merged
    while they wait, also when events of other agents are between them. Live events wait until `lull_s` seconds after
    the last delivery; a durable event ends the wait."""

    def __init__(self, lull_s: float = 0.0) -> None:
        self._queue: deque[list[Envelope]] = deque()
        self._newest: dict[str, list[Envelope]] = {}
        self._ready = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set by events that must not wait."""
        self._lull_s = lull_s
        self._closed = False

    def put(self, envelope: Envelope) -> None:
        """Add an event, or merge it into the waiting live event of its agent."""
        waiting = self._newest.get(envelope.agent)
        if waiting is not None and (merged := _merge(waiting[0], envelope)):
            waiting[0] = merged
        else:
            waiting = self._newest[envelope.agent] = [envelope]
            self._queue.append(waiting)
        self._ready.set()
        if envelope.seq is not None:
            self._urgent.set()

    async def wait(self) -> None:
        """Wait for an event or the end of the stream."""
        await self._ready.wait()

    def skip(self, newest: int) -> None:
        """Remove events up to number `newest`, which a replay has delivered, and earlier live events of their agents."""
        shown: set[str] = set()
        kept: list[list[Envelope]] = []
        for waiting in reversed(self._queue):
            envelope = waiting[0]
            if envelope.seq is not None and envelope.seq <= newest:
                shown.add(envelope.agent)
            elif envelope.seq is not None or envelope.agent not in shown:
                kept.append(waiting)
        self._queue = deque(reversed(kept))
        self._newest = {waiting[0].agent: waiting for waiting in self._queue}

    def close(self) -> None:
        """End the stream after the events that wait."""
        self._closed = True
        self._ready.set()
        self._urgent.set()

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        while True:
            while self._queue:
                waiting = self._queue.popleft()
                if self._newest.get(waiting[0].agent) is waiting:
                    del self._newest[waiting[0].agent]
                yield waiting[0]
            if self._closed:
                return
            self._ready.clear()
            self._urgent.clear()
            clock = asyncio.get_running_loop().time
            deadline = clock() + self._lull_s
            await self._ready.wait()
            if (left := deadline - clock()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), left)


def _merge(old: Envelope, new: Envelope) -> Envelope | None:
    """Both events as one, when `new` continues the text of `old`; else None. An empty text begins a reply again."""
    a, b = old.event, new.event
    if old.agent != new.agent or type(a) is not type(b) or not isinstance(b, (TextDelta, ThinkingDelta, ToolOutput)):
        return None
    assert isinstance(a, (TextDelta, ThinkingDelta, ToolOutput))
    if isinstance(b, ToolOutput):
        same = isinstance(a, ToolOutput) and a.call_id == b.call_id
    else:
        same = not isinstance(a, ToolOutput) and (a.turn, a.attempt) == (b.turn, b.attempt)
    if not same or not a.text or a.offset + len(a.text) != b.offset or len(a.text) > MERGED:
        return None
    return msgspec.structs.replace(old, event=msgspec.structs.replace(a, text=a.text + b.text))


class _Emitted(msgspec.Struct, eq=False):
    """Events that were emitted together. `done` is what their sender waits for."""

    envelopes: list[Envelope]
    done: asyncio.Future[None] | None
    durable: bool

    def end(self, error: BaseException | None) -> None:
        if self.done is None or self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Log:
    """Numbers, stores and publishes the events of one session. When the journal fails, the session continues in memory
    and reports that once. Earlier events are safe. Where the journal could not be written, it is tried again later."""

    def __init__(
        self,
        journal: Journal,
        *,
        last: int = 0,
        earlier: Sequence[Envelope] | None = None,
        now: Callable[[], float] = time.time,
        watch: Callable[[Envelope], None] = lambda envelope: None,
    ) -> None:
        self._journal: Journal = journal
        self._seq = last
        self._earlier = earlier
        """All events up to `last`, for the first reader; None when they must be read."""
        self.now = now
        """The time, in Unix seconds. All that a session says of the time or date comes from it."""
        self._readers: list[Subscription] = []
        self._replays: set[asyncio.Future[list[Envelope]]] = set()
        """Running reads of the journal for readers."""
        self._waiting: list[_Emitted] = []
        """What was emitted since the running write began: the next one stores it, in one transaction."""
        self._writes = False
        self._timer: asyncio.TimerHandle | None = None
        """Begins a write for `emit_soon`."""
        self._idle = asyncio.Event()
        """All is stored and published."""
        self._idle.set()
        self._continuing: asyncio.Task[None] | None = None
        self._opened = last
        self._recent: list[Envelope] | None = []
        """The first `RECENT` events of this process; None when there are more."""
        self.failure: StoreError | None = None
        """Why nothing is stored now."""
        self._unwritten: tuple[Journal, list[Envelope]] | None = None
        """The journal that failed and may be written again, with what it does not have."""
        self._again: asyncio.TimerHandle | None = None
        self._tries_again = False
        self._prefix: tuple[Prefix, tuple[str, ...], Prefix] | None = None
        """The newest prefix, the keys that were known then, and the prefix without them."""
        self._watch = watch
        """Called with every durable event before it is written."""

    @property
    def last(self) -> int:
        """The number of the newest event, written or about to be."""
        return self._seq

    async def emit(self, agent: str, *events: AnyEvent, durable: bool = False) -> None:
        """Store `events` and then publish them, exactly once, even when the caller is cancelled. Keys that this process
        knows are masked. With `durable` a power failure after the return loses no event up to here."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add(agent, events, done, durable=durable)
        self._write()
        await done

    def emit_soon(self, agent: str, *events: AnyEvent) -> None:
        """`emit` without waiting, for what nothing outside of the process depends on: `events` are stored together with
        those that follow, at the latest after `SOON_S`."""
        self._add(agent, events, None)
        if self._timer is None and not self._writes:
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self._write)

    def _add(
        self, agent: str, events: Sequence[AnyEvent], done: asyncio.Future[None] | None, *, durable: bool = False
    ) -> None:
        envelopes = []
        for event in events:
            self._seq += 1
            envelopes.append(Envelope(self._seq, self.now(), agent, self._masked(event)))
            self._watch(envelopes[-1])
        self._waiting.append(_Emitted(envelopes, done, durable))
        self._idle.clear()

    def _masked(self, event: AnyEvent) -> AnyEvent:
        """`event` without known keys. A prefix is long, and most sub-agents have equal ones."""
        if not isinstance(event, Prefix):
            return mask_keys_in(event)
        if self._prefix is None or self._prefix[0] != event or self._prefix[1] is not known_keys():
            self._prefix = event, known_keys(), mask_keys_in(event)
        return self._prefix[2]

    def live(self, agent: str, event: AnyEvent) -> None:
        """Publish an event without storing it."""
        assert isinstance(event, LIVE)
        self._publish((Envelope(None, self.now(), agent, mask_keys_in(event)),))

    async def history(self) -> list[Envelope]:
        """All stored events."""
        await self.flush()
        return await self._journal.read(0)

    async def flush(self) -> None:
        """Wait until all emitted events are stored and published."""
        self._write()
        await self._idle.wait()

    async def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        """All stored events after number `after`, then new ones, until `close`. Live events are delivered at most every
        `lull_s` seconds, merged when they continue each other. `late`: earlier events come only together with a new one, so that
        a long history does not delay the first request."""
        reader = Subscription(lull_s)
        self._readers.append(reader)
        try:
            newest, count = after, 0
            if late:
                await reader.wait()
            for envelope in await self._kept(after):
                assert envelope.seq is not None
                newest, count = envelope.seq, count + 1
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)
                yield envelope
            await self.flush()  # all that the journal has is published then
            reader.skip(newest)
            async for envelope in reader:
                count += 1
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)
                if envelope.seq is None or envelope.seq > newest:
                    yield envelope
        finally:
            self._readers.remove(reader)

    async def _kept(self, after: int) -> Sequence[Envelope]:
        earlier, self._earlier = self._earlier, None
        if self._recent is None or (after < self._opened and earlier is None):
            replay = asyncio.ensure_future(self._journal.read(after))
            self._replays.add(replay)
            replay.add_done_callback(self._replays.discard)
            return await replay
        return [e for e in (*(earlier or ()), *self._recent) if (e.seq or 0) > after]

    async def close(self) -> None:
        """Store what was emitted and end the streams of all readers. Returns after all reads of the journal, so that a
        reader that came just before gets all events too."""
        await self.flush()
        self._try_again()
        await self.flush()
        if self._again is not None:
            self._again.cancel()
        if self._replays:
            await asyncio.wait(self._replays)
        for reader in self._readers:
            reader.close()

    def _write(self) -> None:
        """Store what waits, unless a write runs. The journal gets events in the order of their numbers."""
        if self._writes:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not (self._waiting or self._tries_again):
            self._idle.set()
            return
        group, self._waiting = self._waiting, []
        self._writes = True
        envelopes = [envelope for emitted in group for envelope in emitted.envelopes]
        if self._unwritten is not None:
            self._unwritten[1].extend(envelopes)
            if self._tries_again:
                self._continuing = asyncio.ensure_future(self._save_again(*self._unwritten, group, envelopes))
                return
        written = self._journal.append(envelopes, durable=any(emitted.durable for emitted in group))
        written.add_done_callback(lambda written: self._written(written.exception(), group, envelopes))

    def _written(self, error: BaseException | None, group: list[_Emitted], envelopes: list[Envelope]) -> None:
        """A write ended: publish its events, and begin the next one."""
        if isinstance(error, StoreError) and self.failure is None:
            self.failure = error
            self._continuing = asyncio.ensure_future(self._continue_in_memory(error, group))
            return
        if error is None:
            if self._recent is not None:
                self._recent = [*self._recent, *envelopes] if len(self._recent) < RECENT else None
                self._earlier = self._earlier if self._recent is not None else None
            self._publish(envelopes)
        for emitted in group:
            emitted.end(error)
        self._writes = False
        self._write()

    async def _continue_in_memory(self, error: StoreError, group: list[_Emitted]) -> None:
        """Keep the events of `group` and all later ones in memory only, with a copy of the earlier ones, and report it."""
        kept: list[Envelope] = []
        try:
            kept = await self._journal.read(0)
        except StoreError:
            pass  # the notice below reports the error
        first = next((e.seq or 0 for emitted in group for e in emitted.envelopes), self._seq + 1)
        if isinstance(error, Unwritable):
            self._unwritten = self._journal, []
            self._plan_try()
        self._journal = MemoryJournal([e for e in kept if (e.seq or 0) < first])
        self._add("a", [Notice(f"This session is no longer saved: {error}", "error")], None)
        self._waiting = [*group, *self._waiting]
        self._writes = False
        self._write()

    def _plan_try(self) -> None:
        if self._again is not None:
            self._again.cancel()  # of a try that came before its time, at the end
        self._again = asyncio.get_running_loop().call_later(SAVE_AGAIN_S, self._try_again)

    def _try_again(self) -> None:
        if self._unwritten is not None:
            self._tries_again = True
            self._idle.clear()
            self._write()

    async def _save_again(
        self, journal: Journal, unwritten: list[Envelope], group: list[_Emitted], envelopes: list[Envelope]
    ) -> None:
        """Store what is in memory only, the events of `group` included; if that fails, plan the next try."""
        self._tries_again = False
        try:
            await journal.append_again(unwritten)
        except StoreError:
            await self._journal.append(envelopes)
            self._plan_try()
        else:
            self._journal, self._unwritten, self.failure = journal, None, None
            self._add("a", [Notice("This session is saved again, with all that was not.")], None)
        self._written(None, group, envelopes)

    def _publish(self, envelopes: Sequence[Envelope]) -> None:
        for reader in self._readers:
            for envelope in envelopes:
                reader.put(envelope)
