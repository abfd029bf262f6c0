"""The main screens as text: `python -m tests.frontends.tui.frames` writes docs/frames/ and the pictures of the README.

The session is made of events with fixed times; so every run draws the same, and a difference is one of the screen.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec
from textual.command import CommandList

from friday_cli.frontends.tui.commands import slash_commands
from friday_cli.frontends.tui.fleet_screen import FleetApp
from friday_cli.frontends.tui.widgets.agent_tree import AgentTree
from friday_cli.frontends.tui.widgets.composer import Composer
from friday_cli.frontends.tui.widgets.transcript_messages import OpenAgent
from friday_cli.session.fleet import FleetRow, OpenQuestion
from tests.frontends.tui.chat import Chat
from tests.frontends.tui.daily_frames import daily_frames
from tests.frontends.tui.frame_chat import opened_event_chat
from tests.frontends.tui.frame_events import BEGUN, MODEL, edit, ended, permission, plan, question, session, steps

PROJECT = Path(__file__).parents[3]
FRAMES, PICTURE = PROJECT / "docs" / "frames", PROJECT / "docs" / "chat.svg"
FLEET_PICTURE = PROJECT / "docs" / "agents.svg"
SIZES = ((60, 20), (80, 24), (100, 30), (160, 45))
MADE_BY = "python -m tests.frontends.tui.frames"
_ASKS = OpenQuestion("p3", "a.1", "bash", "rm -r build && make", "mode ask")
_WAITS = FleetRow(
    "7f3a11c0" + "0" * 28, "needs you", "Build it from nothing", "/p/wire", MODEL, "ask", "waiting_user", 2, 41_200, 0.31,
    BEGUN - 900, BEGUN - 40, 4711, True, (_ASKS,), "main",
)  # fmt: skip
_WORKS = msgspec.structs.replace(
    _WAITS, id="b6dd724f" + "0" * 28, state="working", title="Port the tests to the new client", cwd="/p/lanes", questions=()
)  # fmt: skip
FLEET = (
    _WAITS,
    _WORKS,
    msgspec.structs.replace(
        _WORKS, id="d09931ad" + "0" * 28, state="ended", title="Explain the lanes", at_work=0, pid=None, branch=""
    ),
)


async def frames(size: tuple[int, int]) -> dict[str, str]:
    """Every screen at one size, by its name."""
    out: dict[str, str] = {}
    # whatever runs on this machine
    with patch("friday_cli.frontends.tui.widgets.welcome._local_models", return_value=[]):
        async with opened_event_chat(size, key=False) as event_chat:
            out["welcome"] = event_chat.frame()
    async with opened_event_chat(size) as event_chat:
        await event_chat.settle(has="Friday 0.")
        out["start"] = event_chat.frame()
        await event_chat.play(steps())
        out["steps"] = event_chat.frame()
        for name, happenings in (("edit", edit()), ("plan", plan())):
            await event_chat.play(happenings)
            out[name] = event_chat.frame()
            event_chat.chat.state.asks.clear()
    async with opened_event_chat(size) as event_chat:
        app, pilot = event_chat.chat.app, event_chat.chat.pilot
        await event_chat.play(session())
        out["chat"] = event_chat.frame()
        app.action_tree()
        await event_chat.settle()
        out["tree"] = event_chat.frame()
        app.query_one(AgentTree).post_message(OpenAgent("a.1"))
        await event_chat.settle()
        out["child"] = event_chat.frame()
        await pilot.press("escape")
        app.chat.body.panel_wanted = None
        app.query_one(Composer).area.focus()
        await event_chat.play(permission())
        out["permission"] = event_chat.frame()
        app.controller.state.asks.clear()
        await event_chat.play(question())
        out["question"] = event_chat.frame()
        app.controller.state.asks.clear()
        app.query_one(Composer).area.focus()
        await event_chat.play(ended())
        out["change"] = event_chat.frame()
        await pilot.press("ctrl+p")
        commands = len(slash_commands.listed(app.chat.customs()))  # they come one after the other
        await event_chat.chat.until(lambda: app.screen.query_one(CommandList).option_count == commands)
        await event_chat.settle(has="/add-dir")
        out["palette"] = event_chat.frame()
        await pilot.press("escape")
        await app.input.pick_session()
        await event_chat.settle(has="Done; the tests pass.")
        out["sessions"] = event_chat.frame()
        await pilot.press("escape")
        await event_chat.chat.say("/help")
        await event_chat.settle(has="Enter sends")
        out["help"] = event_chat.frame()
    async with opened_fleet(size) as chat:
        out["fleet"] = "\n".join(row.rstrip() for row in chat.frame.split("\n")) + "\n"
    return out | await daily_frames(size)


@asynccontextmanager
async def opened_fleet(size: tuple[int, int]) -> AsyncIterator[Chat]:
    """The list of all sessions."""
    with patch("friday_cli.frontends.tui.fleet_screen.time.time", return_value=BEGUN):
        app = FleetApp(lambda: list(FLEET), None)  # type: ignore[arg-type] - no key is pressed
        async with app.run_test(size=size) as pilot:
            chat = Chat(app, pilot)  # type: ignore[arg-type]
            await chat.until(lambda: "wants bash" in chat.frame)
            await pilot.pause()
            yield chat


async def picture() -> str:
    """The chat at work, as the README shows it."""
    async with opened_event_chat((132, 34)) as event_chat:
        await event_chat.play(session())
        return event_chat.chat.app.export_screenshot(title="friday")


async def fleet_picture() -> str:
    """The list of all sessions, as the README shows it."""
    async with opened_fleet((110, 18)) as chat:
        return chat.app.export_screenshot(title="friday agents")


def main() -> None:
    """Write what is drawn now over what was kept."""
    FRAMES.mkdir(exist_ok=True)
    for size in SIZES:
        for name, frame in asyncio.run(frames(size)).items():
            (FRAMES / f"{name}-{size[0]}x{size[1]}.txt").write_text(frame, encoding="utf-8")
    PICTURE.write_text(asyncio.run(picture()), encoding="utf-8")
    FLEET_PICTURE.write_text(asyncio.run(fleet_picture()), encoding="utf-8")
    print(f"{FRAMES}, {PICTURE}", file=sys.stderr)


if __name__ == "__main__":
    main()
