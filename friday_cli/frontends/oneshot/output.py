"""The three output formats: text, one JSON document, one event per line. Each folds the same events."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.events import (
    LIVE,
    AgentFinished,
    AttemptFailed,
    Envelope,
    MessageAdded,
    Notice,
    SessionStarted,
    StatusChanged,
    TextDelta,
    TurnFinished,
    encode,
)
from friday_cli.core.protocol.format import cost, how_it_ended, limit_name, pluralize, seconds, status_word, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.run_result import LIMIT_REASONS, RunResult
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.core.text.sanitize import escape_json, sanitize, sanitize_line
from friday_cli.core.tool_catalog import EDIT_FILE, WRITE_FILE
from friday_cli.view import AgentView, SessionView, worktree_text
from friday_cli.view.items import DeniedCall

from .terminal import StatusArea, StreamedMarkdown, can_redraw, remark

if TYPE_CHECKING:
    from .progress import ProgressLines

LONG_RETRY_S = 5.0
"""Seconds from which a wait before a retry is reported, if no countdown is shown."""
OFFLINE_RETRY_S = 1.0
"""The same for the first wait of an outage: the connection was tried again already, and failed."""
MAX_DENIALS = 20
"""Denied calls that are listed at the end."""
MAX_OPTIONS = 5
"""Options that are named to allow denied calls."""
MAX_WARNINGS = 5
"""Warnings of receipts that are named at the end."""
MAX_RESULT_CHARS = 100_000
"""Characters of the result of an agent in the document; the rest is in the session."""


class OutputWriter:
    """Folds events; `finish` writes the end of the output. `path`: the agent that answers.

    Raises BrokenPipeError if standard output is closed.
    """

    def __init__(self) -> None:
        self.path = "a"
        self.state = SessionView()
        self._denied_before = 0

    @property
    def denials(self) -> list[DeniedCall]:
        """The denied calls of this run."""
        return self.state.denials[self._denied_before :]

    def replay(self, envelope: Envelope) -> None:
        """Apply an event from before this run."""
        self.state.apply(envelope)
        self._denied_before = len(self.state.denials)

    def apply(self, envelope: Envelope) -> None:
        """Apply one event of this run. What is lost is told on standard error, too, whatever reads the output."""
        self.state.apply(envelope)
        if isinstance(envelope.event, Notice) and self._tells(envelope.event):
            self._remark(envelope.event.text)

    def _tells(self, notice: Notice) -> bool:
        return notice.level != "info"

    def _remark(self, text: str) -> None:
        remark(text)

    def finish(self, outcome: RunResult, code: int) -> None:
        """The run has ended; the process exits with `code`."""

    def abandon(self, code: int) -> None:
        """The process exits now with `code`: leave no partial drawing."""


class StreamWriter(OutputWriter):
    """`stream-json`: each event as one line when it happens; the first has the version of the schema."""

    def replay(self, envelope: Envelope) -> None:
        super().replay(envelope)
        if isinstance(envelope.event, SessionStarted):
            sys.stdout.buffer.write(_json(envelope))

    def apply(self, envelope: Envelope) -> None:
        super().apply(envelope)
        sys.stdout.buffer.write(_json(envelope))
        if not isinstance(envelope.event, LIVE):
            sys.stdout.buffer.flush()

    def _tells(self, notice: Notice) -> bool:
        return notice.level == "error"  # the others are read from the stream


def _json(envelope: Envelope) -> bytes:
    try:
        text = encode(envelope).decode()
    except UnicodeEncodeError:  # a lone surrogate, e.g. from a file name that is not UTF-8
        import msgspec

        text = json.dumps(msgspec.to_builtins(envelope), ensure_ascii=False).encode("utf-8", "replace").decode()
    return f"{escape_json(text)}\n".encode()


class JsonWriter(OutputWriter):
    """`json`: one document at the end, also if the run failed."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self._session = session

    def finish(self, outcome: RunResult, code: int) -> None:
        state = self.state
        root = state.agents.get(self.path) or AgentView(self.path)
        total = state.totals
        agents = [_agent(self._session, state, agent) for agent in state.agents.values()]
        denials = [{"agent": d.agent, "tool": d.tool, "subject": d.subject, "reason": d.reason} for d in self.denials]
        self._print(
            session_id=self._session,
            status=outcome.status,
            stop_reason=outcome.stop_reason,
            result=outcome.text,
            model=root.model,
            usage=_usage(total),
            cost_usd=total.cost_usd,
            duration_s=round(root.active_s(state.at), 3),
            agents=agents,
            denials=denials,
            error=outcome.error or (_ending(outcome) if outcome.status == "failed" else None),
            exit_code=code,
        )

    def abandon(self, code: int) -> None:
        root = self.state.agents.get(self.path)
        text = root.reply.text.text if root and root.reply else ""
        self.finish(RunResult("cancelled", "aborted", text, partial=True), code)

    @classmethod
    def failure(cls, error: str, code: int) -> None:
        """Write the document of a run that did not start."""
        cls._print(
            session_id=None,
            status="failed",
            stop_reason=None,
            result="",
            model=None,
            usage=_usage(Usage()),
            cost_usd=None,
            duration_s=0.0,
            agents=[],
            denials=[],
            error=error,
            exit_code=code,
        )

    @staticmethod
    def _print(**document: Any) -> None:
        text = (
            json.dumps(mask_keys_in(document), ensure_ascii=False).encode("utf-8", "replace").decode()
        )  # without lone surrogates
        sys.stdout.write(escape_json(text) + "\n")
        sys.stdout.flush()


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "estimated": usage.estimated,
    }


