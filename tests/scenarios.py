"""Logs to test with: a small hand-made tree, and random legal ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from friday_cli.core.protocol.agent_path import parent_of
from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.events import (
    SCHEMA,
    AgentFinished,
    AgentStarted,
    AnyEvent,
    AskWithdrawn,
    AttemptFailed,
    CallDelta,
    Compacted,
    Denied,
    Detached,
    Envelope,
    HandedBack,
    InboxMessage,
    IntentStated,
    MessageAdded,
    ModeChanged,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    Prefix,
    QuestionAnswered,
    QuestionAsked,
    SessionStarted,
    StatusChanged,
    TakenOver,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolSpec,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Verdict,
)
from friday_cli.core.protocol.handover import PersonPart
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage, user
from friday_cli.core.protocol.receipt import CommandRun, FileChange, ToolFacts

SPEC = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def numbered(*events: tuple[str, AnyEvent], at: float = 1_000.0, first: int = 1) -> list[Envelope]:
    """Events with their agents as envelopes, one second apart."""
    return [Envelope(first + i, at + i, agent, event) for i, (agent, event) in enumerate(events)]


def said(text: str, *calls: ToolCall) -> MessageAdded:
    return MessageAdded(Message("assistant", (*((Text(text),) if text else ()), *calls)))


def results(*found: ToolResult) -> MessageAdded:
    return MessageAdded(Message("tool", found, "harness"))


def completed(text: str, usage: Usage, duration_s: float) -> AgentFinished:
    return AgentFinished(1, "completed", "done", text, usage=usage, duration_s=duration_s)


def tree(session: str = "s") -> list[Envelope]:
    """A root that delegates to a researcher that reads a file, gets its result and answers."""
    return numbered(
        ("a", SessionStarted(SCHEMA, session, "/work", "1.0")),
        ("a", AgentStarted(1, "general", "Count the lines\nof main.py", "acme/small", tokens=9000)),
        ("a", Prefix("acme/small", "You are Friday.", (SPEC,))),
        ("a", MessageAdded(user("Count the lines\nof main.py"))),
        ("a", TurnStarted(1)),
        ("a", said("I ask a researcher.", ToolCall("c1", "delegate_task", {"task": "read main.py"}))),
        ("a", ToolStarted("c1", "delegate_task", "researcher")),
        ("a.1", AgentStarted(1, "researcher", "read main.py", "acme/tiny", "a", "c1")),
        ("a", StatusChanged("waiting_child", agents=("a.1",))),
        ("a.1", MessageAdded(user("read main.py", source="parent"))),
        ("a.1", TurnStarted(1)),
        ("a.1", said("", ToolCall("c1", "read_file", {"path": "main.py"}))),
        ("a.1", ToolStarted("c1", "read_file", "main.py")),
        ("a.1", ToolFinished("c1", "read_file", "ok", 0.25, facts=ToolFacts(read=("main.py",)))),
        ("a.1", results(ToolResult("c1", "1\tprint()\n2\tprint()"))),
        ("a.1", TurnFinished(1, Usage(input=100, output=20, cost_usd=0.5), "tool_use", 120)),
        ("a.1", TurnStarted(2)),
        ("a.1", said("It has 2 lines.")),
        ("a.1", TurnFinished(2, Usage(input=30, cache_read=100, output=10, cost_usd=0.25), "end_turn", 140)),
        ("a.1", completed("It has 2 lines.", Usage(130, 100, 0, 30, cost_usd=0.75), 6.5)),
        ("a", StatusChanged("running")),
        ("a", ToolFinished("c1", "delegate_task", "ok", 12.0)),
        ("a", results(ToolResult("c1", "It has 2 lines."))),
        ("a", TurnFinished(1, Usage(input=500, output=40, cost_usd=1.0), "tool_use", 540)),
        ("a", TurnStarted(2)),
        ("a", said("main.py has 2 lines.")),
        ("a", TurnFinished(2, Usage(input=60, output=8, cost_usd=0.25), "end_turn", 600)),
        ("a", completed("main.py has 2 lines.", Usage(560, 0, 0, 48, cost_usd=1.25), 9.0)),
    )


# ---- random logs ------------------------------------------------------------------------------------------------


@dataclass
class _Actor:
    """The state of one agent of a random log."""

    path: str
    run: int = 0
    turn: int = 0
    attempt: int = 1
    phase: str = "ended"
    offset: int = 0
    thought: int = 0
    calls: dict[str, str] = field(default_factory=dict)
    asks: dict[str, str] = field(default_factory=dict)
    shown: int = 0
    children: int = 0


class _Play:
    """Makes random events that the engine could have written, live ones too."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.seq = 0
        self.at = 1_000.0
        self.made: list[Envelope] = []
        self.actors: dict[str, _Actor] = {}
        self.ids = 0
        self.emit("a", SessionStarted(SCHEMA, "s", "/work", "1.0"))
        self.start("a", "")

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def words(self) -> str:
        return self.draw(st.text("ab \n\x1bé", max_size=6))

    def usage(self) -> Usage:
        number = self.draw(st.integers(0, 9))
        return Usage(number, number, 0, number, cost_usd=None if number == 9 else number / 8)

    def emit(self, path: str, event: AnyEvent) -> None:
        self.seq += 1
        self.at += self.draw(st.sampled_from((0.0, 0.5, 2.0)))
        self.made.append(Envelope(self.seq, self.at, path, event))

    def live(self, path: str, event: AnyEvent) -> None:
        self.made.append(Envelope(None, self.at, path, event))

    def start(self, path: str, call_id: str) -> None:
        actor = self.actors.setdefault(path, _Actor(path))
        actor.run, actor.turn, actor.phase = actor.run + 1, 0, "between"
        self.emit(path, AgentStarted(actor.run, "p" + path, self.words(), "m", parent_of(path), call_id))

    def finish(self, actor: _Actor) -> None:
        for other in self.actors.values():
            if other.phase != "ended" and parent_of(other.path) == actor.path:
                self.finish(other)
        for ask in list(actor.asks):
            self.emit(actor.path, AskWithdrawn(ask))
        actor.asks.clear()
        actor.calls.clear()
        actor.phase = "ended"
        status, reason = self.draw(
            st.sampled_from((("completed", "done"), ("failed", "loop"), ("cancelled", "parent")))
        )
        self.emit(actor.path, AgentFinished(actor.run, status, reason, self.words(), duration_s=1.5))

    def step(self) -> None:
        actor = self.actors[self.draw(st.sampled_from(sorted(self.actors)))]
        if actor.phase == "ended":
            if actor.path == "a":
                self.start("a", "")
            return
        if self.draw(st.integers(0, 19)) == 0:
            self.finish(actor)
            return
        getattr(self, actor.phase)(actor)

    def between(self, actor: _Actor) -> None:
        simple: dict[str, Callable[[], Sequence[AnyEvent]]] = {
            "user": lambda: [MessageAdded(user(self.words()))],
            "inbox": lambda: [InboxMessage(self.words())],
            "notice": lambda: [Notice(self.words(), "warning")],
            "status": lambda: [StatusChanged(self.draw(st.sampled_from(("running", "waiting_rate", "queued"))))],
            "compact": lambda: [Compacted((user("so far"),), 90, 10, self.usage())],
            "review": lambda: [
                IntentStated(self.words(), self.usage()),
                Verdict("redo", "model", self.words(), usage=self.usage()),
            ],
            "detach": lambda: [Detached()],
            "take": lambda: [TakenOver(3.0), HandedBack(PersonPart(3.0, 9.0, (self.words(),)))],
            "mode": lambda: [ModeChanged("plan")],
        }
        if (kind := self.pick("turn", "turn", "turn", *simple)) == "turn":
            actor.turn, actor.attempt, actor.offset, actor.thought = actor.turn + 1, 1, 0, 0
            actor.phase = "asking"
            self.emit(actor.path, TurnStarted(actor.turn))
        else:
            for event in simple[kind]():
                self.emit(actor.path, event)

    def asking(self, actor: _Actor) -> None:
        match self.pick("text", "text", "thinking", "call", "fail", "done", "done"):
            case "text":
                text = self.words()
                self.live(actor.path, TextDelta(actor.turn, actor.attempt, actor.offset, text))
                actor.offset += len(text)
            case "thinking":
                text = self.words()
                self.live(actor.path, ThinkingDelta(actor.turn, actor.attempt, actor.thought, text))
                actor.thought += len(text)
            case "call":
                self.live(actor.path, CallDelta(actor.turn, actor.attempt, 0, "bash", 7))
            case "fail":
                self.emit(actor.path, AttemptFailed(actor.attempt, "rate", "slow down", 1.0, self.usage(), "x"))
                actor.attempt, actor.offset, actor.thought = actor.attempt + 1, 0, 0
            case "done":
                self.answer(actor)

    def answer(self, actor: _Actor) -> None:
        calls = []
        for _ in range(self.draw(st.integers(0, 2))):
            self.ids += 1
            calls.append(ToolCall(f"c{self.ids}", "bash", {"command": self.words()}))
        parts = (Thinking(self.words()), Text(self.words()), *calls)
        self.emit(actor.path, MessageAdded(Message("assistant", parts)))
        actor.calls = {call.id: "pending" for call in calls}
        actor.phase = "calling" if calls else "between"
        if not calls:
            self.emit(actor.path, TurnFinished(actor.turn, self.usage(), "end_turn", 5))

    def calling(self, actor: _Actor) -> None:
        unsettled = [call for call, state in actor.calls.items() if state not in ("ok", "denied")]
        if not unsettled:
            found = (ToolResult(call, self.words(), "ok" if s == "ok" else "denied") for call, s in actor.calls.items())
            self.emit(actor.path, results(*found))
            self.emit(actor.path, TurnFinished(actor.turn, self.usage(), "tool_use", 6))
            actor.calls, actor.phase = {}, "between"
            return
        call = self.draw(st.sampled_from(unsettled))
        getattr(self, actor.calls[call])(actor, call)

    def pending(self, actor: _Actor, call: str) -> None:
        match self.pick("start", "start", "deny", "ask"):
            case "start":
                actor.calls[call], actor.shown = "running", 0
                self.emit(actor.path, ToolStarted(call, "bash", self.words()))
            case "deny":
                actor.calls[call] = "denied"
                self.emit(actor.path, Denied(call, "bash", "rm", "no"))
                self.emit(actor.path, ToolFinished(call, "bash", "denied"))
            case "ask":
                self.ids += 1
                actor.calls[call], actor.asks[f"q{self.ids}"] = "asked", call
                self.emit(actor.path, PermissionAsked(f"q{self.ids}", call, "bash", "rm"))

    def asked(self, actor: _Actor, call: str) -> None:
        ask = next(a for a, c in actor.asks.items() if c == call)
        del actor.asks[ask]
        match self.pick("allow", "deny", "withdraw"):
            case "allow":
                actor.calls[call] = "pending"
                self.emit(actor.path, PermissionAnswered(ask, "allow"))
            case "deny":
                actor.calls[call] = "denied"
                self.emit(actor.path, PermissionAnswered(ask, "deny", reason="not now"))
                self.emit(actor.path, ToolFinished(call, "bash", "denied"))
            case "withdraw":
                actor.calls[call] = "pending"
                self.emit(actor.path, AskWithdrawn(ask, "gone"))

    def running(self, actor: _Actor, call: str) -> None:
        match self.pick("output", "output", "child", "question", "end", "end"):
            case "output":
                self.live(actor.path, ToolOutput(call, actor.shown, "out"))
                actor.shown += 3
            case "child" if actor.path.count(".") < 3:
                actor.children += 1
                self.start(f"{actor.path}.{actor.children}", call)
            case "question":
                self.ids += 1
                self.emit(actor.path, QuestionAsked(f"q{self.ids}", call, "which?", ("x", "y")))
                self.emit(actor.path, QuestionAnswered(f"q{self.ids}", "x"))
            case _:
                actor.calls[call] = "ok"
                facts = ToolFacts((FileChange("f", 1, 2, "h"),), (CommandRun("ls", 0),), ("http://x",))
                self.emit(actor.path, ToolFinished(call, "bash", "ok", 0.5, CommandDisplay("ls", 0, "out"), facts))


@st.composite
def logs(draw: st.DrawFn, *, ended: bool = True, most: int = 80) -> list[Envelope]:
    """The events of a random session, live ones among them; with `ended` every agent has ended."""
    play = _Play(draw)
    for _ in range(draw(st.integers(0, most))):
        play.step()
    if ended and play.actors["a"].phase != "ended":
        play.finish(play.actors["a"])
    return play.made
