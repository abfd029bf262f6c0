"""The list of all sessions, read from the session file."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentFinished, Envelope, PermissionAsked
from friday_cli.session import commands as c
from friday_cli.session import fleet
from friday_cli.session.attachments import PromptText
from friday_cli.system import session_socket
from friday_cli.system.paths import eval_dir, store_path
from friday_cli.view.follower import SessionFollower
from tests.session.harness import Harness, delegates, does


async def test_an_old_question_and_the_mode_are_not_lost_behind_many_newer_events(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A background agent waits while the main agent asks and is answered again and again."""
    monkeypatch.setattr(fleet, "NEWEST", 6)
    calls = [("bash", {"command": f"touch made{number}"}) for number in range(4)]
    harness.plays(
        {
            "a": [delegates("general", background=True), does(*calls), {"text": "end"}],
            "a.1": [does(("bash", {"command": "touch slow"})), {"text": "thanks"}],
        }
    )
    asked: dict[str, list[str]] = {"a": [], "a.1": []}

    ended: list[str] = []

    def on_event(envelope: Envelope, replayed: bool) -> None:
        if isinstance(envelope.event, PermissionAsked):
            asked[envelope.agent].append(envelope.event.id)
        elif isinstance(envelope.event, AgentFinished):
            ended.append(envelope.agent)

    async with asyncio.timeout(60), harness.session(attended=True, mode="edits") as session:
        follower = SessionFollower(session, on_event)
        await session.do(c.Say(PromptText("go")))
        for number in range(len(calls)):
            await follower.until(lambda number=number: len(asked["a"]) > number)
            await session.do(c.AnswerQuestion(asked["a"][number], ApprovalAnswer("allow")))
        await follower.until(lambda: "a" in ended and bool(asked["a.1"]))
        (row,) = await asyncio.to_thread(fleet.fleet, store_path())
        assert (row.state, row.mode) == ("needs you", "edits")
        assert [(q.id, q.agent, q.text) for q in row.questions] == [(asked["a.1"][0], "a.1", "touch slow")]
        await follower.cancel()


async def test_rows_are_read_again_only_after_a_change(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def read() -> list[fleet.FleetRow]:
        reads.append(1)
        return fleet.fleet(store_path())

    monkeypatch.setattr(fleet, "OLDEST_S", 3600.0)
    await harness.ran()
    rows = fleet.WatchedFleet(store_path(), read)
    assert (len(rows()), len(rows()), len(reads)) == (1, 1, 1)
    async with harness.session() as session:
        await session.prompt("go")
        assert [row.state for row in rows()] == ["idle", "ended"]
        before = len(reads)
        session_socket.listen(session.id).close()
        assert ([row.reachable for row in rows()], len(reads)) == ([True, False], before + 1)
        assert (len(rows()), len(reads)) == (2, before + 1)
        session_socket.remove(session.id)
    assert [row.state for row in rows()] == ["ended", "ended"]
    monkeypatch.setattr(fleet, "OLDEST_S", 0.0)
    before = len(reads)
    assert (len(rows()), len(reads)) == (2, before + 1)


async def test_the_trials_of_an_eval_are_no_sessions_of_the_list(harness: Harness) -> None:
    """`friday eval status` lists them; one eval has dozens."""
    harness.plays({"a": [{"text": "well"}]})
    own = await harness.ran()
    harness.project = eval_dir() / "runs" / "trial"
    harness.project.mkdir(parents=True)
    trial = await harness.ran()
    assert trial.id != own.id
    assert [row.id for row in await asyncio.to_thread(fleet.fleet, store_path())] == [own.id]


@pytest.mark.parametrize(("module", "more"), [("agents", "asyncio"), ("live_sessions", "typer")])
def test_the_list_loads_no_event_loop_and_no_events_and_the_screen_no_typer(module: str, more: str) -> None:
    """They would take longer than everything else that it does."""
    words = f"import sys, friday_cli.cli.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout.split()
    assert not {more, "asyncio", "friday_cli.core.protocol.events", "textual"} & set(loaded)
