"""A session as one HTML file that runs nothing and loads nothing: agents, receipts, timeline, conversations, changes and cost.

All text of a session is untrusted. It enters the page only through `escape`, and a content security policy forbids scripts,
requests and frames besides.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape

from friday_cli.core.protocol.displays import CommandDisplay, DiffDisplay, DiffsDisplay
from friday_cli.core.protocol.format import pluralize, price, tokens
from friday_cli.core.text.sanitize import clean, mask, masked_line, show_invisible

from ..items import AgentView, Item, MessageItem, NoteItem, ResultItem, finding_text
from ..marks import CALL_MARKS, agent_mark
from ..state import SessionView
from ..timeline import Timeline
from ..words import agent_facts, speaker
from .html_style import STYLE
from .html_timeline import timeline_svg
from .recorded_session import RecordedSession

LARGE = 5_000_000
"""Characters of a page; of a larger one the long texts are cut."""
CUT, SHORTEST = (None, 20_000, 4_000, 1_000), 200
"""Characters of one text that are shown: the first that keeps the page below `LARGE`, else the shortest."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def as_html(session: RecordedSession) -> str:
    """The page; it ends with a newline."""
    state = SessionView.of(session.envelopes)
    timeline = Timeline.of(session.envelopes)
    title = masked_line(session.title or (state.root.task if state.root else ""), 200) or "A session without a task"
    for limit in CUT:
        parts, size = [], 0
        for part in _Body(session, state, timeline, limit).parts(title):
            parts.append(part)
            if (size := size + len(part)) > LARGE:
                break
        else:
            return html_page(f"Friday: {title}", parts)
    return html_page(f"Friday: {title}", _Body(session, state, timeline, SHORTEST).parts(title))


def escape(text: str) -> str:
    """Untrusted text for the page, in elements and in quoted attributes: secrets are masked, control and bidi characters shown as
    escapes such as `\\u202e`."""
    return html_escape(show_invisible(mask(text.replace("\r\n", "\n"))), quote=True)


def html_page(title: str, body: Iterable[str]) -> str:
    """A whole document; `body` is HTML, `title` text."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    return f"{head}{''.join(body)}</body>\n</html>\n"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()) -> str:
    """A table of untrusted text; the columns `numbers` are aligned right."""
    classes = ['class="n"' if title in numbers else "" for title in titles]
    head = "".join(f'<th scope="col" {each}>{escape(title)}</th>' for title, each in zip(titles, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell(cell, each) for cell, each in zip(row, classes, strict=True)) + "</tr>\n" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _cell(text: str, kind: str) -> str:
    kind = kind or ('class="long"' if len(text) > 40 else "")
    return f"<td {kind}>{escape(text)}</td>"


def diff_block(diff: str) -> str:
    """A unified diff with a class for each line that was added, removed, or begins a part."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    rows = (
        f'<span class="{kinds.get(row[:1], "same")}">{escape(row)}\n</span>' for row in diff.rstrip("\n").split("\n")
    )
    return f'<pre class="diff" tabindex="0">{"".join(rows)}</pre>\n'