def _agent(session: str, state: SessionView, agent: AgentView) -> dict[str, Any]:
    import msgspec

    from friday_cli.core.protocol.forecast import as_json

    end = agent.end
    return {
        "id": f"{session}:{agent.path}",
        "path": agent.path,
        "parent": agent.parent or None,
        "profile": agent.profile,
        "task": agent.task,
        "model": agent.model,
        "status": agent.status,
        "stop_reason": end.stop_reason if end else None,
        "result": agent.result[:MAX_RESULT_CHARS],
        "result_chars": len(agent.result),
        "truncated": len(agent.result) > MAX_RESULT_CHARS,
        "partial": end is not None and end.partial,
        "earlier_result": agent.earlier.text[:MAX_RESULT_CHARS] if agent.earlier else None,
        "error": (end and (end.error or (_ending(end) if end.status == "failed" else ""))) or None,
        "usage": _usage(agent.usage),
        "cost_usd": agent.usage.cost_usd,
        "duration_s": round(agent.active_s(state.at), 3),
        "receipt": msgspec.to_builtins(agent.receipt),
        "findings": msgspec.to_builtins(end.findings) if end else [],
        "forecast": as_json(start.forecast) if (start := agent.newest_start).forecast else None,
    }


class TextWriter(OutputWriter):
    """`text`: on a terminal the streamed answer and a line per working agent; in a pipe the answer only, and long waits.

    `saved`: the session is stored. `plain`: as in a pipe.
    """

    def __init__(self, *, quiet: bool, badge: str, saved: bool = True, plain: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self._saved = saved
        self._badge = badge
        self._area: StatusArea | None = None
        self._progress: ProgressLines | None = None
        if can_redraw(sys.stderr) and not (quiet or plain):
            from .progress import ProgressLines  # imports rich, which a run in a pipe does not need

            self._area, self._progress = StatusArea(sys.stderr), ProgressLines(self.state)
        self._answer = StreamedMarkdown(self._area) if sys.stdout.isatty() and not plain else None
        self._ended: dict[str, None] = {}
        """The agents whose runs ended since this run began."""
        self._outage_reported = False
        if badge and not quiet:
            self._remark(badge)

    def apply(self, envelope: Envelope) -> None:
        super().apply(envelope)
        event = envelope.event
        if self._progress:
            self._progress.last_event[envelope.agent] = envelope.at
        if self._answer and envelope.agent == self.path:
            if isinstance(event, TextDelta):
                self._answer.feed(event.text, attempt=(event.turn, event.attempt))
            elif isinstance(event, MessageAdded) and event.message.role == "assistant":
                self._answer.finish_reply(event.message.text)
        if isinstance(event, AgentFinished):
            self._ended[envelope.agent] = None
        if isinstance(event, AttemptFailed) and not (self._quiet or self._progress):
            self._report_wait(envelope.agent, event)
        elif isinstance(event, TurnFinished):
            self._outage_reported = False
        elif isinstance(event, StatusChanged) and event.cap is not None and not (self._quiet or self._progress):
            self._remark(f"{envelope.agent}: waiting: {event.cap}. `friday budget set` raises it.")
        if self._area:
            self._area.update(self._lines)

    def _tells(self, notice: Notice) -> bool:
        return notice.level == "error" or not self._quiet

    def finish(self, outcome: RunResult, code: int) -> None:
        if self._area:
            self._area.close()
        if self._answer is None:
            if outcome.text:
                sys.stdout.write(sanitize(outcome.text).rstrip("\n") + "\n")
        else:
            self._answer.finish_reply(None if outcome.stop_reason == "done" and not outcome.partial else "")
        sys.stdout.flush()
        for line in _remarks(self.state, outcome, self.denials):
            self._remark(line)
        if not self._quiet:
            self._remark(self._summary())
        if warnings := self._warnings():
            self._remark(warnings)

    def abandon(self, code: int) -> None:
        if self._area:
            self._area.close()

    def _report_wait(self, path: str, event: AttemptFailed) -> None:
        """Report a long wait before a retry, and an outage of the network once, as soon as it is not over at once."""
        waits, first = event.retry_s or 0.0, event.error == "network" and not self._outage_reported
        if waits >= (OFFLINE_RETRY_S if first else LONG_RETRY_S):
            self._outage_reported = event.error == "network"
            self._remark(f"{path}: {event.message.rstrip('.')}. Retrying in {seconds(waits)}.")

    def _remark(self, text: str) -> None:
        if self._area:
            self._area.erase()
        remark(text)

    def _lines(self, width: int) -> list[str]:
        tail = self._answer.tail(width) if self._answer else []
        return [*tail, *(self._progress.lines(width, time.time()) if self._progress else [])]

    def _summary(self) -> str:
        state = self.state
        root = state.agents.get(self.path)
        children = len(state.agents) - 1
        parts = [f"session {state.session[:8]}" if self._saved else "session not saved"]
        if children > 0:
            ended = Counter(
                status_word(a.end.status)
                for a in state.agents.values()
                if a.parent and a.end and a.end.status != "completed"
            )
            others = ", ".join(f"{count} {status}" for status, count in ended.items())
            parts.append(pluralize(children, "sub-agent") + (f" ({others})" if others else ""))
        parts.append(f"{tokens(state.totals)} tokens{' (demo)' if self._badge.startswith('demo') else ''}")
        parts.append("no cost (demo)" if self._badge.startswith("demo") else cost(state.totals))
        if root:
            parts.append(seconds(root.active_s(state.at)))
        return " · ".join(parts)

    def _warnings(self) -> str:
        """What the receipts of this run warn of, in one line; "" for nothing."""
        found: dict[str, list[str]] = {}
        for agent in (agent for path, agent in self.state.agents.items() if path in self._ended):
            for text in agent.receipt.warnings:
                found.setdefault(text, []).append(agent.path)
        named = [_warning(text, paths) for text, paths in list(found.items())[:MAX_WARNINGS]]
        if (more := sum(map(len, list(found.values())[MAX_WARNINGS:]))) > 0:
            named.append(f"{more} more, see `friday sessions show {self.state.session[:8]} --tree`")
        count = pluralize(sum(map(len, found.values())), "warning")
        return sanitize_line(f"{count}: {'; '.join(named)}", 2000) if found else ""


def _warning(text: str, paths: list[str]) -> str:
    """A warning and the agents that it is about."""
    if len(paths) == 1 and text.startswith("claims"):
        return f"{paths[0]} {text}"
    more = len(paths) - MAX_WARNINGS
    return f"{', '.join(paths[:MAX_WARNINGS])}{f' and {more} more' if more > 0 else ''}: {text}"


def _ending(outcome: RunResult) -> str:
    """How a run ended, "" for a complete one without a limit."""
    if outcome.stop_reason in LIMIT_REASONS:
        whose = f" of {outcome.limit_of}" if outcome.limit_of not in ("", "a") else ""
        return f"stopped: the {limit_name(outcome.stop_reason)} limit{whose} was reached"
    return "" if outcome.status == "completed" else how_it_ended(outcome.status, outcome.stop_reason)


def _subject(call: DeniedCall) -> str:
    """What a denied call was about in one line; the lines of a command stay apart."""
    from friday_cli.core.text.deceptive import show_deceptive

    return sanitize_line(show_deceptive(" ⏎ ".join(call.subject.splitlines())), 200)


def _run_again(denied: Sequence[DeniedCall]) -> str:
    """How calls are allowed that were denied because nobody could be asked; "" where nobody sits at a terminal."""
    options = dict.fromkeys(_option(call) for call in denied if call.unasked)
    if not options or not sys.stdin.isatty():
        return ""
    what = " ".join([*options][:MAX_OPTIONS])
    return f"to allow {'it' if len(options) == 1 else 'them'}, run again with {what}; or continue in the chat, which asks you: friday -c"


def _option(call: DeniedCall) -> str:
    import shlex  # few runs end with a denial

    rule = f"{call.tool}({call.subject})" if call.subject and "\n" not in call.subject else call.tool
    return "--mode edits" if call.tool in (EDIT_FILE, WRITE_FILE) else f"--allow {shlex.quote(rule)}"


def _remarks(state: SessionView, outcome: RunResult, denied: Sequence[DeniedCall]) -> list[str]:
    """Messages after the answer: how the run ended, which calls were denied, which worktrees need a decision."""
    error = f": {outcome.error}" if outcome.error else ""
    lines = [f"{ending}{error}"] if (ending := _ending(outcome)) else []
    if outcome.partial and outcome.text:
        lines.append("the answer is partial: the agent did not finish it")
    denials = Counter((d.agent, d.tool, _subject(d), d.reason) for d in denied)
    for (agent, tool, subject, reason), times in list(denials.items())[:MAX_DENIALS]:
        lines.append(
            f"denied{f' {times} times' if times > 1 else ''}: {agent} {tool}{' ' + subject if subject else ''}: {reason}"
        )
    if len(denials) > MAX_DENIALS:
        lines.append(f"{pluralize(len(denials) - MAX_DENIALS, 'more call')} denied")
    if again := _run_again(denied):
        lines.append(again)
    for path, view in state.agents.items():
        if view.worktree is not None and view.worktree.state == "changed":
            command = f"friday worktrees apply {state.session[:8]}:{path}"
            changes = f"changes of {path} are in a worktree {worktree_text(view.worktree)}"
            lines.append(f"{changes}. Run `{command}` or `discard`")
    return lines
