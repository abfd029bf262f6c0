"""When each agent worked and what it waited for: a row for each agent, as data, and as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

import msgspec

from friday_cli.core.protocol import events
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.format import price, seconds
from friday_cli.core.protocol.server_calls import tool_label
from friday_cli.core.text.sanitize import sanitize_line

from .items import AgentView
from .state import SessionView

Activity = Literal["model", "tool", "child", "person", "rate", "budget", "queued", "other"]
"""What an agent did or waited for: a reply of its model, a tool, its sub-agents, a person, the service, its budget, a run slot."""
SIGNS: dict[Activity, tuple[str, str]] = {
    "model": ("█", "model"),
    "tool": ("━", "tool"),
    "child": ("·", "waits for agents"),
    "person": ("?", "waits for you"),
    "rate": ("~", "waits for the service"),
    "budget": ("$", "waits for budget"),
    "queued": (",", "waits for a slot"),
    "other": ("_", "other"),
}
"""For each activity its sign in a terminal, which stays different in ASCII, and its name."""
_ORDER: tuple[Activity, ...] = ("person", "rate", "budget", "child", "queued", "model", "tool", "other")
"""Which activity is shown where several happen at once."""
_WAITS: dict[str, Activity] = {
    "waiting_child": "child",
    "waiting_user": "person",
    "waiting_rate": "rate",
    "waiting_budget": "budget",
    "queued": "queued",
}
GAP_S = 2.0
"""A pause without any agent at work that is longer is shown as one of this length, in seconds."""


class Segment(NamedTuple):
    """One activity of an agent; times are Unix seconds."""

    activity: Activity
    start: float
    end: float
    label: str = ""
    """The tool of a call, in one line and sanitized."""


class AgentTimeline(msgspec.Struct):
    """The timeline of one agent: `runs` are (start, end) of its runs, `segments` are in the order of their starts."""

    path: str
    runs: list[tuple[float, float]] = []
    segments: list[Segment] = []


class Timeline(msgspec.Struct):
    """All agents in the order of their starts. Times are Unix seconds."""

    agents: list[AgentTimeline]
    start: float
    end: float

    @classmethod
    def of(cls, envelopes: Iterable[Envelope]) -> Timeline:
        """What a session's durable events say. What is still open ends with the last of them."""
        folds: dict[str, _AgentFold] = {}
        at = 0.0
        for envelope in envelopes:
            at = max(at, envelope.at)
            folds.setdefault(envelope.agent, _AgentFold(envelope.agent)).apply(envelope)
        agents = [fold.close(at) for fold in folds.values()]
        agents = [agent for agent in agents if agent.runs]
        return cls(agents, min((agent.runs[0][0] for agent in agents), default=at), at)


class _AgentFold:
    """Reads the events of one agent."""

    def __init__(self, path: str) -> None:
        self._row = AgentTimeline(path)
        self._run: float | None = None
        self._model: float | None = None
        self._wait: tuple[Activity, float] | None = None
        self._tools: dict[str, tuple[str, float]] = {}

    def apply(self, envelope: Envelope) -> None:
        event, at = envelope.event, envelope.at
        match event:
            case events.AgentStarted():
                self._end_run(at)
                self._run = at
            case events.AgentFinished():
                self._end_run(at)
            case events.StatusChanged(status=status):
                self._end_wait(at)
                if status in _WAITS:
                    self._wait = _WAITS[status], at
            case events.TurnStarted():
                self._end_model(at)
                self._model = at
            case events.TurnFinished() | events.AttemptFailed():
                self._end_model(at)
            case events.MessageAdded(message=message) if message.role == "assistant":
                self._end_model(at)
            case events.ToolStarted(call_id=call_id, tool=tool):
                self._tools[call_id] = sanitize_line(tool_label(tool), 60), at
            case events.ToolFinished(call_id=call_id) if call_id in self._tools:
                name, started = self._tools.pop(call_id)
                self._add("tool", started, at, name)

    def close(self, at: float) -> AgentTimeline:
        self._end_run(at)
        self._row.segments.sort(key=lambda segment: segment.start)
        return self._row

    def _end_run(self, at: float) -> None:
        self._end_model(at)
        self._end_wait(at)
        for name, started in self._tools.values():
            self._add("tool", started, at, name)
        self._tools.clear()
        if self._run is not None:
            self._row.runs.append((self._run, max(at, self._run)))
            self._run = None

    def _end_model(self, at: float) -> None:
        if self._model is not None:
            self._add("model", self._model, at)
            self._model = None

    def _end_wait(self, at: float) -> None:
        if self._wait is not None:
            self._add(*self._wait, at)
            self._wait = None

    def _add(self, activity: Activity, start: float, end: float, label: str = "") -> None:
        self._row.segments.append(Segment(activity, start, max(start, end), label))


