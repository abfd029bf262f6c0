"""Playing a script against a conversation: the script says what it wants, the history says what came of it.

A script is a generator: it yields steps (what to say, which tools to call), is sent what came of the calls, and returns
its end. Nothing is kept between requests: each time it runs anew through what the history holds, so that a session can
be resumed by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from friday_cli.core.agent.compaction import HEADER, PROMPT
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.messages import Message, Text, ToolResult
from friday_cli.core.protocol.provider import Request

LAST_WISH, AGENTS_SEEN = "The last message of the user, word for word:\n", "\n\nSub-agents of this session:\n"
CUT_OFF, WRONG_FORM = f"{NOTE} Your reply was cut off", f"{NOTE} The answer has the wrong form"


class Wish(msgspec.Struct, frozen=True):
    """A call that a script wants."""

    tool: str
    arguments: dict[str, Any]

    @property
    def source(self) -> str:
        """The call in a few words, as its title stands in the log."""
        a = self.arguments
        what = a.get("pattern") or a.get("path") or a.get("command") or a.get("profile") or "."
        where = f" in {a['path']}" if "pattern" in a and a.get("path", ".") != "." else ""
        return f"{self.tool} {what}{where}" + (f" ({a['glob']})" if a.get("glob") else "")


class Got(msgspec.Struct, frozen=True):
    """What came of a wish; `absent` where the agent has no such tool."""

    wish: Wish
    status: Literal["ok", "error", "denied", "cancelled", "absent"]
    text: str

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def trouble(self) -> str:
        """Why there is no good result, in words."""
        words = {"denied": "was refused", "cancelled": "was stopped", "absent": "is not among the tools"}
        return f"{self.wish.tool} {words.get(self.status, 'failed')}: {self.text}"


class Finding(msgspec.Struct, frozen=True):
    """A statement in one line, and the call it came from."""

    claim: str
    evidence: str


class Step(msgspec.Struct, frozen=True):
    """One reply that calls tools."""

    text: str
    thinking: str
    wishes: tuple[Wish, ...]


class End(msgspec.Struct, frozen=True):
    """The last reply of a script."""

    text: str
    findings: tuple[Finding, ...] = ()
    success: bool = True


Script = Generator[Step, Sequence[Got], End]
Part = Generator[Step, Sequence[Got], None]


@dataclass
class Seat:
    """What a script may know. `crew` are the profiles it can delegate to; `findings` grow while it works."""

    agent: str
    prompt: str
    tools: frozenset[str]
    crew: frozenset[str]
    folder: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_child(self) -> bool:
        return depth_of(self.agent) > 0

    def note(self, claim: str, got: Got) -> None:
        """Keep a finding that came from one of this agent's own calls."""
        self.findings.append(Finding(claim, f"{self.agent}: {got.wish.source}"))


class Reply(msgspec.Struct, frozen=True):
    """What to say now: a step, or the end of all that was asked. `seat` is that of the script at work; `refused` tells
    that handing the end in was tried in vain."""

    said: Step | End
    seat: Seat
    refused: bool = False


