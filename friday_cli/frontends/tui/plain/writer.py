"""Prints what is new in a session as lines: the reply as it is written, tool calls, sub-agents, the end of a turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import takewhile

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.format import price, seconds, tokens
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.protocol.waiting import StatusChanged
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.tool_catalog import TODO
from friday_cli.view import AgentView, Item, NoteItem, ResultItem, SessionView, ToolRun, not_started
from friday_cli.view.tree import status_text
from friday_cli.view.words import call_status

from ..commands.cards import STEP_MARKS


class PlainWriter:
    """The lines of one session; `say` prints lines. `idle`: the main agent has ended."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.idle = True
        self._say = say
        self._taken = 0
        self._shown: list[Item] = []
        self._said = ""
        """The part of the current reply that was printed."""
        self._agents: dict[str, tuple[int, bool]] = {}
        self._open_calls: list[ToolRun] = []
        self._ended_run: int | None = None
        """The run of the main agent whose end is known; None before the first call of `follow`, which sees old runs."""
        self._waiting: dict[str, StatusChanged] = {}
        """What was said that agents wait for, by path."""
        self._notices = 0
        """How many notices of all agents were printed; those of the main agent are in its transcript."""

    def follow(self, state: SessionView) -> None:
        """Print what is new."""
        root = state.root
        if root is not None:
            self._root(state, root)
        self._children(state, until=math.inf)
        if root is not None:
            self._writing(root.reply.text.text if root.reply is not None and not root.ended else "")
        for agent in state.agents.values():
            if agent.waits_for_cap and self._waiting.get(agent.path) is not agent.waiting:
                self._waiting[agent.path] = agent.waiting
                self._say(f"Note: {agent.path} {status_text(state, agent)}. /budget raises it.")
        for path, note in state.notices[self._notices :]:
            if path != "a":
                self._item(note)
        self._notices = len(state.notices)
        self.idle = root is None or root.ended
        ended_run = root.run if root is not None and root.ended else 0
        if root is not None and ended_run and self._ended_run not in (None, ended_run):
            usage = state.usage_of("a")
            self._say(f"Done: {status_text(state, root)}, {tokens(usage)} tokens, {price(root.model, usage)}.")
        self._ended_run = ended_run or self._ended_run or 0

    def _root(self, state: SessionView, root: AgentView) -> None:
        if root.transcript is not self._shown:  # rewound: the common part was printed
            both = zip(root.transcript, self._shown, strict=False)
            self._taken = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], both))
            self._shown = root.transcript
        for item in root.transcript[self._taken :]:
            begun = item.started if isinstance(item, ToolRun) else item.at
            self._children(state, until=begun or 0.0)
            self._item(item)
        self._taken = len(root.transcript)
        self._calls()

    def _item(self, item: Item) -> None:
        if isinstance(item, NoteItem):
            self._say(f"{item.level.capitalize() if item.level != 'info' else 'Note'}: {item.text}")
        elif isinstance(item, ToolRun):
            self._open_calls.append(item)
        elif isinstance(item, ResultItem):
            self._warn("a", item.receipt)
        elif item.role == "assistant":
            self._calls()
            self._writing(item.text, whole=True)
            self._said = ""
        elif item.source != "person":
            self._say(f"Note to the agent: {sanitize_line(item.text, 500)}")

    def _writing(self, text: str, *, whole: bool = False) -> None:
        """Print the complete lines of a reply; a retry is printed from its beginning."""
        text = sanitize(text).strip("\n")
        if not text.startswith(self._said):
            self._say("The reply is restarted:")
            self._said = ""
        end = len(text) if whole else text.rfind("\n") + 1
        if end > len(self._said):
            piece = text[len(self._said) : end]
            self._say(piece.removesuffix("\n"))
            self._said = text[:end]

    def _calls(self) -> None:
        """Print how tool calls ended; sub-agents have other lines."""
        left = []
        for call in self._open_calls:
            if call.status in ("pending", "running", "waiting"):
                left.append(call)
            elif call.agents:
                for text in not_started(call):
                    self._say(f"Warning: {sanitize_line(text, 500)}")
            else:
                failed = f": {sanitize_line(call.text, 300)}" if call.status in ("error", "denied") else ""
                name = f"{sanitize_line(call.label, 60)} {sanitize_line(call.title, 200)}"
                self._say(f"Tool {name}: {call_status(call)}{failed}")
                if call.tool == TODO and isinstance(call.display, TableDisplay):
                    for status, text in call.display.rows:
                        self._say(f"  [{STEP_MARKS.get(status, ' ')}] {sanitize_line(text, 300)}")
        self._open_calls = left

    def _children(self, state: SessionView, *, until: float) -> None:
        """Print which sub-agents started and ended, up to a time in Unix seconds."""
        for agent in state.agents.values():
            now = (agent.run, agent.ended)
            before = self._agents.get(agent.path)
            if agent.path == "a" or now == before or (agent.finished or agent.started) > until:
                continue
            self._agents[agent.path] = now
            name = f"Agent {agent.path} ({sanitize_line(agent.profile, 40)})"
            if before is None or before[0] != agent.run:
                self._say(f"{name} starts: {sanitize_line(agent.task, 300)}")
            if agent.end is not None:
                words = sanitize_line(agent.end.text or agent.end.error, 300)
                spent = f"{seconds(agent.active_s(time.time()))}, {tokens(agent.usage)} tokens"
                self._say(f"{name} has ended: {status_text(state, agent)}, {spent}. {words}")
                if agent.earlier:
                    self._say(f"  Earlier result: {sanitize_line(agent.earlier.text, 300)}")
                self._say(f"  {agent.receipt.short()}")
                self._warn(agent.path, agent.receipt)

    def _warn(self, path: str, receipt: Receipt) -> None:
        for warning in receipt.warnings:
            self._say(f"Warning: {path} {sanitize_line(warning, 500)}")
