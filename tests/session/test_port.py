"""What a session tells is data: a run is named by its agent and its number, also after a way through JSON."""

from __future__ import annotations

import msgspec
import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished
from friday_cli.session.port import RunName
from tests.session.harness import Harness


async def test_a_run_is_named_by_its_agent_and_number(harness: Harness) -> None:
    harness.scenario.write_text(msgspec.json.encode({"agents": {"a": [{"text": "one"}, {"text": "two"}]}}).decode())
    async with harness.session() as session:
        assert session.start("go") == RunName("a", 1)
        assert session.running() == [RunName("a", 1)]
        assert (await session.result(RunName("a", 1))).text == "one"
        assert session.running() == []
        second = session.start("again")
        crossed = msgspec.json.decode(msgspec.json.encode(second), type=RunName)
        with pytest.raises(UsageError, match="Run 1 of a is not active"):
            await session.result(RunName("a", 1))
        assert session.running() == [RunName("a", 2)]
        assert (await session.result(crossed)).text == "two"
        ends = [e.event for e in await session.history() if isinstance(e.event, AgentFinished)]
        assert [(end.run, end.result) for end in ends] == [(1, "one"), (2, "two")]
