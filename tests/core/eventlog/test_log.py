"""The one stream: written first and published after, replayed and then live, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest

from friday_cli.core.eventlog.log import AT_ONCE, SAVE_AGAIN_S, SOON_S, Log, MemoryJournal
from friday_cli.core.protocol.errors import StoreError, Unwritable
from friday_cli.core.protocol.events import Envelope, Notice, TextDelta, ThinkingDelta, ToolOutput


class Slow(MemoryJournal):
    """Takes a second for each write; from the `breaks`-th event on every write fails."""

    def __init__(self, *, breaks: int = 10**9, readable: bool = True, error: type[StoreError] = StoreError) -> None:
        super().__init__()
        self._error = error("disk full")
        self._breaks, self._readable = breaks, readable
        self._queue: deque[tuple[list[Envelope], asyncio.Future[None]]] = deque()
        self._free_at = 0.0

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._queue.append((list(envelopes), done))
        self._free_at = max(self._free_at, loop.time()) + 1.0
        loop.call_at(self._free_at, self._write)
        return done

    def _write(self) -> None:
        envelopes, done = self._queue.popleft()
        if len(self.envelopes) + len(envelopes) > self._breaks:
            done.set_exception(self._error)
        else:
            self.envelopes.extend(envelopes)
            done.set_result(None)

    async def read(self, after: int) -> list[Envelope]:
        if not self._readable:
            raise StoreError("cannot be read")
        return await super().read(after)


def read(log: Log, seen: list[Envelope], *, after: int = 0, pause: float = 0.0) -> asyncio.Task[None]:
    async def work() -> None:
        async for envelope in log.events(after):
            seen.append(envelope)
            if pause:
                await asyncio.sleep(pause)

    return asyncio.create_task(work())


def note(number: int) -> Notice:
    return Notice(f"n{number}")


def texts(seen: Sequence[Envelope]) -> list[str]:
    return [getattr(e.event, "text", "") for e in seen]


async def test_a_reader_that_still_reads_when_the_log_is_closed_gets_all_of_it() -> None:
    class Closing(MemoryJournal):
        closed = False

        async def read(self, after: int) -> list[Envelope]:
            await asyncio.sleep(5)
            if self.closed:
                raise StoreError("it is closed already")
            return await super().read(after)

    journal, seen = Closing([Envelope(n, 1.0, "a", note(n)) for n in (1, 2)]), []  # type: ignore[var-annotated]
    log = Log(journal, last=2)
    reader = read(log, seen)
    await asyncio.sleep(0)
    await log.emit("a", note(3))
    await log.close()
    journal.closed = True
    await reader
    assert [e.seq for e in seen] == [1, 2, 3]


async def test_nothing_is_shown_before_it_is_kept_and_emit_returns_when_both_are_done() -> None:
    journal, seen = Slow(), []  # type: ignore[var-annotated]
    log = Log(journal)
    reader = read(log, seen)
    await asyncio.sleep(0)
    emitting = asyncio.create_task(log.emit("a", note(1), note(2)))
    await asyncio.sleep(0.9)
    assert (journal.envelopes, seen, emitting.done()) == ([], [], False)
    await asyncio.sleep(0.2)
    assert emitting.done()
    assert [e.seq for e in seen] == [e.seq for e in journal.envelopes] == [1, 2]
    await log.close()
    await reader


async def test_a_late_reader_gets_everything_after_its_number_once_and_then_what_happens() -> None:
    log = Log(Slow())
    for number in range(5):
        await log.emit("a", note(number))
    emitting = asyncio.create_task(log.emit("a", note(5)))
    await asyncio.sleep(0.5)
    seen: list[Envelope] = []
    reader = read(log, seen, after=2)
    await emitting
    await log.emit("a", note(6))
    await log.close()
    await reader
    assert [e.seq for e in seen] == [3, 4, 5, 6, 7]


def deltas(seen: Sequence[Envelope]) -> list[tuple[str, str, int, str]]:
    return [(e.agent, type(e.event).__name__, e.event.offset, e.event.text) for e in seen if e.seq is None]  # type: ignore[union-attr]


async def test_live_text_that_continues_is_merged_while_it_waits_and_not_kept() -> None:
    journal = MemoryJournal()
    log = Log(journal)
    seen: list[Envelope] = []
    reader = read(log, seen, pause=1.0)
    await asyncio.sleep(0)
    await log.emit("a", note(1))
    await asyncio.sleep(0)
    for number, letter in enumerate("hello"):
        log.live("a", TextDelta(1, 1, number, letter))
    log.live("a", ThinkingDelta(1, 1, 0, "hm"))
    log.live("a", TextDelta(1, 2, 0, "again"))
    log.live("a", TextDelta(1, 2, 0, ""))  # the service begins the reply again
    log.live("a", TextDelta(1, 2, 0, "new"))
    log.live("b", TextDelta(1, 2, 5, "other"))
    log.live("b", TextDelta(1, 2, 99, "gap"))
    log.live("b", ToolOutput("c1", 0, "ab"))
    log.live("b", ToolOutput("c1", 2, "cd"))
    log.live("b", ToolOutput("c2", 4, "ef"))
    await log.close()
    await reader
    assert deltas(seen) == [
        ("a", "TextDelta", 0, "hello"), ("a", "ThinkingDelta", 0, "hm"), ("a", "TextDelta", 0, "again"),
        ("a", "TextDelta", 0, ""), ("a", "TextDelta", 0, "new"),
        ("b", "TextDelta", 5, "other"), ("b", "TextDelta", 99, "gap"),
        ("b", "ToolOutput", 0, "abcd"), ("b", "ToolOutput", 4, "ef"),
    ]  # fmt: skip
    assert [e.seq for e in journal.envelopes] == [1]


async def test_a_reader_with_a_lull_gets_what_is_written_merged_and_what_is_kept_at_once() -> None:
    loop = asyncio.get_running_loop()
    log = Log(MemoryJournal())
    seen: list[tuple[float, str]] = []

    async def work() -> None:
        async for envelope in log.events(lull_s=1.0):
            seen.append((loop.time(), getattr(envelope.event, "text", "")))

    reader = asyncio.create_task(work())
    await asyncio.sleep(5)
    for number, letter in enumerate("abcdefgh"):
        log.live("a", TextDelta(1, 1, number, letter))
        await asyncio.sleep(0.3)  # a to h at 5.0, 5.3 ... 7.1
    await log.emit("a", note(1))  # 7.4, in the lull after the letters of 7.0
    await asyncio.sleep(5)
    log.live("a", TextDelta(1, 2, 0, "x"))  # a rest is over: at once
    await asyncio.sleep(0)
    await log.close()
    await reader
    told = [(round(at, 3), text) for at, text in seen]
    assert told == [(5.0, "a"), (6.0, "bcd"), (7.0, "efg"), (7.4, "h"), (7.4, "n1"), (12.4, "x")]


async def test_a_reader_that_leaves_is_forgotten() -> None:
    log = Log(MemoryJournal())
    seen: list[Envelope] = []
    reader = read(log, seen)
    await log.emit("a", note(1))
    reader.cancel()
    await asyncio.wait([reader])
    assert log._readers == []
    await log.emit("a", note(2))
    await log.close()


async def test_flush_returns_when_all_that_was_emitted_is_kept() -> None:
    journal = Slow()
    log = Log(journal)
    tasks = [asyncio.create_task(log.emit("a", note(n))) for n in range(3)]
    await asyncio.sleep(0)
    await log.flush()
    assert len(journal.envelopes) == 3
    assert all(t.done() for t in tasks)
    await Log(MemoryJournal()).flush()


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize("at_once", [1, 6])
async def test_when_the_journal_fails_the_session_continues_and_reports_it_once(at_once: int, readable: bool) -> None:
    journal = Slow(breaks=3, readable=True)
    log = Log(journal)
    early: list[Envelope] = []
    readers = [read(log, early)]
    await asyncio.sleep(0)
    journal._readable = readable
    numbers = iter(range(1, 200))
    for _ in range(78 // at_once):
        await asyncio.gather(*(log.emit("a", note(next(numbers))) for _ in range(at_once)))
    late: list[Envelope] = []
    readers.append(read(log, late))
    await log.emit("a", note(79))
    await log.close()
    await asyncio.wait(readers)
    assert str(log.failure) == "disk full"
    said = [t for t in texts(early) if t.startswith("n")]
    assert said == [f"n{n}" for n in range(1, 80)], "nothing is lost, and the order holds"
    assert [t for t in texts(early) if "no longer saved" in t] == ["This session is no longer saved: disk full"]
    assert [e.seq for e in early] == list(range(1, 81)), "numbers come in order, each once"
    kept = 3 if at_once == 1 else 1  # what waits for the first write is written as one
    assert late == (early if readable else [e for e in early if (e.seq or 0) > kept])
    assert [e.seq for e in journal.envelopes] == [*range(1, kept + 1)], "what was acknowledged is kept"


async def test_a_log_that_is_closed_on_a_full_disk_tries_no_more() -> None:
    """Another process may have the session then."""
    journal = Slow(breaks=3, error=Unwritable)
    log = Log(journal)
    for number in range(1, 7):
        await log.emit("a", note(number))
    await log.close()
    journal._breaks = 10**9
    await asyncio.sleep(3 * SAVE_AGAIN_S)
    assert [e.seq for e in journal.envelopes] == [1, 2, 3]


@pytest.mark.parametrize("tries", [0, 2])
async def test_what_could_not_be_written_is_written_when_it_can_be(tries: int) -> None:
    """Also at the end, where nothing was tried before: each event once and in order, for the journal and for readers."""
    journal, early = Slow(breaks=3, error=Unwritable), list[Envelope]()
    log = Log(journal)
    reader = read(log, early)
    for number in range(1, 7):
        await log.emit("a", note(number))
    assert (len(journal.envelopes), str(log.failure)) == (3, "disk full")
    await asyncio.sleep((tries + 0.5) * SAVE_AGAIN_S)
    journal._breaks = 10**9
    if tries:
        await asyncio.sleep(SAVE_AGAIN_S + 2)
        assert log.failure is None
        await log.emit("a", note(7))
    await log.close()
    await reader
    assert log.failure is None
    assert [e.seq for e in journal.envelopes] == [e.seq for e in early] == list(range(1, len(early) + 1))
    assert [text for text in texts(early) if "session" in text] == [
        "This session is no longer saved: disk full",
        "This session is saved again, with all that was not.",
    ]


async def test_an_event_that_nobody_waits_for_is_stored_with_the_next_or_a_little_later() -> None:
    class Counting(MemoryJournal):
        writes = 0

        def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
            self.writes += 1
            return super().append(envelopes, durable=durable)

    journal = Counting()
    log, seen = Log(journal), []  # type: ignore[var-annotated]
    reader = read(log, seen)
    log.emit_soon("a", note(1))
    assert not journal.envelopes
    await log.emit("a", note(2))
    assert (journal.writes, texts(journal.envelopes)) == (1, ["n1", "n2"])
    log.emit_soon("a", note(3))
    await asyncio.sleep(SOON_S)
    assert texts(journal.envelopes) == ["n1", "n2", "n3"], "it waits no longer"
    log.emit_soon("a", note(4))
    assert [e.seq for e in await log.history()] == [1, 2, 3, 4]
    log.emit_soon("a", note(5))
    await log.close()
    await reader
    assert texts(seen) == ["n1", "n2", "n3", "n4", "n5"]


@pytest.mark.parametrize("new", [True, False])
async def test_a_late_reader_gets_the_earlier_events_with_a_new_one_or_at_the_end(new: bool) -> None:
    earlier = [Envelope(n, 1.0, "a", note(n)) for n in range(1, 2 * AT_ONCE)]
    journal = MemoryJournal(earlier)
    log, seen = Log(journal, last=len(earlier), earlier=earlier), []  # type: ignore[var-annotated]

    async def work() -> None:
        async for envelope in log.events(late=True):
            seen.append(envelope)

    reader = asyncio.create_task(work())
    await asyncio.sleep(1)
    assert not seen
    if new:
        await log.emit("a", note(len(earlier) + 1))
    await log.close()
    await reader
    assert [e.seq for e in seen] == [e.seq for e in journal.envelopes]


async def test_only_the_first_reader_gets_the_earlier_events_from_memory() -> None:
    class Counting(MemoryJournal):
        reads = 0

        async def read(self, after: int) -> list[Envelope]:
            self.reads += 1
            return await super().read(after)

    earlier = [Envelope(n, 1.0, "a", note(n)) for n in (1, 2)]
    journal = Counting(earlier)
    log = Log(journal, last=2, earlier=earlier)
    seen: list[list[Envelope]] = [[], []]
    readers = []
    for number, reads in enumerate((0, 1)):
        readers.append(read(log, seen[number]))
        await asyncio.sleep(1)
        assert (texts(seen[number]), journal.reads) == (["n1", "n2"], reads)
    await log.close()
    await asyncio.wait(readers)
