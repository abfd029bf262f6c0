"""The main screens as text: `python -m tests.frontends.tui.frames` writes docs/frames/ and the pictures of the README.

The session is made of events with fixed times; so every run draws the same, and a difference is one of the screen.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec

from friday_cli.core.protocol.displays import CommandDisplay, DelegationDisplay, DiffDisplay, TableDisplay
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    AttemptFailed,
    Envelope,
    MessageAdded,
    PermissionAsked,
    QuestionAsked,
    StatusChanged,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult, Usage, user
from friday_cli.core.protocol.plan import PLAN_CHOICES
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.fleet_screen import FleetApp
from friday_cli.frontends.tui.widgets.agent_tree import AgentTree
from friday_cli.frontends.tui.widgets.composer import Composer
from friday_cli.frontends.tui.widgets.transcript_messages import OpenAgent
from friday_cli.session.fleet import FleetRow, OpenQuestion
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.frontends.tui.chat import Chat

PROJECT = Path(__file__).parents[3]
FRAMES, PICTURE = PROJECT / "docs" / "frames", PROJECT / "docs" / "chat.svg"
FLEET_PICTURE = PROJECT / "docs" / "agents.svg"
SIZES = ((60, 20), (80, 24), (100, 30), (160, 45))
MADE_BY = "python -m tests.frontends.tui.frames"
BEGUN = 1_800_000_000.0
MODEL = "anthropic/claude-sonnet-5-5"
USAGE = Usage(input=9_200, output=640, cache_read=4_100, cost_usd=0.0271)
REQUEST = Usage(input=620, cache_read=9_200, cost_usd=0.0046, estimated=True)
_ASKS = OpenQuestion("p3", "a.1", "bash", "rm -r build && make", "mode ask")
_WAITS = FleetRow(
    "7f3a11c0" + "0" * 28, "needs you", "Build it from nothing", "/p/wire", MODEL, "ask", "waiting_user", 2, 41_200, 0.31,
    BEGUN - 900, BEGUN - 40, 4711, True, (_ASKS,),
)  # fmt: skip
_WORKS = msgspec.structs.replace(
    _WAITS, id="b6dd724f" + "0" * 28, state="working", title="Port the tests to the new client", cwd="/p/lanes", questions=()
)  # fmt: skip
FLEET = (
    _WAITS,
    _WORKS,
    msgspec.structs.replace(_WORKS, id="d09931ad" + "0" * 28, state="ended", title="Explain the lanes", pid=None),
)
ANSWER = """The **retry** waits for the first failure only: `attempt` is never raised.

1. `wire/http.py` passes `attempt=0` each time,
2. so `backoff(0)` is asked for, and the pause stays at 0.5 s.

```python
for attempt in range(limit):
    await backoff(attempt)
```
"""
DIFF = """@@ -41,5 +41,5 @@
 async def send(request, limit=4):
-    while True:
-        await backoff(0)
+    for attempt in range(limit):
+        await backoff(attempt)
         if reply := await once(request):
             return reply
