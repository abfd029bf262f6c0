"""The session of the screens that docs/frames/ keeps: events with fixed times, so that every run draws the same."""

from __future__ import annotations

import msgspec

from friday_cli.core.protocol.displays import CommandDisplay, DelegationDisplay, DiffDisplay, TableDisplay
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    AttemptFailed,
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

BEGUN = 1_800_000_000.0
MODEL = "anthropic/claude-sonnet-5-5"
USAGE = Usage(input=9_200, output=640, cache_read=4_100, cost_usd=0.0271)
REQUEST = Usage(input=620, cache_read=9_200, cost_usd=0.0046, estimated=True)
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
        (6, "a.1", TurnFinished(1, USAGE, "tool_use", 5_000, 1_000_000)),
        (6, "a.1", TurnStarted(2)),
        (11, "a.1", MessageAdded(Message("assistant", (Text(ANSWER),)))),
        (11, "a.1", TurnFinished(2, USAGE, "end_turn", 6_000, 1_000_000)),
        (11, "a.1", AgentFinished(1, "completed", "done", ANSWER, usage=USAGE, tree_usage=USAGE, duration_s=8.0)),
        (12, "a.2", StatusChanged("running")),
        (12, "a.2", TurnStarted(1)),
        (13, "a.2", MessageAdded(Message("assistant", (Text("I'll read the tests first."), read)))),
        (13, "a.2", ToolStarted("r1", "read_file", "tests/test_retry.py")),
        (13, "a.2", ToolFinished("r1", "read_file", "ok", 0.01)),
        (13, "a.2", MessageAdded(Message("tool", (ToolResult("r1", "def test_one_failure(): ..."),), "harness"))),
        (13, "a.2", TurnFinished(1, USAGE, "tool_use", 5_000, 1_000_000)),
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
        (7, "a", TurnFinished(1, USAGE, "tool_use", 9_000, 1_000_000)),
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
        (16, "a.2", TurnFinished(2, USAGE, "end_turn", 6_000, 1_000_000)),
        (16, "a.2", AgentFinished(1, "completed", "done", "No test lets two requests fail.", usage=USAGE, tree_usage=USAGE)),
        (17, "a", StatusChanged("running")),
        (17, "a", ToolFinished("c1", "delegate_task", "ok", 8.0, found)),
        (17, "a", ToolFinished("c2", "delegate_task", "ok", 13.0, found)),
        (17, "a", MessageAdded(Message("tool", (ToolResult("c1", ANSWER), ToolResult("c2", "No test.")), "harness"))),
        (17, "a", TurnFinished(1, USAGE, "tool_use", 9_000, 1_000_000)),
        (18, "a", TurnStarted(2)),
        (20, "a", MessageAdded(Message("assistant", (Text("I'll fix it."), edit)))),
        (20, "a", ToolStarted("e1", "edit_file", "wire/http.py")),
        (20, "a", ToolFinished("e1", "edit_file", "ok", 0.02, DiffDisplay("wire/http.py", DIFF, 2, 2))),
        (20, "a", MessageAdded(Message("tool", (ToolResult("e1", "edited"),), "harness"))),
        (22, "a", MessageAdded(Message("assistant", (Text("Each failure now waits twice as long as the one before."),)))),
        (22, "a", TurnFinished(2, USAGE, "end_turn", 9_500, 1_000_000)),
        (22, "a", AgentFinished(1, "completed", "done", "Each failure now waits longer.", usage=USAGE, tree_usage=USAGE)),
    ]  # fmt: skip
