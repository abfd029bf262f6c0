"""A real session on a virtual clock: `Session.open` with its agent factory, profiles, settings and files, and a store in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from friday_cli.core.eventlog.log import MemoryJournal
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.events import AgentFinished, Envelope, Event, MessageAdded, PermissionAsked, QuestionAsked
from friday_cli.core.protocol.provider import Chunk, Request
from friday_cli.session import open
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.crash_recovery import recovery_events
from friday_cli.store.records import MemoryItem
from tests.engine_fixture import Model, Play, Say

E = TypeVar("E", bound=Event)

SCENARIO = "agents: {}\n"
MODEL = "stage"


class Actors(Model):
    """A `Model` that calls itself what the scenario file of the harness is called, so that a reopened session knows it again.

    `hold(agent, count)` keeps that request (from 0) waiting until the event that it returns is set.
    """

    name = "scripted"
    badge = "scripted"

    def __init__(self, play: Play | Mapping[str, Sequence[Say]], **more: Any) -> None:
        super().__init__(play, model=more.pop("model", MODEL), **more)
        self._held: dict[tuple[str, int], asyncio.Event] = {}

    def hold(self, agent: str, count: int = 0) -> asyncio.Event:
        return self._held.setdefault((agent, count), asyncio.Event())

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        held = self._held.get((request.agent, self._asked.get(request.agent, 0)))
        if held is not None:
            await held.wait()
        async for chunk in super().stream(request):
            yield chunk


class UncappedLedger:
    """The ledger of a store without caps."""

    def caps_of(self, service: str, key: str) -> frozenset[str]:
        return frozenset()

    def paid_by(self, agent: str, service: str, key: str) -> None: ...

    async def close(self) -> None: ...


class MemoryStore:
    """What the store is to a session, kept in memory: one shelf per file, and what stands there outlives its readers."""

    shelves: ClassVar[dict[str, dict[str, CrashableJournal]]] = {}
    runs: ClassVar[list[PastRun]] = []
    """What every session knows of earlier delegations."""
    in_memory = False

    def __init__(self, path: Path, *, in_memory: bool = False) -> None:
        self._drawers = self.shelves.setdefault(str(path), {})
        self.notes = ShelfNotes()
        self.spending = self
        self.died_at = 0.0

    async def open(self) -> None: ...

    async def create_session(self, cwd: object, *, name: str) -> str:
        return name

    async def reconcile(self) -> None:
        """End what a process that died left open."""
        for drawer in self._drawers.values():
            drawer.envelopes.extend(recovery_events(drawer.envelopes, now=time.time()))

    async def own(self, session: str) -> MemoryStore:
        self._drawers.setdefault(session, CrashableJournal()).dead = False
        return self

    def release(self) -> None: ...

    def keep_alive(self) -> None: ...

    async def events(self, session: str, *, after: int = 0) -> list[Envelope]:
        return [envelope for envelope in self._drawers[session].envelopes if (envelope.seq or 0) > after]

    def journal(self, session: str, ledger: object) -> CrashableJournal:
        return self._drawers[session]

    def ledger(self, session: str, *settings: object) -> UncappedLedger:
        return UncappedLedger()

    async def past_runs(self, profile: str, model: str) -> list[PastRun]:
        return self.runs

    async def sync(self) -> None: ...

    async def close(self) -> None: ...


class ShelfNotes:
    """The notes of a store in memory: none are kept."""

    def for_session(self, project: str, session: str, **_: object) -> Notes:
        return Notes()


class CrashableJournal(MemoryJournal):
    """The journal of one session. `dead` keeps nothing more, as after kill -9."""

    dead = False

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        return super().append(() if self.dead else envelopes)


class Notes:
    """A memory that takes a note and forgets it."""

    async def save(self, text: str, *, scope: str, tags: Sequence[str], agent: str) -> MemoryItem:
        return MemoryItem("1", text, scope, tuple(tags), agent, 0.0)

    async def load(self, query: str, **_: object) -> list[MemoryItem]:
        return []


class ScriptedSession:
    """An open session with its model and its journal."""

    def __init__(self, session: Session, model: Actors) -> None:
        self.session, self.model = session, model
        self.root, self.tree = session._main.agent, session._tree

    @property
    def journal(self) -> CrashableJournal:
        journal = self.session._log._journal
        assert isinstance(journal, CrashableJournal)
        return journal

    @property
    def envelopes(self) -> list[Envelope]:
        return self.journal.envelopes

    def of(self, event: type[E], path: str | None = None) -> list[E]:
        """Events of a kind, of one agent or of all."""
        return [e.event for e in self.envelopes if isinstance(e.event, event) and path in (None, e.agent)]

    def record(self, path: str) -> AgentRecord:
        """What the log knows of an agent."""
        return replay(self.envelopes)[path]

    def results(self, path: str = "a") -> list[str]:
        """The results an agent's calls have had, as "status: text"."""
        return [f"{r.status}: {r.text}" for m in self.of(MessageAdded, path) for r in m.message.results]

    def heard(self, path: str = "a") -> list[str]:
        """The user messages of an agent, as "source: text"."""
        messages = [m.message for m in self.of(MessageAdded, path)]
        return [f"{m.source}: {m.text}" for m in messages if m.role == "user"]

    def finished(self, path: str = "a") -> AgentFinished:
        """The newest end of an agent."""
        return self.of(AgentFinished, path)[-1]

    def end(self, path: str) -> tuple[str, str]:
        end = self.finished(path)
        return end.status, end.stop_reason

    def requests(self, path: str = "a") -> list[Request]:
        return [r for r in self.model.requests if r.agent == path]

    def agents(self) -> list[str]:
        """Every sub-agent there has been."""
        return [known.path for known in self.tree.below("a")]

    def asked(self) -> list[PermissionAsked | QuestionAsked]:
        """Everything that was put to a person."""
        return [e.event for e in self.envelopes if isinstance(e.event, (PermissionAsked, QuestionAsked))]

    def crash(self) -> None:
        """From now on nothing is kept: what stands in the journal is what kill -9 would leave."""
        self.journal.dead = True


