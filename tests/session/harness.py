"""Real sessions with the scripted model: a home, a project, profiles, and what each agent was told and got."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.events import Envelope, MessageAdded
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import config_dir, store_path


class Harness:
    """Opens sessions in the folder `project`; `play` is what the agents say, by path."""

    def __init__(self, project: Path, play: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.project = project
        self.scenario = project.parent / "play.json.yaml"  # JSON is YAML
        self.plays(play)

    def plays(self, play: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Say something else from the next session on."""
        self.scenario.write_text(json.dumps({"agents": play}), encoding="utf-8")

    def profile(self, name: str, *front: str) -> None:
        """A profile of the user's own; `front` are more lines of its front matter."""
        lines = ["---", f"name: {name}", f"description: The {name}.", *front, "---", f"You are the {name}."]
        folder = config_dir() / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[Session]:
        """An open session for the time of the block."""
        options = {"model": f"scripted:{self.scenario}", "allow": ("memory_save",)} | options
        session = await Session.open(Options(self.project, **options))
        try:
            yield session
        finally:
            await session.close()

    @asynccontextmanager
    async def after_run(self, **options: Any) -> AsyncIterator[Session]:
        """As `session`, with one prompt that has been answered."""
        async with self.session(**options) as session:
            await session.prompt("go")
            yield session

    async def ran(self, **options: Any) -> Session:
        """A closed session, which answered one prompt."""
        async with self.after_run(**options) as session:
            return session

    async def log(self, session: str) -> list[Envelope]:
        """All that is kept of a session."""
        async with Store(store_path()) as store:
            return await store.events(session)

    async def results(self, session: str, path: str) -> list[tuple[str, str]]:
        """The results of an agent's calls, in order: (status, text)."""
        messages = [
            e.event.message for e in await self.log(session) if e.agent == path and isinstance(e.event, MessageAdded)
        ]
        return [(r.status, r.text) for m in messages for r in m.results]


def does(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> dict[str, Any]:
    """A turn with calls."""
    return {"text": text, "calls": [{"name": name, "arguments": dict(given)} for name, given in calls]}


def wait_for(path: Path | str) -> str:
    """Words for bash that wait until a file is there, and fail after 20 seconds."""
    return f"until test -e {path} || test $SECONDS -ge 20; do sleep 0.01; done; test -e {path}"


def delegates(profile: str, task: str = "look", **more: Any) -> dict[str, Any]:
    return does(("delegate_task", {"profile": profile, "task": task, **more}))


def says(text: str) -> dict[str, Any]:
    return {"text": text}
