"""`friday sessions show --follow`: shows a session of another process while it runs."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from friday_cli.view import AgentView, Item, SessionView, ToolRun
from friday_cli.view.tree import agent_line, render_tree

from . import output
from .session_lookup import choose_agent, find, require_agent
from .transcript_text import lines, show, show_tree, summary

DRAW_S = 0.5
"""Seconds between two redraws of the tree on a terminal, because its times change."""
_OPEN = frozenset(("pending", "waiting", "running"))


async def follow(name: str, *, agent: str | None, tree: bool) -> None:
    """Show a session and its new events until no process runs it. Raises UsageError, StoreError."""
    async with find(name, last=True) as (store, session, path):
        path = choose_agent(name, path, agent)
        title = await store.title(session)
        output.show_hanging(10, (f"{session[:8]}  ", "cyan"), (title or "(untitled)", "bold"))
        state = SessionView()
        view = _TreePrinter(state, path) if tree else ConversationPrinter(state, path or "a")
        drawing = asyncio.create_task(view.draw())
        try:
            async for batch in store.follow(session):
                changed = [p for envelope in batch for p in state.apply(envelope)]
                view.show(changed)
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing
    if not state.agents:
        output.show("\nThis session is empty.")
    else:
        require_agent(session, path, state.agents)
        view.end()


class ConversationPrinter:
    """Prints the conversation of one agent as it grows; a tool call when it starts and when it ends."""

    def __init__(self, state: SessionView, path: str) -> None:
        self._state, self._path = state, path
        self._seen = 0
        self._shown: list[Item] = []
        self._before: Item | None = None
        self._open: dict[str, str] = {}

    async def draw(self) -> None:
        """Nothing is redrawn."""

    def show(self, changed: Sequence[str]) -> None:
        """Print new items."""
        agent = self._state.agents.get(self._path)
        if agent is None or self._path not in changed:
            return
        runs = [agent.calls[call_id] for call_id in self._open]
        if agent.transcript is not self._shown:  # the conversation was rewound: the rest was already shown
            self._shown, self._seen = agent.transcript, min(self._seen, max(0, len(agent.transcript) - 1))
        for item in (*runs, *agent.transcript[self._seen :]):
            if not isinstance(item, ToolRun) or self._has_news(agent, item):
                self._print(agent, item)
        self._seen = len(agent.transcript)
        sys.stdout.flush()

    def _has_news(self, agent: AgentView, run: ToolRun) -> bool:
        """Whether a call has something new to show."""
        before = self._open.get(run.call_id, "pending")
        if run.status not in _OPEN and (run.status == "ok" or run.call_id not in agent.open):
            self._open.pop(run.call_id, None)
            return True
        self._open[run.call_id] = now = run.status if run.status in _OPEN else before  # its display follows
        return now not in ("pending", before)

    def _print(self, agent: AgentView, item: Item) -> None:
        for parts in lines(agent, item, self._before, width=output.terminal_width() if output.on_terminal() else 0):
            show(parts)
        self._before = item

    def end(self) -> None:
        """Print a summary."""
        agent = self._state.agents[self._path]
        print()
        output.show_hanging(2, (summary(self._state, agent, now=time.time()), "dim"))


class _TreePrinter:
    """Shows the tree of agents: redrawn on a terminal, one line per change of status in a pipe."""

    def __init__(self, state: SessionView, path: str) -> None:
        self._state, self._path = state, path
        self._last_status: dict[str, str] = {}
        self._drawn = 0

    async def draw(self) -> None:
        """Keep the picture on a terminal up to date."""
        while output.on_terminal():
            await asyncio.sleep(DRAW_S)
            self._redraw()

    def show(self, changed: Sequence[str]) -> None:
        """Show the current state of these agents."""
        if output.on_terminal():
            self._redraw()
            return
        for path in dict.fromkeys(changed):
            agent = self._state.agents[path]
            within = not self._path or f"{path}.".startswith(f"{self._path}.")
            if within and agent.run and self._last_status.get(path) != agent.status:
                self._last_status[path] = agent.status
                output.show(agent_line(self._state, agent, now=time.time()))
        sys.stdout.flush()

    def _redraw(self) -> None:
        height = max(1, shutil.get_terminal_size().lines - 2)
        rows = render_tree(self._state, now=time.time(), details="none", top=self._path)
        if len(rows) > height:
            rows = [*rows[: height - 1], f"... and {len(rows) - height + 1} more"]
        self._clear()
        for row in rows:
            output.show(output.truncate_line(row))
        self._drawn = len(rows)
        sys.stdout.flush()

    def _clear(self) -> None:
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
        self._drawn = 0

    def end(self) -> None:
        """Print the whole tree with the receipts."""
        self._clear()
        if not output.on_terminal():
            print()
        show_tree(self._state, time.time(), self._path)