class Harness:
    """A home and a project, and sessions in them."""

    def __init__(self, path: Path) -> None:
        """Without the fixture `harness` its sessions are kept on disk."""
        self.home, self.project = path / "home", path / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.scenario = self.home / f"{MODEL}.yaml"
        self.scenario.write_text(SCENARIO, encoding="utf-8")
        home = str(self.home)
        self.env = {"FRIDAY_HOME": home, "PATH": "/usr/bin:/bin", "HOME": home, "FRIDAY_SANDBOX": "none"}
        self.ids: list[str] = []

    def config(self, text: str) -> None:
        (self.home / "config.toml").write_text(text, encoding="utf-8")

    def profile(self, name: str, *front: str, body: str = "") -> None:
        """A profile of the user's own; `front` are more lines of its front matter."""
        lines = ["---", f"name: {name}", f"description: The {name}.", *front, "---", body or f"You are the {name}."]
        folder = self.home / "profiles"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def file(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    @asynccontextmanager
    async def open(
        self, play: Play | Mapping[str, Sequence[Say]] | Actors, **options: Any
    ) -> AsyncIterator[ScriptedSession]:
        """A session whose model is `play`; `options` are those of `Options`. It is closed at the end."""
        given = {"model": f"scripted:{self.scenario}", "mode": "yolo", **options}
        session = await Session.open(Options(self.project, **given), env=self.env)
        self.ids.append(session.id)
        model = play if isinstance(play, Actors) else Actors(play)
        session._main.agent.conversation.provider = model
        try:
            yield ScriptedSession(session, model)
        finally:
            await session.close()

    async def ran(
        self, play: Play | Mapping[str, Sequence[Say]] | Actors, prompt: str = "go", **options: Any
    ) -> ScriptedSession:
        """A session that has answered one prompt and is closed."""
        async with self.open(play, **options) as scene:
            await scene.session.prompt(prompt)
        return scene


async def until(condition: Callable[[], object], *, most_s: float = 10_000.0) -> None:
    """Let the virtual time run until `condition` holds; it is checked after a millisecond and then less and less often."""
    pause = 0.001
    async with asyncio.timeout(most_s):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(0.5, pause * 1.1)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr(open, "Store", MemoryStore)
    return Harness(tmp_path)
