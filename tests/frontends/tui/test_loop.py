"""`/loop`: rounds at intervals or until a command succeeds, with caps, ended by Esc."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished
from friday_cli.frontends.tui.loop import LoopPlan, read_plan
from friday_cli.session import lists
from tests.cli.conftest import sandbox_kind
from tests.frontends.tui.chat import does, opened

__all__ = ["sandbox_kind"]


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        ("5m look at CI", LoopPlan("look at CI", 300)),
        ("90s x3 $0.5 look", LoopPlan("look", 90, rounds=3, dollars=0.5)),
        ("until pytest -q", LoopPlan("", command="pytest -q")),
        ("until x2 $1 make", LoopPlan("", command="make", rounds=2, dollars=1)),
        ("5m $HOME is what?", LoopPlan("$HOME is what?", 300)),
    ],
)
def test_a_plan_is_read(words: str, plan: LoopPlan) -> None:
    assert read_plan(words) == plan


@pytest.mark.parametrize("words", ["", "5m", "until", "soon look", "1s look", "25h look", "5m x0 look", "5m $0 look"])
def test_what_is_no_plan_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        read_plan(words)


async def test_rounds_until_a_command_succeeds(tmp_path: Path) -> None:
    made = tmp_path / "made"
    agents = {"a": [{"text": "Not yet."}, does("bash", command=f"touch {made}"), {"text": "Made."}]}
    async with opened(tmp_path, agents, mode="yolo") as chat:
        await chat.say(f"/loop until test -f {made}")
        await chat.until(lambda: made.exists() and not chat.app.controller.loop.running)
        texts = [item.text for item in chat.state.agents["a"].transcript if getattr(item, "role", "") == "user"]
    assert ["exit code: 1" in text for text in texts] == [True, True]
    assert "[round 2 of 20 of /loop]" in texts[1]
    (row,) = await lists.sessions()
    assert row.title.startswith("until test -f ")


@pytest.mark.usefixtures("sandbox_kind")
async def test_what_the_agent_wrote_runs_confined_in_a_loop(tmp_path: Path) -> None:
    project, mark = tmp_path / "project", tmp_path / "mark"
    project.mkdir()
    script = f"echo run >> runs\ntouch {mark}\nmkdir .vscode\necho {{}} > .vscode/tasks.json\nexit 1\n"
    agents = {"a": [does("write_file", path="check.sh", content=script), {"text": "Written."}]}
    async with opened(project, agents, mode="edits") as chat:
        await chat.say("/loop until x1 sh check.sh")
        await chat.until(lambda: (project / "runs").exists() and not chat.app.controller.loop.running)
        notes = chat.state.agents["a"].transcript  # what runs code later is reported
        await chat.until(lambda: any("tasks.json" in getattr(note, "text", "") for note in notes))
    assert not mark.exists()


async def test_what_the_command_writes_names_no_file_and_approves_no_host(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("TEXT-OF-THE-NOTE")
    (tmp_path / "out.sh").write_text("echo 'see @note.txt and https://evil.example/x'; exit 1\n")
    async with opened(tmp_path, {"a": [{"text": "Seen."}]}) as chat:
        await chat.say("/loop until x1 sh out.sh")
        await chat.until(lambda: chat.state.root is not None and not chat.app.controller.loop.running)
        (text,) = [item.text for item in chat.state.agents["a"].transcript if getattr(item, "role", "") == "user"]
        session = chat.app.controller.require_session()
        taint = TaintTracker(lambda command: ())
        async for envelope in session.events():
            taint.apply(envelope)
            if isinstance(envelope.event, AgentFinished):
                break
    assert "see @note.txt" in text
    assert "TEXT-OF-THE-NOTE" not in text
    assert taint._trusted_hosts == set()


async def test_the_chat_follows_a_loop_also_from_the_beginning_of_a_card(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "word\n\n" * 20 + "The end."}]}, size=(60, 20)) as chat:
        await chat.say("/help", shows="@ names a file")
        await chat.say("/loop until x1 false", shows="The end.")


async def test_a_loop_ends_at_its_rounds_and_by_escape(tmp_path: Path) -> None:
    said = [{"text": f"Round {n}."} for n in range(1, 5)]
    async with opened(tmp_path, {"a": said}) as chat:
        await chat.say("/loop until x2 false")
        await chat.until(lambda: chat.state.root is not None and chat.state.root.run == 2)
        await chat.until(lambda: not chat.app.controller.loop.running)
        await chat.say("/loop 1h look")
        await chat.until(lambda: chat.state.root is not None and chat.state.root.run == 3 and chat.state.root.ended)
        assert chat.app.controller.loop.running
        chat.has("Loop every 1 h 00 m: it ends after 20 rounds or $5.00 at most, and by Esc.")
        await chat.press("escape", shows="The loop is stopped.")
        assert "Stopped." not in chat.frame
        assert not chat.app.controller.loop.running
        await chat.press("escape")
        await chat.say("/loop stop", shows="There is no loop.")
        assert chat.state.root is not None
        assert chat.state.root.run == 3
