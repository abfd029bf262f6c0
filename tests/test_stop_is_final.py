"""A session that a person stopped does not start again because of a waiting message."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, TextDelta
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
