"""Which session `friday attach` opens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from friday_cli.cli import live_sessions
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import SCHEMA, AgentFinished, AgentStarted, AnyEvent, Envelope, SessionStarted
from friday_cli.frontends.tui import run
from friday_cli.store.store import Store
from friday_cli.system import session_socket
from friday_cli.system.paths import store_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The id, the folder, and the id to join, of each chat that was opened."""
    found = []

    def chat(values: Mapping[str, Any], *, joins: str = "") -> int:
        found.append((values["resume"], values["cwd"], joins))
        return 0

    monkeypatch.setattr(run, "chat", chat)
    return found


async def begun(store: Store, folder: Path, age_s: float) -> str:
    """The id of a session that was used so long ago."""
    name, at = await store.create_session(folder), time.time() - age_s
    events: tuple[AnyEvent, ...] = (
        SessionStarted(SCHEMA, name, str(folder), "0"),
        AgentStarted(1, "friday", "x", "demo"),
        AgentFinished(1, "completed", "done"),
    )
    with await store.own(name):
        await store.journal(name).append([Envelope(seq, at, "a", event) for seq, event in enumerate(events, 1)])
    return name


async def test_without_an_id_the_one_that_runs_and_was_used_last(
    tmp_path: Path, opened: list[tuple[str, str, str]]
) -> None:
    with pytest.raises(UsageError, match="no session yet"):
        live_sessions.attach("")
    async with Store(store_path()) as store:
        empty = await store.create_session(tmp_path)
        older, old, new = [await begun(store, tmp_path, age) for age in (3000, 2000, 1000)]
        folder = str(tmp_path)
        live_sessions.attach("")
        with await store.own(older), session_socket.listen(older):
            live_sessions.attach("")
            with await store.own(old), session_socket.listen(old):
                live_sessions.attach("")
                live_sessions.attach(older)
            live_sessions.attach(new[:30])
            session_socket.remove(older)
        assert opened == [
            (new, folder, ""),
            (older, folder, older),
            (old, folder, old),
            (older, folder, older),
            (new, folder, ""),
        ]
        with pytest.raises(UsageError, match=f"{empty} has not begun"):
            live_sessions.attach(empty)
        with pytest.raises(UsageError, match="There is no session 'abc"):
            live_sessions.attach("abcdef")