"""


def call(name: str, number: str, **arguments: object) -> ToolCall:
    return ToolCall(number, name, arguments)


def session() -> list[tuple[float, str, AnyEvent]]:
    """(seconds since the beginning, agent, event): a root that asked two sub-agents, one of which has ended."""
    tasks = {
        "c1": "Find out why it doesn't wait after a second failure",
        "c2": "Read the retry tests and say what they miss",
    }
    first = call("delegate_task", "c1", profile="researcher", task=tasks["c1"])
    second = call("delegate_task", "c2", profile="analyst", task=tasks["c2"])
    grep, read = call("grep", "g1", pattern="backoff"), call("read_file", "r1", path="tests/test_retry.py")
    return [
        (0, "a", AgentStarted(1, "friday", "Why doesn't the retry wait longer each time?", MODEL)),
        (0, "a", MessageAdded(user("Why doesn't the retry wait longer each time? Please fix it."))),
        (1, "a", TurnStarted(1)),
        (3, "a", MessageAdded(Message("assistant", (Text("I'll have two sub-agents look into it."), first, second)))),
        (3, "a", ToolStarted("c1", "delegate_task", tasks["c1"])),
        (3, "a", ToolStarted("c2", "delegate_task", tasks["c2"])),
        (3, "a.1", AgentStarted(1, "researcher", tasks["c1"], MODEL, "a", "c1", tokens=40_000)),
        (3, "a.1", MessageAdded(user(tasks["c1"], source="parent"))),
        (3, "a.2", AgentStarted(1, "analyst", tasks["c2"], MODEL, "a", "c2", tokens=40_000)),
        (3, "a.2", MessageAdded(user(tasks["c2"], source="parent"))),
        (3, "a", StatusChanged("waiting_child", agents=("a.1",))),
        (4, "a.1", StatusChanged("running")),
        (4, "a.1", TurnStarted(1)),
        (5, "a.1", MessageAdded(Message("assistant", (Text("I'll look for the pause."), grep)))),
        (5, "a.1", ToolStarted("g1", "grep", "backoff")),
        (6, "a.1", ToolFinished("g1", "grep", "ok", 0.04)),
        (6, "a.1", MessageAdded(Message("tool", (ToolResult("g1", "wire/http.py:43: await backoff(0)"),), "harness"))),
        (6, "a.1", TurnFinished(1, USAGE, "tool_use", 5_000, 200_000)),
        (6, "a.1", TurnStarted(2)),
        (11, "a.1", MessageAdded(Message("assistant", (Text(ANSWER),)))),
        (11, "a.1", TurnFinished(2, USAGE, "end_turn", 6_000, 200_000)),
        (11, "a.1", AgentFinished(1, "completed", "done", ANSWER, usage=USAGE, tree_usage=USAGE, duration_s=8.0)),
        (12, "a.2", StatusChanged("running")),
        (12, "a.2", TurnStarted(1)),
        (13, "a.2", MessageAdded(Message("assistant", (Text("I'll read the tests first."), read)))),
        (13, "a.2", ToolStarted("r1", "read_file", "tests/test_retry.py")),
        (13, "a.2", ToolFinished("r1", "read_file", "ok", 0.01)),
        (13, "a.2", MessageAdded(Message("tool", (ToolResult("r1", "def test_one_failure(): ..."),), "harness"))),
        (13, "a.2", TurnFinished(1, USAGE, "tool_use", 5_000, 200_000)),
        (13, "a.2", TurnStarted(2, request=REQUEST, output_usd=15e-6)),
        (14, "a.2", TextDelta(2, 1, 0, "The tests know **one** failure; none lets a second request fail, so")),
    ]  # fmt: skip


def permission() -> list[tuple[float, str, AnyEvent]]:
    """The sub-agent that is at work wants to run a command."""
    wish = call("bash", "b1", command="pytest -q tests/test_retry.py", timeout_s=120)
    subject = "pytest -q tests/test_retry.py"
    return [
        (15, "a.2", MessageAdded(Message("assistant", (Text("I'll run them."), wish)))),
        (15, "a.2", StatusChanged("waiting_user")),
        (15, "a.2", PermissionAsked("p1", "b1", "bash", subject, "It runs code of this folder.", "bash(pytest *)")),
    ]


def question() -> list[tuple[float, str, AnyEvent]]:
    """The root asks how to continue."""
    words = "Fix only the retry, or its tests too?"
    return [(15, "a", QuestionAsked("q1", "c9", words, ("The retry", "The retry and its tests")))]


def edit() -> list[tuple[float, str, AnyEvent]]:
    """It wants to change a file."""
    wish = call(
        "edit_file", "e0", path="wire/http.py", edits=[{"old": "while True:", "new": "for attempt in range(limit):"}]
    )
    change = DiffDisplay("wire/http.py", DIFF, 2, 2)
    asked = PermissionAsked(
        "p0", "e0", "edit_file", "wire/http.py", "mode ask", "edit_file(wire/http.py)", None, change, "edits"
    )
    return [(15, "a", MessageAdded(Message("assistant", (Text("I'll fix it."), wish)))), (15, "a", asked)]


def plan() -> list[tuple[float, str, AnyEvent]]:
    """It hands in a plan."""
    words = (
        "# Retry\n\n1. Count the attempts in `wire/http.py`.\n2. Wait twice as long after each.\n3. Test two failures."
    )
    wish = call("ask_user", "u1", plan=words)
    return [
        (15, "a", MessageAdded(Message("assistant", (wish,)))),
        (15, "a", QuestionAsked("q0", "u1", words, PLAN_CHOICES)),
    ]


def steps() -> list[tuple[float, str, AnyEvent]]:
    """It works by a list of steps: requests and a command have failed, the second one behind a pipe."""
    rows = (("done", "Count the attempts"), ("active", "Wait longer after each"), ("pending", "Test two failures"))
    todo = call("todo", "t1", items=[{"text": text, "status": status} for status, text in rows])
    ran = [call("bash", name, command="python -m pytest -q 2>&1 | tail -3") for name in ("b1", "b2")]
    failed = CommandDisplay(
        ran[0].arguments["command"], 1, "E  assert 0.5 == 1.0\nFAILED tests/test_retry.py\n1 failed in 0.42s"
    )
    hidden = msgspec.structs.replace(failed, exit_code=0, exit_of="tail")
    away = "Cannot reach Anthropic at api.anthropic.com: its name cannot be looked up. Check the network."
    return [
        (1, "a", AgentStarted(1, "friday", "Why doesn't the retry wait longer each time?", MODEL)),
        (1, "a", MessageAdded(user("Make the retry wait longer each time."))),
        (1, "a", TurnStarted(1)),
        (1, "a", AttemptFailed(1, "network", away, 2.0)),
        (3, "a", AttemptFailed(2, "network", away, 4.0)),
        (4, "a", MessageAdded(Message("assistant", (Text("I'll do it in three steps."), todo, *ran)))),
        (4, "a", ToolFinished("t1", "todo", "ok", 0.0, TableDisplay(("status", "item"), rows))),
        (5, "a", ToolStarted("b1", "bash", ran[0].arguments["command"])),
        (6, "a", ToolFinished("b1", "bash", "error", 0.6, failed)),
        (6, "a", ToolStarted("b2", "bash", ran[0].arguments["command"])),
        (7, "a", ToolFinished("b2", "bash", "ok", 0.6, hidden)),
        (7, "a", TurnFinished(1, USAGE, "tool_use", 9_000, 200_000)),
        (9, "a", TurnStarted(2, request=REQUEST, output_usd=15e-6)),
    ]


def ended() -> list[tuple[float, str, AnyEvent]]:
    """All is done, with a change of a file."""
    change = {"old": "while True:", "new": "for attempt in range(limit):"}
    edit = call("edit_file", "e1", path="wire/http.py", edits=[change])
    found = DelegationDisplay(("a.1", "a.2"))
    return [
        (16, "a.2", StatusChanged("running")),
        (16, "a.2", MessageAdded(Message("assistant", (Text("No test lets two requests fail."),)))),
        (16, "a.2", TurnFinished(2, USAGE, "end_turn", 6_000, 200_000)),
        (16, "a.2", AgentFinished(1, "completed", "done", "No test lets two requests fail.", usage=USAGE, tree_usage=USAGE)),
        (17, "a", StatusChanged("running")),
        (17, "a", ToolFinished("c1", "delegate_task", "ok", 8.0, found)),
        (17, "a", ToolFinished("c2", "delegate_task", "ok", 13.0, found)),
        (17, "a", MessageAdded(Message("tool", (ToolResult("c1", ANSWER), ToolResult("c2", "No test.")), "harness"))),
        (17, "a", TurnFinished(1, USAGE, "tool_use", 9_000, 200_000)),
        (18, "a", TurnStarted(2)),
        (20, "a", MessageAdded(Message("assistant", (Text("I'll fix it."), edit)))),
        (20, "a", ToolStarted("e1", "edit_file", "wire/http.py")),
        (20, "a", ToolFinished("e1", "edit_file", "ok", 0.02, DiffDisplay("wire/http.py", DIFF, 2, 2))),
        (20, "a", MessageAdded(Message("tool", (ToolResult("e1", "edited"),), "harness"))),
        (22, "a", MessageAdded(Message("assistant", (Text("Each failure now waits twice as long as the one before."),)))),
        (22, "a", TurnFinished(2, USAGE, "end_turn", 9_500, 200_000)),
        (22, "a", AgentFinished(1, "completed", "done", "Each failure now waits longer.", usage=USAGE, tree_usage=USAGE)),
    ]  # fmt: skip


class EventChat:
    """A chat into which events are put by hand, at their own time."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._seq = 1_000
        self._at = 0.0
        chat.app.chat.body.context.now = lambda: BEGUN + self._at

    async def play(self, happenings: list[tuple[float, str, AnyEvent]]) -> None:
        """Fold events and let the screen follow."""
        controller = self.chat.app.controller
        for self._at, path, event in happenings:
            self._seq += 1
            seq = None if isinstance(event, TextDelta) else self._seq
            controller.fold.dirty.update(controller.state.apply(Envelope(seq, BEGUN + self._at, path, event)))
        await self.settle()

    async def settle(self, *, has: str = "") -> None:
        """Let the screen come to rest, with a word on it."""
        self.chat.app.refresher.schedule_refresh()
        await self.chat.until(lambda: not self.chat.app.controller.fold.dirty and has in self.chat.frame)
        seen: list[str] = []
        while seen[-4:] != [self.chat.frame] * 4:
            seen.append(self.chat.frame)
            await self.chat.pilot.pause(0.05)

    def frame(self) -> str:
        """The screen; what differs from run to run has a fixed word of the same length."""
        text = re.sub(r"\b[0-9a-f]{8}  \d\d \w{3} \d\d:\d\d", "7f3a11c0  01 Nov 09:30", self.chat.frame)
        return "\n".join(row.rstrip() for row in text.split("\n")) + "\n"


