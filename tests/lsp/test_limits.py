"""How many servers run in all sessions, what they may take, and that none is left, whatever ends it. The server is a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from friday_cli.core.protocol.code_check import LanguageServerRow
from friday_cli.session.commands import ListLanguageServers
from friday_cli.session.session import Session
from friday_cli.system.paths import config_dir
from tests.lsp import scale
from tests.lsp.test_changes import TRUSTED
from tests.lsp.test_commands import entry, write
from tests.session.conftest import harness as harness
from tests.session.harness import Harness, does, says
from tests.session.test_rewind import runs

BREAKS = [does(runs("echo BAD new >> new.bad")), says("done")]


async def row(session: Session, wanted: Callable[[LanguageServerRow], object]) -> LanguageServerRow:
    """The session's only server, once it is as `wanted`."""
    async with asyncio.timeout(60):
        while True:
            (found,) = await session.do(ListLanguageServers())
            if wanted(found):
                return found
            await asyncio.sleep(0.05)


async def test_all_sessions_together_run_a_few_and_say_so(harness: Harness) -> None:
    """One that ends makes room for another."""
    write(config_dir(), "lsp.json", {"script": entry("none")})
    harness.plays({"a": BREAKS + BREAKS})
    flags = TRUSTED["flags"] | {"lsp.max_servers": 2}
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(harness.after_run(**TRUSTED | {"flags": flags})) for _ in range(4)
        ]
        told = [(await harness.results(session.id, "a"))[-1][1] for session in (first, *others)]
        assert ["1 new problem" in text for text in told] == [True, True, False, False]
        assert (
            "script: it is not known whether there are new problems: your other sessions run 2 language servers"
            in told[3]
        )
        assert [(await row(one, bool)).state for one in (first, *others)] == [
            "runs",
            "runs",
            "not started",
            "not started",
        ]
        await first.close()
        await others[-1].prompt("go")
        assert "1 new problem" in (await harness.results(others[-1].id, "a"))[-1][1]


async def test_a_server_that_takes_too_much_memory_is_ended_and_then_off(harness: Harness) -> None:
    write(config_dir(), "lsp.json", {"script": entry("hoards")})
    harness.plays({"a": BREAKS})
    flags = TRUSTED["flags"] | {"lsp.max_mb": 60, "lsp.idle_s": 1}
    async with harness.after_run(**TRUSTED | {"flags": flags}) as session:
        assert (await row(session, lambda one: one.mb or one.error)).mb in (0, *range(80, 200))
        ended = await row(session, lambda one: one.error)
        assert ended.state == "not started"
        assert ended.error.startswith("it took ")
        assert ended.error.endswith(" MB of memory (lsp.max_mb: 60)")


async def test_an_unused_server_ends_and_starts_again(harness: Harness) -> None:
    write(config_dir(), "lsp.json", {"script": entry("none")})
    harness.plays({"a": BREAKS + BREAKS})
    async with harness.after_run(**TRUSTED | {"flags": TRUSTED["flags"] | {"lsp.idle_s": 1}}) as session:
        ended = await row(session, lambda one: one.state == "not started")
        assert ended.error == ""
        await session.prompt("go")
        assert "1 new problem" in (await harness.results(session.id, "a"))[-1][1]


async def test_servers_that_are_killed_at_random_moments_leave_nothing(harness: Harness) -> None:
    """The large form: `python -m tests.lsp.scale kills 200`."""
    done = await scale.kills(harness, 2, seed=3)
    assert done.left == 0
    assert done.without_answer == []


async def test_sessions_beside_each_other_keep_the_limit(harness: Harness) -> None:
    """The large form: `python -m tests.lsp.scale sessions 50`."""
    done = await scale.together(harness, 9)
    assert (done.left, done.most <= 6) == (0, True)
    assert all(map(scale.ANSWER.search, done.results)), done.results
