"""Two hundred agents in ten processes with one session file: no lock error, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.events import AgentFinished, Envelope, MessageAdded, Notice
from friday_cli.core.protocol.messages import Usage
from friday_cli.store.records import StoredAgent
from friday_cli.store.store import Store
from friday_cli.view import SessionView
from tests.e2e.friday import Friday

PROCESSES, CHILDREN, CALLS = 10, 20, 3


def scenario() -> str:
    """Each process delegates one batch; each child lists the folder three times and reports its task."""
    tasks = [{"profile": "researcher", "task": f"part {n}"} for n in range(CHILDREN)]
    look = {
        "calls": [{"name": "list_dir", "arguments": {"path": "."}}],
        "delay_s": 0.05,
        "usage": {"input": 10, "output": 5},
    }
    child = [*[look] * CALLS, {"text": "I looked at {task}", "usage": {"input": 10, "output": 5}}]
    root = [{"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}, {"text": "all there"}]
    return json.dumps({"agents": {"a": root, "a.*": child}})


@pytest.mark.timeout(300)
def test_two_hundred_agents_in_ten_processes_on_one_file(friday: Friday) -> None:
    friday.plays(scenario())
    friday.config.write_text("[agents.delegation]\nmax_concurrent = 20\nmax_batch = 20\n", encoding="utf-8")
    started = [friday.start(f"go {n}", "--output-format", "json", "--debug") for n in range(PROCESSES)]
    ends = [process.communicate(timeout=250) for process in started]
    said = "\n".join(err.decode() for _, err in ends)
    assert [process.returncode for process in started] == [0] * PROCESSES, said
    logs = "\n".join(file.read_text() for file in (friday.home / "state" / "logs").iterdir())
    assert "locked" not in said + logs
    assert "no longer saved" not in said + logs
    assert len({json.loads(out)["session_id"] for out, _ in ends}) == PROCESSES
    database = friday.home / "data" / "friday.db"
    with sqlite3.connect(database) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for session, (log, rows) in asyncio.run(_kept(friday)).items():
        assert [e.seq for e in log] == list(range(1, len(log) + 1)), session
        assert not [e for e in log if isinstance(e.event, Notice) and e.event.level == "error"]
        records, state = replay(log), SessionView.of(log)
        paths = ["a", *(f"a.{n}" for n in range(1, CHILDREN + 1))]
        assert sorted(records) == sorted(paths)
        for path, row in rows.items():
            ends_of_it = [e.event for e in log if e.agent == path and isinstance(e.event, AgentFinished)]
            assert [(end.status, end.stop_reason) for end in ends_of_it] == [("completed", "done")], path
            assert row.status == "completed"
            assert counts(row.usage) == counts(records[path].usage) == counts(state.agents[path].usage)
        for number, path in enumerate(paths[1:]):
            messages = [e.event.message for e in log if e.agent == path and isinstance(e.event, MessageAdded)]
            assert len([r for m in messages for r in m.results]) == CALLS
            end = records[path].end
            assert end is not None
            assert end.text == f"I looked at part {number}"
            assert rows[path].usage.billed == (CALLS + 1) * 15


def counts(usage: Usage) -> tuple[int, int, int]:
    return usage.input, usage.cache_read, usage.output


async def _kept(friday: Friday) -> dict[str, tuple[list[Envelope], dict[str, StoredAgent]]]:
    store = Store(friday.home / "data" / "friday.db")
    try:
        found = {}
        for session in await store.list_sessions():
            rows = {row.path: row for row in await store.agents(session.id)}
            found[session.id] = (await store.events(session.id), rows)
        assert len(found) == PROCESSES
        return found
    finally:
        await store.close()