async def keep_sessions(store: Store, cwd: Path) -> None:
    """Two sessions of earlier days."""
    for day, title in ((2, "Rename the modules of the wire"), (1, "Explain the lanes")):
        made = await store.create_session(cwd, title=title)
        said = (
            AgentStarted(1, "friday", title, MODEL),
            MessageAdded(user(title)),
            MessageAdded(Message("assistant", (Text("Done; the tests pass."),))),
            AgentFinished(1, "completed", "done"),
        )
        envelopes = [Envelope(n, BEGUN - day * 86_400 + n, "a", event) for n, event in enumerate(said, 1)]
        with await store.own(made):
            await store.journal(made).append(envelopes)
    await store.close()


@asynccontextmanager
async def opened_event_chat(size: tuple[int, int], *, key: bool = True) -> AsyncIterator[EventChat]:
    """A chat in an empty folder; without a key it shows the first run."""
    with tempfile.TemporaryDirectory() as home:
        cwd = Path(os.path.realpath(home)) / "retry"  # noqa: ASYNC240
        cwd.mkdir()
        before = dict(os.environ)
        os.environ.update(
            HOME=str(cwd.parent), FRIDAY_HOME=str(cwd.parent / ".friday"), FRIDAY_SANDBOX="none", TZ="UTC"
        )
        env = {k: v for k, v in os.environ.items() if k in ("HOME", "FRIDAY_HOME", "FRIDAY_SANDBOX", "PATH")}
        env |= {"ANTHROPIC_API_KEY": "no-key"} if key else {}
        await keep_sessions(Store(store_path(env)), cwd)
        options = Options(cwd, model=MODEL if key else None, attended=True)
        app = FridayApp(lambda: options, cwd=cwd, env=env)
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                chat = Chat(app, pilot)
                await chat.until(lambda: app.controller.session is not None or "Welcome" in chat.frame)
                if isinstance(app.controller.session, Session):
                    app.controller.session.sandbox = "bubblewrap"  # whatever this machine has
                    app.refresher.schedule_refresh()
                event_chat = EventChat(chat)
                await event_chat.settle()
                yield event_chat
        finally:
            await app.controller.close()
            os.environ.clear()
            os.environ.update(before)


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
    return out


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
