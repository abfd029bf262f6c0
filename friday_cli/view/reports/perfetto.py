"""A session in the trace event format of Chrome, which Perfetto (ui.perfetto.dev) opens: a thread for each agent.

Format: "Trace Event Format", Google, 2016: `M` names a process or thread, `X` is a span with a duration, `C` a counter, `s` and
`f` are the ends of an arrow. Times are microseconds.
"""

from __future__ import annotations

from typing import Any

from friday_cli.core.protocol import events
from friday_cli.core.protocol.messages import NO_USAGE, Usage
from friday_cli.core.text.sanitize import clean

from ..state import SessionView
from ..timeline import SIGNS, Timeline
from .json_report import dump
from .recorded_session import RecordedSession

PROCESS = 1


def as_perfetto(session: RecordedSession) -> str:
    """The trace as JSON."""
    state, timeline = SessionView.of(session.envelopes), Timeline.of(session.envelopes)
    threads = {agent.path: number for number, agent in enumerate(timeline.agents, 1)}

    def micros(at: float) -> int:
        return round((at - timeline.start) * 1e6)

    found: list[dict[str, Any]] = [_about("process_name", 0, name=f"Friday session {state.session[:8]}")]
    for agent in timeline.agents:
        view, thread = state.agents[agent.path], threads[agent.path]
        found += [
            _about("thread_name", thread, name=f"{agent.path} {view.profile}"),
            _about("thread_sort_index", thread, sort_index=thread),
        ]
        spans = [(start, end, f"run of {view.profile}", {"task": clean(view.task)[:1000]}) for start, end in agent.runs]
        spans += [(s.start, s.end, s.label or SIGNS[s.activity][1], {"activity": s.activity}) for s in agent.segments]
        for start, end, name, about in spans:
            begin = micros(start)
            found.append(
                {
                    "ph": "X",
                    "pid": PROCESS,
                    "tid": thread,
                    "ts": begin,
                    "dur": micros(end) - begin,
                    "name": name,
                    "args": about,
                }
            )
        parent = threads.get(view.parent)
        if parent is not None:
            arrow = {
                "cat": "delegation",
                "name": "delegation",
                "pid": PROCESS,
                "id": thread,
                "ts": micros(agent.runs[0][0]),
            }
            found += [{**arrow, "ph": "s", "tid": parent}, {**arrow, "ph": "f", "bp": "e", "tid": thread}]
    total = NO_USAGE
    for envelope in session.envelopes:
        usage = getattr(envelope.event, "usage", NO_USAGE)
        if usage != NO_USAGE and not isinstance(envelope.event, events.AgentFinished):
            total += usage
            found += _counters(micros(envelope.at), total)
    return dump(
        {
            "traceEvents": found,
            "displayTimeUnit": "ms",
            "otherData": {"session": state.session, "friday": session.version},
        }
    )


def _about(kind: str, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": PROCESS, "tid": thread, "name": kind, "args": args}


def _counters(at: int, total: Usage) -> list[dict[str, Any]]:
    counter = {"ph": "C", "pid": PROCESS, "tid": 0, "ts": at}
    values = {"tokens": total.billed, "US dollars": total.cost_usd}
    return [{**counter, "name": name, "args": {name: value}} for name, value in values.items() if value is not None]