class TimeScale:
    """Where a time is on the axis: pauses in which no agent was at work are shortened to `GAP_S`."""

    def __init__(self, timeline: Timeline) -> None:
        self._busy: list[tuple[float, float, float]] = []
        """(start, end, where the start is on the axis) of each time in which agents were at work."""
        shown, last = 0.0, timeline.start
        for start, end in sorted(run for agent in timeline.agents for run in agent.runs):
            if self._busy and start <= last + GAP_S:
                first, _, where = self._busy[-1]
                self._busy[-1] = first, max(last, end), where
            else:
                shown += GAP_S if self._busy else 0.0
                self._busy.append((start, end, shown))
            last = max(last, end)
            shown = self._busy[-1][2] + last - self._busy[-1][0]
        self.length = shown
        """Seconds of the whole axis."""
        self.pauses = tuple(where - GAP_S / 2 for _, _, where in self._busy[1:])
        """Where on the axis the shortened pauses are."""

    def position(self, at: float) -> float:
        """Seconds from the start of the axis."""
        where = 0.0
        for start, end, first in self._busy:
            if at < start:
                break
            where = first + min(at, end) - start
        return where


def activity_at(segments: Sequence[Segment], start: float, end: float) -> Activity:
    """What is shown for a part of a run: of what happened the longest, and of equals the first of the order. `segments` are in the order of
    their starts; several of one activity at once count once."""
    spent: dict[Activity, float] = {}
    counted: dict[Activity, float] = {}
    for segment in segments:
        kind, until = segment.activity, min(end, segment.end)
        if (more := until - max(start, segment.start, counted.get(kind, start))) > 0:
            spent[kind], counted[kind] = spent.get(kind, 0.0) + more, until
    if not spent:
        return "other"
    most = max(spent.values())
    return next(each for each in _ORDER if spent.get(each, 0.0) >= most / 2)


Cell = Activity | Literal[""]
"""What a piece of a row shows; "" for text and for times in which the agent did not run."""


def render_timeline(
    state: SessionView, timeline: Timeline, width: int, *, window: tuple[float, float] | None = None, top: str = ""
) -> list[list[tuple[str, Cell]]]:
    """A row for each agent in pieces (text, what they show), then the axis and the signs. `width`: columns; `window`: the part of
    the axis in seconds, all of it by default; `top`: only this agent and its descendants. Agents without a part in it are left out."""
    if not timeline.agents:
        return [[("No agent has run yet.", "")]]
    scale = TimeScale(timeline)
    first, last = window or (0.0, scale.length)
    names = {a.path: sanitize_line(f"{a.path} {state.agents[a.path].profile}", 24) for a in timeline.agents}
    left = max(map(len, names.values()), default=0) + 2
    facts = {a.path: _facts(state.agents[a.path], state.at) for a in timeline.agents}
    right = max(map(len, facts.values()), default=0)
    columns = max(10, width - left - right)
    step = max(last - first, 0.001) / columns
    rows: list[list[tuple[str, Cell]]] = []
    used: set[Activity] = set()
    for agent in timeline.agents:
        if top and agent.path != top and not agent.path.startswith(f"{top}."):
            continue
        placed = [s._replace(start=scale.position(s.start), end=scale.position(s.end)) for s in agent.segments]
        runs = [(scale.position(start), scale.position(end)) for start, end in agent.runs]
        cells: list[Cell] = []
        for column in range(columns):
            start = first + column * step
            runs_here = any(a < start + step and (b > start or a == b >= start) for a, b in runs)
            cells.append(activity_at(placed, start, start + step) if runs_here else "")
        if not any(cells) and window:
            continue
        used.update(cell for cell in cells if cell)
        drawn = [(kind, len([*group])) for kind, group in groupby(cells)]
        pieces: list[tuple[str, Cell]] = [((SIGNS[kind][0] if kind else " ") * count, kind) for kind, count in drawn]
        rows.append([(names[agent.path].ljust(left), ""), *pieces, (facts[agent.path], "")])
    rows.append([(" " * left + _axis(first, last, columns, scale.pauses), "")])
    signs = [f"{sign} {name}" for each, (sign, name) in SIGNS.items() if each in used]
    rows += [[(" " * left + line, "")] for line in _lines(signs, columns + right)]
    return rows


def _lines(words: Sequence[str], width: int) -> Iterator[str]:
    """`words` beside each other, in as many lines of `width` columns as they need."""
    line = ""
    for word in words:
        if line and len(line) + 2 + len(word) > width:
            yield line
            line = ""
        line += f"  {word}" if line else word
    yield line


def _facts(agent: AgentView, at: float) -> str:
    """The seconds that an agent worked and its cost in US dollars, as the end of its row."""
    return f"  {seconds(agent.active_s(at)):>7} {price(agent.model, agent.usage).removeprefix('cost '):>8}"


def _axis(first: float, last: float, columns: int, pauses: Sequence[float]) -> str:
    """The times below the rows, about every 16 columns, and a `¦` where a pause was shortened."""
    cells = [" "] * columns
    step = max(last - first, 0.001) / columns
    for column in range(0, columns - 7, 16):
        at = first + column * step
        label = f"|{seconds(at) if step > 0.01 else f'{at:.3f} s'}"[: columns - column]
        cells[column : column + len(label)] = label
    for pause in pauses:
        if 0 <= (column := int((pause - first) / step)) < columns:
            cells[column] = "¦"
    return "".join(cells).rstrip()
