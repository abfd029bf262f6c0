"""The data of the view, which each frontend renders in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from friday_cli.core.eventlog.agent_fold import AgentState
from friday_cli.core.protocol.displays import AnyDisplay, DelegationDisplay
from friday_cli.core.protocol.events import (
    CallDelta,
    InboxMessage,
    PermissionAsked,
    QuestionAsked,
    Rewound,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    TurnStarted,
    WorktreeChanged,
)
from friday_cli.core.protocol.format import diffstat, pluralize
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.receipt import Finding, Receipt
from friday_cli.core.protocol.server_calls import arguments_line, meant_call, tool_label
from friday_cli.core.text.sanitize import sanitize

OUTPUT_KEPT = 64_000
"""Newest characters of a running tool's output that are kept."""


class TextStream(msgspec.Struct, eq=False):
    """A text from pieces with offsets; overlapping parts are added once. `start` is the offset of the first available
    character: above 0 if the beginning was missed, or dropped because of `limit` (in characters)."""

    start: int = 0
    limit: int | None = None
    _pieces: list[str] = []
    _size: int = 0

    def put(self, offset: int, text: str) -> None:
        """Add `text`, whose first character has this offset in the whole text."""
        end = self.start + self._size
        if offset > end:  # a gap: the earlier text cannot be joined
            self.start, self._pieces, self._size = offset, [], 0
        elif offset < end:
            text = text[end - offset :]
        if text:
            self._pieces.append(text)
            self._size += len(text)
        if self.limit is not None and self._size > 2 * self.limit:
            kept = self.text[-self.limit :]
            self.start += self._size - len(kept)
            self._pieces, self._size = [kept], len(kept)

    @property
    def size(self) -> int:
        """Number of available characters."""
        return self._size

    @property
    def end(self) -> int:
        """Number of characters received: the offset of the next piece."""
        return self.start + self._size

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


class ReplyItem(msgspec.Struct, eq=False):
    """A reply while it is streamed. `calls` maps the index of a call to its tool and the characters of its arguments."""

    turn: int
    attempt: int
    text: TextStream = msgspec.field(default_factory=TextStream)
    thinking: TextStream = msgspec.field(default_factory=TextStream)
    calls: dict[int, tuple[str, int]] = {}

    @property
    def chars(self) -> int:
        """Characters received: text, thinking and arguments."""
        return self.text.end + self.thinking.end + sum(chars for _, chars in self.calls.values())


class MessageItem(msgspec.Struct):
    """A message of the user, a parent agent, the harness or the model."""

    role: Literal["user", "assistant"]
    text: str
    at: float
    thinking: str = ""
    source: Literal["person", "parent", "harness"] = "person"
    images: int = 0


ToolStatus = Literal["pending", "waiting", "running", "ok", "error", "denied", "cancelled"]


class ToolRun(msgspec.Struct):
    """A tool call and its result. `text` is the result for the model, `output` the output of a running tool so far,
    `agents` the paths of the children that it started, `images` the number of images in the result."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    status: ToolStatus = "pending"
    title: str = ""
    started: float | None = None
    duration_s: float = 0.0
    display: AnyDisplay | None = None
    text: str = ""
    output: TextStream | None = None
    agents: list[str] = []
    images: int = 0

    @property
    def label(self) -> str:
        """The name of its tool for a person."""
        return tool_label(self.tool)


def tool_run(call_id: str, name: str, arguments: dict[str, Any]) -> ToolRun:
    """A call as its agent sent it. One by `mcp_call` is a call of the server's tool."""
    tool, given = meant_call(name, arguments)
    return ToolRun(call_id, tool, given, title=arguments_line(given) if tool_label(tool) != tool else "")


class NoteItem(msgspec.Struct):
    """A note of the harness: a notice, a failed attempt, a compaction, the end of a run without success. `more` is the
    full text that it is about, such as the summary of a compaction. `failures`: how many requests in a row failed that it is
    about; the text is of the last one."""

    text: str
    level: Literal["info", "warning", "error"]
    at: float
    more: str = ""
    failures: int = 0
    topic: str = ""
    """The topic of the notice that it shows."""


