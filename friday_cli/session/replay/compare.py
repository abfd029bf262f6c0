"""Compares a request or a result with the recorded one, and says where they differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

import msgspec

from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from friday_cli.core.protocol.provider import ENVIRONMENT, Request
from friday_cli.core.text.sanitize import sanitize_line

Kind = Literal[
    "prefix", "message", "parameter", "permission", "hook", "arguments", "result", "budget", "missing", "extra"
]
SHOWN = 160
"""Characters of a line that a divergence shows."""


class Divergence(msgspec.Struct, frozen=True):
    """A difference from the recording, and where it is. `turn` is that of `agent`, 0 where there is none. `where` names the part and
    `line` its line, from 1. `before` and `after` are the recorded line and the one of now, "" for none. `cause`: what
    changed since, as far as it is known."""

    kind: Kind
    agent: str
    turn: int
    where: str
    line: int = 0
    before: str = ""
    after: str = ""
    cause: str = ""

    @property
    def text(self) -> str:
        """One line, then the two lines that differ."""
        about = f"{self.place}: {self.where}" + (f" line {self.line}" if self.line else "")
        about = sanitize_line(about + (f" ({self.cause})" if self.cause else ""), 2 * SHOWN)
        rows = [
            f"{mark} {sanitize_line(text, SHOWN)}" for mark, text in (("-", self.before), ("+", self.after)) if text
        ]
        return "\n  ".join((f"{about} [{self.kind}]", *rows))

    @property
    def place(self) -> str:
        """The agent and its turn."""
        return f"{self.agent} turn {self.turn}" if self.turn else self.agent

    @property
    def change(self) -> tuple[str, str, str, str]:
        """What is equal for the same change at other places."""
        return self.kind, self.where, self.before, self.after


_ENVIRONMENT = re.compile(re.escape(ENVIRONMENT.strip()) + r"\n\n(.*?)(?=\n\n# |\n\n<|\Z)", re.S)
_STAYS = ("Permission mode:", "No person can")
_TOKENS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<session>"),
    (re.compile(r"[^\s'\"(]*/worktrees/<session>/[\w.-]+"), "<worktree>"),
    (re.compile(r"\| tokens: \d+ \| cost: (?:none \(demo\)|\S+) \| time: [\d.]+ s"), "| <used>"),
    (re.compile(r"(?s)Worktree \(branch [^)]*\):.*?(?=\n## Result from |\nIts own sub-agents:|\Z)"), "<changes>"),
    (re.compile(r"(?<=\[exit )(\d+), [\d.]+ s\]"), r"\1]"),
    (re.compile(r"Today is \d{4}-\d\d-\d\d"), "Today is <date>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+"), "<port>"),
    (re.compile(r"(?<= mark=)[0-9a-f]{12}\b"), "<mark>"),
)
"""What differs between two runs of the same work, and what stands for it in both."""


_RAN = re.compile(r"(?<=^- )tools run: (.*)$", re.M)
"""The tools of a receipt, in the order in which they ended: parallel ones have none."""


def canonical(folders: Iterable[str]) -> Callable[[str], str]:
    """Makes texts comparable: what differs between folders, days and machines becomes a token. `folders`: paths of the session's
    folder."""
    known = sorted({folder for folder in folders if len(folder) > 1}, key=len, reverse=True)

    def make(text: str) -> str:
        text = _ENVIRONMENT.sub(_without_place, text)
        for folder in known:
            text = text.replace(folder, "<folder>")
        for pattern, token in _TOKENS:
            text = pattern.sub(token, text)
        return _RAN.sub(lambda found: f"tools run: {', '.join(sorted(found[1].split(', ')))}", text)

    return make


def _without_place(found: re.Match[str]) -> str:
    rows = [row for row in found[1].split("\n") if row.startswith(_STAYS)]
    return "\n".join((ENVIRONMENT.strip(), "", *rows))


class _Part(NamedTuple):
    """A part of a request: what it is, and its text."""

    kind: Kind
    name: str
    text: str


def differences(old: Request, new: Request, same: Callable[[str], str], *, turn: int) -> Iterator[Divergence]:
    """Where `new` differs from `old`, the recorded request: the first line of each part that does."""
    for name in ("effort", "temperature"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield Divergence("parameter", new.agent, turn, name, before=str(before), after=str(after))
    if old.system != new.system:
        yield from first_line("prefix", new.agent, turn, "system", same(old.system), same(new.system))
    yield from _tools(old, new, turn)
    for number, (before, after) in enumerate(zip_longest(old.messages, new.messages), 1):
        if before != after:
            for one, other in zip_longest(*(_parts(message, number) for message in (before, after))):
                if one != other:
                    yield from _of_parts(one, other, new.agent, turn, same)


def _tools(old: Request, new: Request, turn: int) -> Iterator[Divergence]:
    before, after = ({tool.name: tool for tool in request.tools} for request in (old, new))
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            gone = "is gone" if now is None else "is new"
            yield Divergence("prefix", new.agent, turn, f"tool {name} {gone}")
        elif was != now:
            schemas = [json.dumps(tool.schema, indent=1, ensure_ascii=False) for tool in (was, now)]
            texts = [f"{name}\n{tool.description}\n{schema}" for tool, schema in zip((was, now), schemas, strict=True)]
            yield from first_line("prefix", new.agent, turn, f"tool {name}", *texts)
    orders = [", ".join(tools) for tools in (before, after)]
    if {*before} == {*after} and orders[0] != orders[1]:
        yield Divergence("prefix", new.agent, turn, "the order of the tools", before=orders[0], after=orders[1])


def _of_parts(
    one: _Part | None, other: _Part | None, agent: str, turn: int, same: Callable[[str], str]
) -> Iterator[Divergence]:
    part = one or other
    assert part is not None
    before, after = (same(found.text) if found is not None else "" for found in (one, other))
    if one is None or other is None:
        where = f"{part.name} {'is gone' if other is None else 'is new'}"
        yield Divergence(part.kind, agent, turn, where, before=before.split("\n")[0], after=after.split("\n")[0])
    elif one.name != other.name:
        yield Divergence(part.kind, agent, turn, one.name, before=one.name, after=other.name)
    else:
        yield from first_line(part.kind, agent, turn, part.name, before, after)


def first_line(kind: Kind, agent: str, turn: int, name: str, old: str, new: str) -> Iterator[Divergence]:
    """The first line that differs, if one does."""
    for number, (before, after) in enumerate(zip_longest(old.split("\n"), new.split("\n")), 1):
        if before != after and (before or after):
            yield Divergence(kind, agent, turn, name, number, before=before or "", after=after or "")
            return


def _parts(message: Message | None, number: int) -> Sequence[_Part]:
    """The parts of a message, as texts."""
    made = []
    for part in message.parts if message is not None else ():
        match part:
            case Text(text=text) | Thinking(text=text):
                made.append(_Part("message", f"message {number}", text))
            case ToolCall():
                made.append(_Part("message", f"message {number}, call {part.name}", part.raw or str(part.arguments)))
            case ToolResult():
                made.append(
                    _Part("result", f"message {number}, result of {part.call_id}", f"{part.status}: {part.text}")
                )
                made += [
                    _Part("result", f"message {number}, image of {part.call_id}", image.data) for image in part.images
                ]
            case Image():
                made.append(_Part("message", f"message {number}, image", part.data))
            case Opaque():
                made.append(_Part("message", f"message {number}, block of {part.origin}", str(part.data)))
    return made
