"""`friday sessions show`: a separate module, so that it starts fast; `--follow` is in `session_follow`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import typer

from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.options import Option
from friday_cli.system.paths import with_tilde
from friday_cli.view import SessionView
from friday_cli.view.tree import render_tree

from . import output, transcript_text
from .help import add_family
from .parameters import parameter, quick_command, set_parameters
from .session_args import LAST
from .session_follow import follow as follow_session
from .session_lookup import read

OPTIONS = (
    Option(("--tree",), "flag", "Show the agents with status, tokens, cost, time and receipt."),
    Option(("--timeline",), "flag", "Show when each agent worked and what it waited for."),
    Option(("--agent",), "text", "Show the conversation of this agent, such as a.2.", "PATH"),
    Option(("--follow",), "flag", "Show new events while it runs."),
    Option(("--json",), "flag", "Print JSON for programs."),
)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `sessions` with only this command."""
    add_family(app, "sessions", about, {"show": show}, show={"cls": quick_command(OPTIONS, "name")})


def show(name: str | None, *, tree: bool, timeline: bool, agent: str | None, follow: bool, json: bool) -> None:
    """Show the conversation, tool calls and agents of a session.

    \b
    friday sessions show [7f3a]        the conversation; default: the last session
    friday sessions show 7f3a --tree   the agents, their work and cost
    friday sessions show 7f3a --timeline   when each worked or waited
    friday sessions show 7f3a:a.2      the conversation of agent a.2
    friday sessions show 7f3a --follow new events, until it ends
    """
    if follow:
        if timeline:
            raise UsageError("--follow and --timeline cannot be combined.", hint="The chat shows both: /timeline.")
        if json:
            hint = "`friday ask --output-format stream-json` prints events."
            raise UsageError("--follow and --json cannot be combined.", hint=hint)
        asyncio.run(follow_session(name or "", agent=agent, tree=tree))
        return
    record = asyncio.run(read(name or "", agent=agent, last=True))
    state, now = record.state, time.time()
    top = state.agents.get(record.agent or "a")
    if json:
        document = _document(record.id, record.title, state, record.agent, tree or timeline)
        if timeline:
            from friday_cli.view.timeline import Timeline

            document["timeline"] = Timeline.of(record.envelopes)
        output.show_json(document)
        return
    output.show_hanging(10, (f"{record.id[:8]}  ", "cyan"), (record.title or "(untitled)", "bold"))
    output.show_hanging(2, (f"{with_tilde(state.cwd)} · {output.when(state.at)}", "dim"))
    if top is None:
        output.show("\nThis session is empty.")
        return
    if timeline:
        print()
        transcript_text.show_timeline(state, record.envelopes, record.agent)
        return
    if tree:
        print()
        transcript_text.show_tree(state, now, record.agent)
        return
    output.show_hanging(2, (transcript_text.summary(state, top, now=now), "dim"))
    if record.agent and record.agent != "a":
        output.show_painted((f"agent {top.path} ({top.profile})", "dim"))
    print()
    for parts in transcript_text.conversation(top, width=output.terminal_width() if output.on_terminal() else 0):
        transcript_text.show(parts)
    if top.children:
        output.show_painted(("\nAgents", "bold"))
        for row in render_tree(state, now=now, details="results", top=record.agent, fit=output.truncate_line):
            output.show(row)
        print()
        output.show_painted((f"Details of one: `friday sessions show {record.id[:8]}:{top.children[0]}`", "dim"))


set_parameters(show, [parameter("name", str, LAST)], OPTIONS)


def _document(session: str, title: str, state: SessionView, path: str, tree: bool) -> dict[str, Any]:
    from friday_cli.view.reports.json_report import agent_json  # takes 5 ms, and is not needed for text

    top = path or "a"
    agents = [agent_json(state, a) for a in state.agents.values() if a.run and is_under(a.path, top)]
    document = {"session_id": session, "title": title, "cwd": state.cwd, "version": state.version, "agents": agents}
    if not tree:
        document["agent"] = top
        document["conversation"] = transcript_text.as_data(state.agents[top]) if top in state.agents else []
    return document
