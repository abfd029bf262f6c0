"""The live lines: what each agent does just now, one line per agent, in columns that hold still."""

from __future__ import annotations

import math

from rich.cells import cell_len

from friday_cli.core.protocol.format import tokens
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView, SessionView
from friday_cli.view.tree import GLYPHS

from .terminal import clipped

MOST = 10
"""Lines shown at once; of more agents it is said how many there are."""
SILENT_S = 20.0
"""After so many seconds without a sign of the model the line says so."""
_DOING = 30
"""Places for what an agent does, where the terminal is wide enough."""
_TASK = 10
"""Fewer places than this are not worth a task."""


class ProgressLines:
    """Makes the lines. `signs` has the time (Unix seconds) of the newest event of each agent."""

    def __init__(self, state: SessionView) -> None:
        self._state = state
        self.signs: dict[str, float] = {}

    def lines(self, width: int, now: float) -> list[str]:
        """The agents at work in lines of at most `width` places. The root has one while it works alone and writes nothing."""
        agents = [agent for agent in self._state.working if agent.parent]
        if not agents:
            agents = [a for a in self._state.working if not (a.reply and a.reply.text.text)]
        shown = agents if len(agents) <= MOST else agents[: MOST - 1]
        names = [
            sanitize_line(
                f"{GLYPHS[a.status]} {a.path} {a.profile}" if a.parent else f"{GLYPHS[a.status]} {a.profile}", 40
            )
            for a in shown
        ]
        first = max(map(cell_len, names), default=0)
        found = [self._line(agent, _fit(name, first), width, now) for agent, name in zip(shown, names, strict=True)]
        return [*found, f"  … and {len(agents) - len(shown)} more"] if len(shown) < len(agents) else found

    def _line(self, agent: AgentView, name: str, width: int, now: float) -> str:
        spent = tokens(agent.usage) if agent.usage.billed else ""
        end = f"{_clock(agent.active_s(now)):>7}{spent:>8}"
        room = width - cell_len(name) - len(end) - 4
        doing = self._doing(agent, now)
        if not agent.parent:
            return clipped(f"{name}  {doing}  {end.strip()}", width)
        part = min(_DOING, room // 2)
        if part < _TASK:
            return clipped(f"{name}  {doing}", width)
        return f"{name}  {_fit(agent.task, room - part - 1)}  {_fit(doing, part)} {end}".rstrip()

    def _doing(self, agent: AgentView, now: float) -> str:
        match agent.status:
            case "queued":
                return "waits for a slot"
            case "waiting_child":
                return "waits for its agents"
            case "waiting_user":
                return "waits for an answer"
            case "waiting_rate":
                failed, _, wait = agent.waiting.rpartition(" ")
                left = math.ceil(_number(wait) - (now - agent.clock.since))
                if left <= 0:
                    return "waits for its turn"
                return f"tries again in {left} s" if failed else f"waits {left} s: rate limit"
        if (current := agent.current) is not None:
            return sanitize_line(f"{current.tool} {current.title}", 80)
        silent = now - self.signs.get(agent.path, now)
        if silent > SILENT_S:
            return f"no sign for {silent:.0f} s"
        if agent.reply and agent.reply.calls:
            return f"calls {sanitize_line(max(agent.reply.calls.items())[1][0], 40)}"
        return "writes" if agent.reply and agent.reply.text.text else "thinks"


def _fit(text: str, width: int) -> str:
    """`text` on just so many places."""
    short = clipped(sanitize_line(text, 200), width)
    return short + " " * (width - cell_len(short))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _clock(seconds: float) -> str:
    """Whole seconds, which change once a second: `4 s`, `1:05`, `2:01:40`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
