"""A session, or one agent, as Markdown."""

from __future__ import annotations

import json
import re

from friday_cli.core.protocol import events
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.text.sanitize import clean, code_block, mask, masked_line, sanitize

from ..items import AgentView, Item, MessageItem, NoteItem, ResultItem, finding_text
from ..state import SessionView
from ..tree import render_tree
from ..words import call_status, speaker
from .recorded_session import RecordedSession


def as_markdown(session: RecordedSession) -> str:
    """The tree and the transcript of each agent. The heading is the title, or the first prompt."""
    state = SessionView.of(session.envelopes)
    tasks = (e.event.task for e in session.envelopes if isinstance(e.event, events.AgentStarted) and not e.event.parent)
    title = masked_line(session.title or next(tasks, ""), 100)
    out = [f"# {_inline(title) or 'A session without a task'}", ""]
    out += [f"Session {_code(state.session)} in {_code(state.cwd)}, written by Friday {session.version}.", ""]
    out.append(code_block("\n".join(render_tree(state))))
    for agent in state.agents.values():
        if agent.run:
            out += ["", *_transcript(agent)]
    return mask("\n".join(out).rstrip() + "\n")


def agent_markdown(agent: AgentView) -> str:
    """The conversation of one agent as Markdown that ends with a newline."""
    return mask("\n".join(_transcript(agent)).rstrip() + "\n")


def _transcript(agent: AgentView) -> list[str]:
    out = [f"## {agent.path} {_inline(masked_line(agent.profile, 40))}", ""]
    for item in agent.transcript:
        out += _item(item)
    return out


def _item(item: Item) -> list[str]:
    if isinstance(item, MessageItem):
        images = f" ({item.images} images omitted)" if item.images else ""
        body = _quote(f"{item.text}{images}") if item.text or images else []
        return [f"### {speaker(item)}", "", *_details("Thinking", item.thinking), *body, ""]
    if isinstance(item, ResultItem):
        receipt = [_inline(masked_line(row, 400)) for row in item.receipt.lines()]
        findings = [_inline(masked_line(finding_text(finding), 1000)) for finding in item.findings]
        return ["### Result", "", *_quote(item.text), "", *(f"- {row}" for row in (*findings, *receipt)), ""]
    if isinstance(item, NoteItem):
        return [f"*{item.level}: {_inline(masked_line(item.text, 400))}*", ""]
    title = _code(masked_line(item.title, 200)) if item.title else ""
    head = f"**{_inline(masked_line(item.label, 60))}** {title}".rstrip()
    children = f", started {', '.join(item.agents)}" if item.agents else ""
    arguments = json.dumps(clean(item.arguments), ensure_ascii=False)
    shown = item.display.diff if isinstance(item.display, DiffDisplay) else item.text
    language = "diff" if isinstance(item.display, DiffDisplay) else ""
    blocks = [f"{head} ({call_status(item)}{children})", code_block(arguments, "json"), code_block(shown, language)]
    return [row for block in blocks for row in (block, "")]


def _inline(text: str) -> str:
    """One line of untrusted text with all Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>#|!~&$])", r"\\\1", text)


def _code(text: str) -> str:
    text = sanitize(text, keep="")
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`" if text else "-"


def _quote(text: str) -> list[str]:
    """Untrusted Markdown as a quote, so that it cannot imitate a heading of the transcript."""
    return [f"> {row}".rstrip() for row in sanitize(text).split("\n")]


def _details(title: str, text: str) -> list[str]:
    return [f"{title}:", "", code_block(text), ""] if text.strip() else []
