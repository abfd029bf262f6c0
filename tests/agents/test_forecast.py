"""What a delegation used is the forecast of the next one, in the log, for hooks, in the question and in `sessions stats`."""

from __future__ import annotations

import asyncio

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentStarted, PermissionAsked
from friday_cli.store.store import Store
from friday_cli.system.paths import config_dir, store_path
from tests.agents.hooks.hook_files import Recorder, own_hooks
from tests.session.harness import Harness, delegates, says


async def test_what_a_delegation_used_is_the_forecast_of_the_next(harness: Harness) -> None:
    recorder = Recorder(harness.project.parent / "recorded")
    harness.plays({"a": [delegates("researcher"), says("done")], "a.1": [says("x" * 400)]})
    first = await harness.ran()
    own_hooks(recorder.hooks("PreToolUse"))
    (config_dir() / "config.toml").write_text("[agents.delegation]\nask_above = 0\n", encoding="utf-8")
    async with harness.session(attended=True) as session:
        running = asyncio.ensure_future(session.prompt("go"))
        async for envelope in session.events():
            if isinstance(envelope.event, PermissionAsked):
                await session.answer(envelope.event.id, ApprovalAnswer("allow"))
                break
        await running
    found = {}
    for name in (first.id, session.id):
        events = [e.event for e in await harness.log(name)]
        (found[name],) = (e.forecast for e in events if isinstance(e, AgentStarted) and e.parent)
        assert [e.forecast for e in events if isinstance(e, AgentStarted) and not e.parent] == [None]
    unknown, known = found[first.id], found[session.id]
    assert unknown.usual() == "usual cost unknown (no runs yet)"
    assert (known.runs, known.others) == (1, 0)
    assert known.usual().endswith(" last time")
    assert known.line() in envelope.event.reason
    (given,) = (one["friday"]["estimate"]["usual"] for one in recorder.inputs())
    assert (given[0]["runs"], given[0]["suggested_tokens"]) == (1, known.suggested_tokens)
    async with Store(store_path()) as store:
        (row,) = (row for row in await store.stats() if row.profile == "researcher")
    assert row.forecast is not None
    assert row.forecast.runs == 2
