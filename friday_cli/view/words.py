"""The words of a transcript, for everything that draws it: who speaks, how a call stands, what an agent took."""

from __future__ import annotations

from friday_cli.core.protocol.displays import CommandDisplay, DiffDisplay, DiffsDisplay
from friday_cli.core.protocol.format import diffstat, pluralize, price, seconds, status_word, tokens
from friday_cli.core.text.sanitize import sanitize_line

from .items import AgentView, MessageItem, ToolRun
from .state import SessionView
from .tree import status_text

_SHORTEST_S = 0.1
"""A call that took less is not told how long it took."""


def speaker(item: MessageItem) -> str:
    """Whose message it is."""
    return "Friday" if item.role == "assistant" else "You" if item.source == "person" else item.source.capitalize()


def call_status(run: ToolRun) -> str:
    """The state of a call in words: running, done, failed, refused."""
    return "waits for you" if run.status == "waiting" else status_word(run.status)


def exit_text(code: int | None) -> str:
    """The exit code of a command in words."""
    return "stopped" if code is None else f"exit {code}"


def hidden_failure(display: CommandDisplay) -> str:
    """Warns of a pipe whose exit code hides that an earlier part failed; "" for another command."""
    of = sanitize_line(display.exit_of, 20)
    return of and f"Exit code 0 is from {of}; an earlier part of the pipe seems to have failed."


def call_facts(run: ToolRun) -> list[str]:
    """What a call did, beside its name and its subject."""
    display, facts = run.display, list[str]()
    if isinstance(display, DiffDisplay):
        facts.append(f"+{display.added} -{display.removed}")
    if isinstance(display, DiffsDisplay):
        facts.append(f"{pluralize(len(display.files), 'file')} {diffstat(display.files)}")
    if isinstance(display, CommandDisplay) and display.exit_code:
        facts.append(exit_text(display.exit_code))
    if run.images:
        facts.append(pluralize(run.images, "image"))
    if run.status not in ("ok", "error", "running"):
        facts.append(call_status(run))
    return facts


def call_time(run: ToolRun, now: float = 0.0) -> list[str]:
    """How long a call took, or takes so far at `now` (Unix seconds); nothing for a short one."""
    took = run.duration_s or (now - run.started if run.status == "running" and run.started and now else 0.0)
    return [seconds(took)] if took >= _SHORTEST_S else []


def agent_facts(state: SessionView, agent: AgentView, now: float) -> tuple[str, ...]:
    """How an agent stands or ended, and what it took by itself."""
    took = seconds(agent.active_s(now))
    return status_text(state, agent), f"{tokens(agent.usage)} tokens", price(agent.model, agent.usage), took
