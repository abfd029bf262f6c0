"""The reader that all frontends use: what is from before the opening, when it has caught up, and who waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.protocol.events import Envelope, Notice
from friday_cli.view.follower import SessionFollower


class Source:
    """A log with two events from before its opening."""

    since = 2

    def __init__(self) -> None:
        self.log = Log(MemoryJournal([Envelope(n, 0.0, "a", Notice(str(n))) for n in (1, 2)]), last=2)

    def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        return self.log.events(after, lull_s=lull_s, late=late)


async def test_history_comes_first_and_is_marked() -> None:
    source, seen = Source(), list[tuple[int | None, bool]]()
    follower = SessionFollower(source, lambda envelope, replayed: seen.append((envelope.seq, replayed)))
    assert not follower.caught_up.is_set()
    await follower.caught_up.wait()
    assert seen == [(1, True), (2, True)]
    await source.log.emit("a", Notice("3"))
    await follower.until(lambda: len(seen) == 3)
    assert seen[2] == (3, False)
    await source.log.close()
    await follower.finished()
    assert follower.ended
    assert follower.failure is None


async def test_it_continues_after_what_is_known() -> None:
    source, seen = Source(), list[int | None]()
    follower = SessionFollower(source, lambda envelope, replayed: seen.append(envelope.seq), after=2)
    assert follower.caught_up.is_set()
    changed = asyncio.create_task(follower.changed())
    await source.log.emit("a", Notice("3"))
    await changed
    assert seen == [3]
    await follower.cancel()
    assert follower.ended


async def test_who_waits_for_more_returns_at_the_end() -> None:
    source = Source()
    follower = SessionFollower(source, lambda envelope, replayed: None)
    waiting = asyncio.create_task(follower.until(lambda: False))
    await follower.caught_up.wait()
    assert not waiting.done()
    await source.log.close()
    await waiting
    await follower.changed()


async def test_an_error_ends_the_reading_and_is_told() -> None:
    def fold(envelope: Envelope, replayed: bool) -> None:
        raise ValueError(f"event {envelope.seq}")

    told = list[str]()
    follower = SessionFollower(Source(), fold, on_failure=lambda: told.append("failed"))
    await follower.until(lambda: False)
    assert follower.caught_up.is_set()
    assert told == ["failed"]
    assert str(follower.failure) == "event 1"
    with pytest.raises(ValueError, match="event 1"):
        await follower.finished()
