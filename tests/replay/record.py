"""Records the scenes: `python -m tests.replay.record [NAME ...]` writes tests/replay/cassettes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.session.open_context import Options
from friday_cli.session.replay.cassette import Cassettes
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.replay.scenes import SCENES, Scene, set_up

FOLDER = Path(__file__).with_name("cassettes")


async def record(scene: Scene, project: Path) -> list[Envelope]:
    """Play a scene with the real engine; its events. A process that dies is cut off after the event that the scene names."""
    scenario = project.parent / "play.json.yaml"  # JSON is YAML
    scenario.write_text(json.dumps({"name": "play", "agents": scene.play, **scene.more}), encoding="utf-8")
    options: dict[str, Any] = {"model": f"scripted:{scenario}", **scene.options}
    name = await _process(scene, project, options, scene.prompts[:1] if scene.cut else scene.prompts, None)
    if scene.cut:
        name = await _cut(name, scene.cut, project)
        name = await _process(scene, project, options, scene.prompts[1:], name)
    async with Store(store_path()) as store:
        return await store.events(name)


async def _process(scene: Scene, project: Path, options: dict[str, Any], prompts: Any, resume: str | None) -> str:
    session = await Session.open(Options(project, resume=resume, **options))
    watching = asyncio.create_task(_watch(scene, session))
    try:
        for prompt in prompts:
            await session.prompt(prompt)
    finally:
        await session.close()
        await watching
    return session.id


async def _watch(scene: Scene, session: Session) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    async for envelope in session.events(session.since):
        if envelope.seq is None:
            continue
        kind = events.kind(envelope.event)
        counts[envelope.agent, kind] += 1
        for rule in scene.rules:
            if isinstance(envelope.event, rule.kind) and (rule.agent, rule.count) == (
                envelope.agent,
                counts[envelope.agent, kind],
            ):
                with suppress(UsageError):
                    await rule.act(session, envelope.event)


async def _cut(name: str, last: tuple[type, str], project: Path) -> str:
    """A session with the events of `name` up to the first of this type after the first reply, as if its process had died there."""
    async with Store(store_path()) as store:
        whole = await store.events(name)
        replied = next(n for n, e in enumerate(whole) if isinstance(e.event, events.TurnFinished))
        at = next(n for n, e in enumerate(whole) if n > replied and isinstance(e.event, last[0]) and e.agent == last[1])
        first = whole[0].event
        assert isinstance(first, events.SessionStarted)
        made = await store.create_session(project)
        import msgspec

        begun = msgspec.structs.replace(whole[0], event=msgspec.structs.replace(first, session=made))
        with await store.own(made):
            await store.journal(made).append([begun, *whole[1 : at + 1]])
        await store.reconcile()
    return made


def missing(scene: Scene, envelopes: list[Envelope]) -> list[str]:
    """What a recording does not have although its scene is there for it."""
    counts = Counter(events.kind(e.event) for e in envelopes)
    return [f"{kind}: {counts[kind]}, not {least}" for kind, least in scene.least.items() if counts[kind] < least]


def main(names: list[str]) -> None:
    os.environ["FRIDAY_SANDBOX"] = "none"
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        del os.environ[variable]
    for scene in SCENES:
        if names and scene.name not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            os.environ["FRIDAY_HOME"] = str(Path(place, "home"))
            project = Path(os.path.realpath(place), "project")
            set_up(project, scene)
            envelopes = asyncio.run(record(scene, project))
            print(scene.name, len(envelopes), *missing(scene, envelopes), flush=True)
            Cassettes(FOLDER).write(scene.name, envelopes)
            shutil.rmtree(project)
    Cassettes(FOLDER).remove_unused()


if __name__ == "__main__":
    main(sys.argv[1:])
