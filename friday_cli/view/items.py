"""What the view is made of: plain data that every face draws in its own way."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from friday_cli.core.eventlog.agent_fold import AgentState
from friday_cli.core.protocol.displays import AnyDisplay
from friday_cli.core.protocol.events import (
    InboxMessage,
    PermissionAsked,
    QuestionAsked,
    Rewound,
    WorktreeChanged,
)
from friday_cli.core.protocol.format import diffstat, pluralize
from friday_cli.core.text.sanitize import sanitize

OUTPUT_KEPT = 64_000
"""Characters of a running tool's output that are kept, its newest."""


class TextStream(msgspec.Struct, eq=False):
    """Text that grows piece by piece, each at its offset; what comes twice is taken once. `start` is the offset of what
    is there: above 0 when the beginning was missed or dropped."""

    start: int = 0
    most: int | None = None
    _pieces: list[str] = []
    _size: int = 0

    def put(self, offset: int, text: str) -> None:
        """Add `text`, which begins `offset` characters into the whole."""
        end = self.start + self._size
        if offset > end:  # a hole: what came before it cannot be joined
            self.start, self._pieces, self._size = offset, [], 0
        elif offset < end:
            text = text[end - offset :]
        if text:
            self._pieces.append(text)
            self._size += len(text)
        if self.most is not None and self._size > 2 * self.most:
            kept = self.text[-self.most :]
            self.start += self._size - len(kept)
            self._pieces, self._size = [kept], len(kept)

    @property
    def size(self) -> int:
        """Characters that are there."""
        return self._size

    @property
    def end(self) -> int:
        """Characters that there have been: the offset at which the next piece begins."""
        return self.start + self._size

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


class ReplyItem(msgspec.Struct, eq=False):
    """A reply while it is being written. `calls` has the tool and the characters of arguments so far, by index."""

    turn: int
    attempt: int
    text: TextStream = msgspec.field(default_factory=TextStream)
    thinking: TextStream = msgspec.field(default_factory=TextStream)
    calls: dict[int, tuple[str, int]] = {}


class MessageItem(msgspec.Struct):
    """A message of a person, a parent, the harness or the model."""

    role: Literal["user", "assistant"]
    text: str
    at: float
    thinking: str = ""
    source: Literal["person", "parent", "harness"] = "person"
    images: int = 0


ToolStatus = Literal["pending", "waiting", "running", "ok", "error", "denied", "cancelled"]


class ToolRun(msgspec.Struct):
    """A call of a tool and what came of it. `text` is the result as the model reads it, `output` what a running tool
    has shown so far, `agents` the paths of the children it started."""

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


class NoteItem(msgspec.Struct):
    """A remark of the harness: a notice, a failed attempt, a compaction, an end that is not plain success. `more` is what
    it is about, in full: the summary of a compaction."""

    text: str
    level: Literal["info", "warning", "error"]
    at: float
    more: str = ""


Item = MessageItem | ToolRun | NoteItem


class PendingAsk(msgspec.Struct):
    """A permission or question that waits for a person; `task` and `profile` are those of the agent that asks."""

    agent: str
    profile: str
    task: str
    at: float
    event: PermissionAsked | QuestionAsked


class DeniedCall(msgspec.Struct):
    """A call that was refused. `by` tells whether a person did it or a rule."""

    agent: str
    call_id: str
    tool: str
    subject: str
    reason: str
    by: Literal["person", "harness"]


class AgentView(AgentState):
    """One agent as a person sees it. Times in Unix seconds, durations in seconds."""

    task: str = ""
    """Its task; a message of a person to a sub-agent does not replace it."""
    started: float = 0.0
    """The start of its first run."""
    finished: float | None = None
    """The end of its newest run."""
    window: int = 0
    """Tokens that its model can hold, 0 before its first turn."""
    turns: int = 0
    """Turns of all its runs."""
    children: list[str] = msgspec.field(default_factory=list)
    queued: list[InboxMessage] = msgspec.field(default_factory=list)
    transcript: list[Item] = msgspec.field(default_factory=list)
    reply: ReplyItem | None = None
    marks: dict[int, tuple[list[Item], int]] = msgspec.field(default_factory=dict)
    """Its transcript and the length of it right before each rewind point, by event number."""
    calls: dict[str, ToolRun] = msgspec.field(default_factory=dict)
    """All its calls by id."""
    open: dict[str, ToolRun] = msgspec.field(default_factory=dict)
    """The calls without a result yet."""
    writing: bool = False
    """Whether a reply is being written, so that live text counts; `turn` and `attempt` say which."""
    attempt: int = 1

    @property
    def free(self) -> int | None:
        """Tokens of the window that are left; None before the first turn."""
        return max(0, self.window - self.context) if self.window else None

    @property
    def result(self) -> str:
        """The text that its newest run returned, "" while that is open."""
        return self.end.text if self.end else ""

    @property
    def current(self) -> ToolRun | None:
        """The tool that runs, the newest of several."""
        return next((run for run in reversed(self.open.values()) if run.status == "running"), None)

    def active_s(self, now: float) -> float:
        """Active seconds of all its runs, until `now` where one is open."""
        return self.clock.total(now)


def rewound_words(event: Rewound) -> str:
    """A rewind in a few words."""
    what = {"files": "the files", "conversation": "the conversation", "both": "conversation and files"}[event.what]
    return f"Took a rewind of {what} back." if event.undo else f"Rewound {what}."


def worktree_words(event: WorktreeChanged) -> str:
    """How a worktree stands, in a few words: `on friday/7f3a1b2c-1: 3 files changed +10 -2, not applied`."""
    files = f"{pluralize(len(event.files), 'file')} changed {diffstat(event.files)}"
    words = {
        "opened": "opened",
        "changed": f"{files}, not applied",
        "unchanged": "nothing changed, removed",
        "applied": f"{files}, applied",
        "discarded": "discarded",
        "kept": f"{files}, kept on the branch",
    }
    return f"on {sanitize(event.branch, keep='')}: {words[event.state]}"