class Stage:
    """One request, and the scripts that play in it. `plot` gives the script for a prompt; `new` makes its seat."""

    def __init__(self, request: Request, *, plot: Callable[[Seat], Script], new: Callable[[str], Seat]) -> None:
        self._messages = request.messages
        self._tools = frozenset(spec.name for spec in request.tools)
        self._plot, self._new = plot, new
        self._waiting: list[str] = []
        self._prompt = ""
        self._said = ""
        self._script: Script | None = None
        self._seat = new("")
        self._step: Step | End | None = None
        self._gots: list[Got] = []
        self._stopped = False
        self._refused: End | None = None

    def reply(self) -> Reply:
        """Run through the conversation and say what comes next."""
        messages = self._messages
        for index, message in enumerate(messages):
            if message.role == "user":
                self._hear(message)
            elif message.role == "tool":
                self._collect(message)
            elif message.calls:
                self._compare(message)
            elif index + 1 < len(messages) and messages[index + 1].text.startswith(CUT_OFF):
                self._said += message.text
            else:
                self._settle()
        if self._refused is not None:
            return Reply(self._refused, self._seat, refused=True)
        said = self._next()
        if self._said and isinstance(said, End):
            said = msgspec.structs.replace(said, text=said.text[len(self._said) :])
        return Reply(said, self._seat)

    def _hear(self, message: Message) -> None:
        words = prompt_of(message)
        if words is None:
            return
        self._refused = None
        if self._stopped:  # what was going on was broken off by hand: only the new word counts
            self._settle()
        self._prompt = words
        self._waiting.append(words)

    def _compare(self, message: Message) -> None:
        """See whether the history holds what this script would have said; another model's replies are passed over."""
        said = self._next()
        calls = [(c.name, c.arguments) for c in message.calls]
        if isinstance(said, End):
            known = [name for name, _ in calls] == ["task_result"]
        else:
            known = calls == [(w.tool, w.arguments) for w in self._possible(said)]
        self._step = said if known else None
        if not known:
            self._settle()
            self._waiting = [self._prompt]

    def _collect(self, message: Message) -> None:
        self._stopped = any(r.status == "cancelled" for r in message.results)
        if isinstance(self._step, Step):
            results = iter(message.results)
            self._gots = [
                _got(wish, next(results, None)) if wish.tool in self._tools else _absent(wish)
                for wish in self._step.wishes
            ]
        elif isinstance(self._step, End):
            refused = None if all(r.status == "ok" for r in message.results) else self._step
            self._settle()
            self._refused = refused

    def _settle(self) -> None:
        self._script, self._step, self._refused = None, None, None
        self._waiting, self._said, self._stopped = [], "", False

    def _next(self) -> Step | End:
        ends: list[End] = []
        said = self._begin() if self._script is None else self._send(self._gots)
        while True:
            if isinstance(said, End):
                ends.append(said)
                if not self._waiting:
                    return _joined(ends)
                said = self._begin()
            elif not self._possible(said):
                said = self._send([_absent(wish) for wish in said.wishes])
            else:
                before = "".join(f"{end.text}\n\n" for end in ends)
                return msgspec.structs.replace(said, text=before + said.text)

    def _begin(self) -> Step | End:
        prompt = self._waiting.pop(0) if self._waiting else self._prompt
        self._seat = self._new(prompt)
        self._script = self._plot(self._seat)
        return self._send(None)

    def _send(self, gots: Sequence[Got] | None) -> Step | End:
        assert self._script is not None
        try:
            return next(self._script) if gots is None else self._script.send(gots)
        except StopIteration as stop:
            end: End = stop.value
            return end

    def _possible(self, step: Step) -> tuple[Wish, ...]:
        return tuple(wish for wish in step.wishes if wish.tool in self._tools)


def possible(step: Step, request: Request) -> tuple[Wish, ...]:
    """The wishes of a step that the agent has tools for."""
    tools = {spec.name for spec in request.tools}
    return tuple(wish for wish in step.wishes if wish.tool in tools)


def prompt_of(message: Message) -> str | None:
    """What somebody asked in a user message, None for notes of the harness."""
    texts = [p.text for p in message.parts if isinstance(p, Text)]
    if message.source != "harness":
        return "".join(text for text in texts if not text.startswith(NOTE))
    text = "".join(texts)
    if not text.startswith(HEADER) or LAST_WISH not in text:
        return None
    return text.partition(LAST_WISH)[2].partition(AGENTS_SEEN)[0]


def wants_summary(request: Request) -> bool:
    """Whether the harness asks for a summary because the context is full."""
    return bool(request.messages) and request.messages[-1].text.endswith(PROMPT)


def wants_other_form(request: Request) -> bool:
    """Whether the last answer was sent back because it did not fit a schema."""
    return bool(request.messages) and request.messages[-1].text.startswith(WRONG_FORM)


def _got(wish: Wish, result: ToolResult | None) -> Got:
    return Got(wish, "cancelled", "no result") if result is None else Got(wish, result.status, result.text)


def _absent(wish: Wish) -> Got:
    return Got(wish, "absent", "this agent does not have it")


def _joined(ends: Sequence[End]) -> End:
    return End(
        "\n\n".join(end.text for end in ends),
        tuple(finding for end in ends for finding in end.findings),
        all(end.success for end in ends),
    )