class _Body:
    """The parts of the page of one session. `limit`: characters of one text that are shown, None for all."""

    def __init__(self, session: RecordedSession, state: SessionView, timeline: Timeline, limit: int | None) -> None:
        self._session, self._state, self._timeline, self._limit = session, state, timeline, limit
        self._agents = [agent for agent in state.agents.values() if agent.run]

    def parts(self, title: str) -> Iterator[str]:
        state, total = self._state, self._state.totals
        model = state.root.model if state.root else ""
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self._timeline.start)) if self._agents else ""
        facts = (
            at,
            state.cwd,
            model,
            f"{tokens(total)} tokens",
            price(model, total),
            pluralize(len(self._agents), "agent"),
        )
        yield '<a class="skip" href="#conversations">Skip to the conversations</a>\n<header>\n'
        yield f"<h1>{escape(title)}</h1>\n<p>{escape(' · '.join(fact for fact in facts if fact))}</p>\n"
        yield f'<p class="dim">Session {escape(state.session)}, written by Friday {escape(self._session.version)}.'
        yield " Likely keys and passwords are masked.</p>\n"
        yield '<nav aria-label="Parts"><a href="#agents">Agents</a> <a href="#timeline">Timeline</a> <a href="#cost">Cost</a> '
        yield '<a href="#conversations">Conversations</a></nav>\n</header>\n<main>\n'
        yield '<section id="agents"><h2>Agents</h2>\n'
        yield from self._tree([agent for agent in self._agents if agent.parent not in state.agents])
        yield '</section>\n<section id="timeline"><h2>Timeline</h2>\n'
        yield timeline_svg(self._state, self._timeline, escape)
        yield '</section>\n<section id="cost"><h2>Cost</h2>\n'
        yield self._cost()
        yield '</section>\n<section id="conversations"><h2>Conversations</h2>\n'
        for agent in self._agents:
            yield from self._conversation(agent)
        yield "</section>\n</main>\n"

    def _tree(self, agents: Sequence[AgentView]) -> Iterator[str]:
        yield '<ul class="tree">\n'
        for agent in agents:
            yield f'<li><a href="#{_anchor(agent)}">{escape(f"{agent_mark(agent)} {agent.path} {agent.profile}")}</a> '
            yield f'<span class="dim">{escape(self._facts(agent))}</span><br>{escape(masked_line(agent.task, 300))}\n'
            rows = [
                *(finding_text(finding) for finding in (agent.end.findings if agent.end else ())),
                *agent.receipt.lines(),
            ]
            if rows:
                yield "<details><summary>Receipt</summary><ul>"
                yield "".join(f"<li{_warning(row)}>{escape(self._cut(row))}</li>" for row in rows) + "</ul></details>\n"
            children = [self._state.agents[path] for path in agent.children if self._state.agents[path].run]
            if children:
                yield from self._tree(children)
            yield "</li>\n"
        yield "</ul>\n"

    def _facts(self, agent: AgentView) -> str:
        return " · ".join(agent_facts(self._state, agent, self._state.at))

    def _cost(self) -> str:
        titles = ("Agent", "Profile", "Model", "Turns", "Input", "From cache", "Output", "Cost")
        rows = []
        for agent in self._agents:
            used = agent.usage
            counts = (agent.turns, used.input + used.cache_write, used.cache_read, used.output)
            cost = price(agent.model, used).removeprefix("cost ")
            rows.append((agent.path, agent.profile, agent.model, *(f"{count:,}" for count in counts), cost))
        return table(titles, rows, numbers=titles[3:])

    def _conversation(self, agent: AgentView) -> Iterator[str]:
        is_main = agent.parent not in self._state.agents
        yield f'<details class="agent" id="{_anchor(agent)}"{" open" if is_main else ""}>'
        yield f"<summary><h3>{escape(f'{agent.path} {agent.profile}')}</h3> "
        yield f'<span class="dim">{escape(self._facts(agent))}</span></summary>\n'
        for item in agent.transcript:
            yield from self._item(item)
        yield "</details>\n"

    def _item(self, item: Item) -> Iterator[str]:
        if isinstance(item, MessageItem):
            yield f'<article class="{"reply" if item.role == "assistant" else "said"}"><h4>{escape(speaker(item))}</h4>\n'
            if item.thinking.strip():
                yield f"<details><summary>Thinking</summary>{self._text(item.thinking)}</details>\n"
            yield self._text(item.text) if item.text else ""
            yield f"<p>{pluralize(item.images, 'image')} left out</p>\n" if item.images else ""
            yield "</article>\n"
        elif isinstance(item, ResultItem):
            rows = [*(finding_text(finding) for finding in item.findings), *item.receipt.lines()]
            yield f'<article class="result"><h4>Result</h4>\n{self._text(item.text) if item.text else ""}<ul>'
            yield "".join(f"<li{_warning(row)}>{escape(self._cut(row))}</li>" for row in rows) + "</ul></article>\n"
        elif isinstance(item, NoteItem):
            yield f'<p class="note {item.level}">{escape(item.text)}</p>\n'
        else:
            children = "".join(f' <a href="#{_anchor_of(path)}">{escape(path)}</a>' for path in item.agents)
            head = f"{CALL_MARKS[item.status]} {masked_line(item.label, 60)} {masked_line(item.title, 300)}".strip()
            yield f'<details class="call {item.status}"><summary>{escape(head)}{children}</summary>\n'
            yield self._text(json.dumps(clean(item.arguments), ensure_ascii=False, indent=1))
            display = item.display
            if isinstance(display, (DiffDisplay, DiffsDisplay)):
                files = display.files if isinstance(display, DiffsDisplay) else (display,)
                yield "".join(f"<p>{escape(file.path)}</p>{diff_block(self._cut(file.diff))}" for file in files)
            else:
                yield self._text(display.output if isinstance(display, CommandDisplay) else item.text)
            yield "</details>\n"

    def _text(self, text: str) -> str:
        return f'<pre tabindex="0">{escape(self._cut(text))}</pre>\n' if text.strip() else ""

    def _cut(self, text: str) -> str:
        text = mask(text)  # half of a key is not recognized as one
        if self._limit is None or len(text) <= self._limit:
            return text
        return f"{text[: self._limit]}\n... {len(text) - self._limit:,} more characters are left out here"


def _warning(row: str) -> str:
    return ' class="warning"' if row.startswith("WARNING") else ""


def _anchor(agent: AgentView) -> str:
    return _anchor_of(agent.path)


def _anchor_of(path: str) -> str:
    """The id of an agent's conversation in the page: of its path only letters, digits and `-`."""
    return "agent-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in path)