class ResultItem(msgspec.Struct):
    """The end of a run: what the agent returned, and what the harness knows of it. `text` is "" when the transcript has it
    as the last reply; a result of `task_result` is in no reply."""

    text: str
    at: float
    findings: tuple[Finding, ...] = ()
    receipt: Receipt = Receipt()


def not_started(run: ToolRun) -> tuple[str, ...]:
    """Why tasks of a delegation have no agent, one untrusted line for each; those of a call without any are its error."""
    return run.display.not_started if isinstance(run.display, DelegationDisplay) and run.agents else ()


def finding_text(finding: Finding) -> str:
    """A finding with its mark, in one line of untrusted text."""
    return f"{'[seen]' if finding.seen else '[not seen]'} {finding.claim} ({finding.evidence})"


def count_findings(findings: Sequence[Finding]) -> str:
    """The findings in a few words; "" for none."""
    seen = sum(finding.seen for finding in findings)
    parts = [f"{count} [{mark}]" for count, mark in ((seen, "seen"), (len(findings) - seen, "not seen")) if count]
    return f"{pluralize(len(findings), 'finding')}: {', '.join(parts)}" if findings else ""


Item = MessageItem | ToolRun | NoteItem | ResultItem


class PendingAsk(msgspec.Struct):
    """A permission request or question that waits for the user; `task` and `profile` are those of the asking agent."""

    agent: str
    profile: str
    task: str
    at: float
    event: PermissionAsked | QuestionAsked


class DeniedCall(msgspec.Struct):
    """A denied call."""

    agent: str
    """The path of the agent that made it."""
    call_id: str
    tool: str
    subject: str
    """What it was about, such as a command or a path; one line each."""
    reason: str
    by: Literal["person", "harness"]
    """Who decided: the user, or a rule or mode."""
    unasked: bool = False
    """Whether it was denied only because no person could be asked."""


