"""A session that a person stopped does not start again because of a waiting message."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, TextDelta
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session


@pytest.mark.parametrize("level", ["abort", "cancel"])
async def test_a_message_that_waits_does_not_revive_a_session_that_was_stopped(tmp_path: Path, level: str) -> None:
    project, file = tmp_path / "project", tmp_path / "scene.json"
    project.mkdir()
    file.write_text(json.dumps({"agents": {"a": [{"text": "word by word by word", "chunk_delay_s": 0.2}]}}))
    session = await Session.open(Options(project, model=f"scripted:{file}"))
    seen: list[Envelope] = []
    begun = asyncio.Event()

    async def read() -> None:
        async for envelope in session.events():
            seen.append(envelope)
            if isinstance(envelope.event, TextDelta):
                begun.set()

    reading = asyncio.create_task(read())
    answering = asyncio.create_task(session.prompt("go"))
    await begun.wait()
    await session.send("a", "one more thing")
    await session.stop("a", level=level)  # type: ignore[arg-type]
    await answering
    await session.close()
    await reading
    runs = [e.event for e in seen if isinstance(e.event, (AgentStarted, AgentFinished))]
    assert len(runs) == 2, f"{len(runs) // 2} runs after one prompt and one stop"


async def test_a_run_that_begins_when_the_stopped_one_has_ended_is_not_stopped(tmp_path: Path) -> None:
    project, file = tmp_path / "project", tmp_path / "scene.json"
    project.mkdir()
    replies = [{"text": "word by word by word", "chunk_delay_s": 0.2}, {"text": "second"}]
    file.write_text(json.dumps({"agents": {"a": replies}}))
    session = await Session.open(Options(project, model=f"scripted:{file}"))
    begun = asyncio.Event()

    async def follow() -> RunResult:
        """The result of a run that begins as soon as it can, as the chat sends what waits in its queue."""
        async for envelope in session.events():
            if isinstance(envelope.event, TextDelta):
                begun.set()
            elif isinstance(envelope.event, AgentFinished):
                break
        while True:
            try:
                return await session.prompt("next")
            except UsageError:  # the first run is about to end
                await asyncio.sleep(0)

    following = asyncio.create_task(follow())
    first = asyncio.create_task(session.prompt("go"))
    await begun.wait()
    assert await session.stop("a") == 1
    await first
    assert (await following).text == "second"
    await session.close()
