"""Opening a session tidies up, beside the session."""

from __future__ import annotations

import asyncio
import os
import time

import msgspec

from friday_cli.paths import state_dir, store_path
from friday_cli.store.store import Store
from tests.scenarios import tree
from tests.session.harness import Stage, says

DAY = 86_400.0


async def test_a_session_that_opens_removes_those_beyond_the_limits(stage: Stage) -> None:
    async with Store(store_path()) as store:
        for days_ago in (20, 5):
            session, at = await store.create_session(stage.project), time.time() - days_ago * DAY
            await store.journal(session).append([msgspec.structs.replace(e, at=at) for e in tree(session)])
        stage.plays({"a": [says("hello")]})
        async with stage.session():
            pass
        assert len(await store.list_sessions()) == 2, "the first day is none"
        os.utime(state_dir() / "tidied", (yesterday := time.time() - 90_000, yesterday))
        async with stage.session(flags={"retention.days": 10}) as open_one:
            async with asyncio.timeout(60):
                while len(rows := await store.list_sessions()) == 2:  # noqa: ASYNC110 - a thread does it
                    await asyncio.sleep(0.02)
            assert [row.id for row in rows] == [session]
            assert (await open_one.prompt("go")).text == "hello"