class AgentView(AgentState):
    """The view of one agent. Times are Unix seconds, durations are seconds."""

    task: str = ""
    """Its task; a message of the user to a sub-agent does not replace it."""
    started: float = 0.0
    """The start of its first run."""
    finished: float | None = None
    """The end of its newest run."""
    window: int = 0
    """Context window of its model in tokens, 0 before its first turn."""
    turns: int = 0
    """Turns of all its runs."""
    children: list[str] = msgspec.field(default_factory=list)
    queued: list[InboxMessage] = msgspec.field(default_factory=list)
    transcript: list[Item] = msgspec.field(default_factory=list)
    reply: ReplyItem | None = None
    marks: dict[int, tuple[list[Item], int]] = msgspec.field(default_factory=dict)
    """The transcript and its length before each rewind point, by event number."""
    calls: dict[str, ToolRun] = msgspec.field(default_factory=dict)
    """All its calls by id."""
    open: dict[str, ToolRun] = msgspec.field(default_factory=dict)
    """The calls without a result."""
    writing: bool = False
    """Whether the reply of `turn` and `attempt` is being streamed, so that its deltas are accepted."""
    attempt: int = 1
    request: TurnStarted = TurnStarted(0)
    """Its newest request."""
    denied_before: int = 0
    """The denied calls of its runs before the newest one."""

    @property
    def asked_at(self) -> float:
        """When the person wrote the newest message that it has read, or its first run began, in Unix seconds."""
        said = (m for m in reversed(self.transcript) if isinstance(m, MessageItem) and m.role == "user")
        return next((m.at for m in said if m.source == "person"), self.started)

    @property
    def usage_now(self) -> Usage:
        """Its usage, with an estimate for the reply that is being streamed."""
        streamed = self.reply.chars if self.reply else 0
        if not streamed:
            return self.usage
        sent, price, output = self.request.request, self.request.output_usd, (streamed + 3) // 4
        cost = None if price is None or sent.cost_usd is None else sent.cost_usd + price * output
        return self.usage + msgspec.structs.replace(sent, output=output, cost_usd=cost, estimated=True)

    @property
    def result(self) -> str:
        """The result text of its newest run, "" while that has not ended."""
        return self.end.text if self.end else ""

    @property
    def warned(self) -> bool:
        """Whether its newest run completed, but the receipt has warnings about the result."""
        return self.status == "completed" and bool(self.receipt.warnings)

    @property
    def unshown_result(self) -> str:
        """Its result after its end, or "" if its last message ends the result."""
        last = next((item for item in reversed(self.transcript) if isinstance(item, MessageItem)), None)
        reply = last.text.strip() if last is not None and last.role == "assistant" else ""
        return "" if reply and self.result.rstrip().endswith(reply) else self.result

    @property
    def current(self) -> ToolRun | None:
        """The running tool, the newest if there are several."""
        return next((run for run in reversed(self.open.values()) if run.status == "running"), None)

    @property
    def batch(self) -> str:
        """The id of the call of `map_tasks` that it does an item for, the caller for `friday map`, "" if it does none."""
        return self.newest_start.batch

    @property
    def waits_for_cap(self) -> bool:
        """Whether it waits for a cap over all sessions of the person."""
        return self.status == "waiting_budget" and self.waiting.cap is not None

    @property
    def waits_for_network(self) -> bool:
        """Whether it has no connection to its model."""
        return self.status == "waiting_rate" and self.waiting.reason == "network"

    @property
    def wait_until(self) -> float:
        """When its wait for a rate limit or a connection ends, in Unix seconds."""
        return self.clock.since + (self.waiting.wait_s or 0.0)

    def close_reply(self) -> None:
        """Discard the streamed reply: it is in the transcript, or failed. Later deltas of it are ignored."""
        self.writing, self.reply = False, None

    def put_delta(self, event: TextDelta | ThinkingDelta | CallDelta) -> None:
        """Add a piece to the streamed reply, unless it is too late."""
        if not self.writing or event.turn != self.turn or event.attempt < self.attempt:
            return
        reply = self.reply
        again = isinstance(event, TextDelta) and not (event.text or event.offset)  # what came before does not count
        if reply is None or reply.attempt < event.attempt or (again and reply.attempt == event.attempt):
            reply = self.reply = ReplyItem(event.turn, event.attempt)
        if reply.attempt != event.attempt:
            return
        if isinstance(event, TextDelta):
            reply.text.put(event.offset, event.text)
        elif isinstance(event, ThinkingDelta):
            reply.thinking.put(event.offset, event.text)
        else:
            reply.calls[event.index] = (event.tool, event.chars)

    def put_output(self, event: ToolOutput) -> None:
        """Add output to a call that runs."""
        run = self.open.get(event.call_id)
        if run is not None and run.status == "running":
            run.output = run.output or TextStream(limit=OUTPUT_KEPT)
            run.output.put(event.offset, event.text)

    def active_s(self, now: float) -> float:
        """Active seconds of all its runs; the time of an open run counts until `now`."""
        return self.clock.total(now)


def rewind_text(event: Rewound) -> str:
    """A short description of a rewind."""
    what = {"files": "the files", "conversation": "the conversation", "both": "conversation and files"}[event.what]
    return f"Undid a rewind of {what}." if event.undo else f"Rewound {what}."


def worktree_text(event: WorktreeChanged) -> str:
    """The state of a worktree: `on friday/7f3a1b2c-1: 3 files changed +10 -2, not applied`."""
    files = f"{pluralize(len(event.files), 'file')} changed {diffstat(event.files)}"
    words = {
        "opened": "opened",
        "changed": f"{files}, not applied",
        "unchanged": "no changes, removed",
        "applied": f"{files}, applied",
        "discarded": "discarded",
        "kept": f"{files}, kept on the branch",
    }
    return f"on {sanitize(event.branch, keep='')}: {words[event.state]}"
