"""What an external agent says that it does, as events of Friday. All of it is its word: nothing here is evidence."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.events import MessageAdded, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from friday_cli.core.protocol.messages import Message, ResultStatus, Text
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.llm.transport.text import dict_in, dicts_in

from .turns import Turns
from .usage import count

KINDS = frozenset(("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"))
"""The kinds of calls of the protocol."""
MOST_CALLS = 2_000
"""Calls of one run that are logged."""
MOST_TEXT = 1_000_000
"""Characters of text of one run that are kept."""
OUTPUT_CHARS = 4_000
"""Characters of a call's output that are kept."""
_ENDS: dict[str, ResultStatus] = {"completed": "ok", "failed": "error"}


class ReportedCall(msgspec.Struct):
    """A call that the program reports: its `fields` as of now."""

    id: str
    fields: dict[str, Any]
    began: float
    ended: bool = False

    @property
    def kind(self) -> str:
        """Its kind in the protocol."""
        kind = self.fields.get("kind")
        return kind if isinstance(kind, str) and kind in KINDS else "other"

    @property
    def tool(self) -> str:
        """Its name in the log."""
        return f"{self.kind} (reported)"

    @property
    def title(self) -> str:
        """One line for people."""
        return sanitize_line(str(self.fields.get("title") or command_of(self.fields) or self.kind), 300)


class Updates:
    """Takes the updates of a run. A turn begins where the program seems to have sent a new request to its model. The text after its last
    call is `last_text`."""

    def __init__(self, agent: Agent, services: Services, turns: Turns) -> None:
        self._agent, self._log, self._turns = agent, services.log, turns
        self.calls: dict[str, ReportedCall] = {}
        self.commands: list[tuple[str, str]] = []
        """The commands that it says it ran, each with its status."""
        self.changed: dict[str, None] = {}
        """The files that it says it changed."""
        self.cost_usd: float | None = None
        """US dollars of its session, as it says."""
        self.last_text = ""
        self._text: list[str] = []
        self._length = self._whole = self._thought = 0
        self._new_request = True

    def prompted(self) -> None:
        """A prompt is being sent: what comes next is of a new request."""
        self._new_request = True
        self.last_text = ""

    def take(self, update: dict[str, Any]) -> None:
        """One update; an unknown or wrong one says nothing."""
        kind = update.get("sessionUpdate")
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            text = dict_in(update.get("content")).get("text")
            if isinstance(text, str) and text:
                self._begin_request()
                self._say(text) if kind == "agent_message_chunk" else self._think(text)
        elif kind in ("tool_call", "tool_call_update") and isinstance(update.get("toolCallId"), str):
            self._call(update)
        elif kind == "usage_update":
            self._usage(update)

    def _begin_request(self) -> None:
        if self._new_request:
            self._new_request = False
            self._turns.seen()
            self._length = self._thought = 0

    def _say(self, text: str) -> None:
        text = sanitize(text)[: MOST_TEXT - self._whole]
        self._whole += len(text)
        if text:
            self._log.live(self._agent.path, TextDelta(self._agent.turn, 1, self._length, text))
            self._length += len(text)
            self._text.append(text)
            self._agent.streaming += text

    def _think(self, text: str) -> None:
        text = sanitize(text)[: MOST_TEXT - self._whole]
        self._whole += len(text)
        self._log.live(self._agent.path, ThinkingDelta(self._agent.turn, 1, self._thought, text))
        self._thought += len(text)

    def flush(self) -> None:
        """Log the text since the last call."""
        text = "".join(self._text).strip()
        self._text.clear()
        self._agent.streaming = ""
        if text:
            self.last_text = text
            self._agent.texts.append(text)
            message = Message("assistant", (Text(text),), origin=self._agent.model)
            self._agent.conversation.history.append(message)
            self._log.emit_soon(self._agent.path, MessageAdded(message))

    def _call(self, update: dict[str, Any]) -> None:
        ident = str(update["toolCallId"])[:200]
        call = self.calls.get(ident)
        if call is None:
            if len(self.calls) >= MOST_CALLS:
                return
            self._begin_request()
            self.flush()
            self.last_text = ""
            now = asyncio.get_running_loop().time()
            call = self.calls[ident] = ReportedCall(self.call_id(ident), bounded(update), now)
            self._log.emit_soon(self._agent.path, ToolStarted(call.id, call.tool, call.title))
        else:
            call.fields |= bounded(update)
        status = _ENDS.get(str(update.get("status")))
        if status is not None and not call.ended:
            self._end(call, status)

    def call_id(self, ident: str) -> str:
        """The id in the log of a call of the program."""
        return f"x{self._agent.run}-{sanitize_line(ident, 100)}"

    def _end(self, call: ReportedCall, status: ResultStatus) -> None:
        call.ended = self._new_request = True
        facts = ToolFacts()
        if call.kind == "execute" and (command := command_of(call.fields)):
            self.commands.append((command, status))
            facts = ToolFacts(reported=(ran(command, status),))
        elif call.kind in ("edit", "delete", "move") and status == "ok":
            paths = paths_of(call.fields)
            self.changed |= dict.fromkeys(paths)
            facts = ToolFacts(reported=tuple(f"changed {sanitize_line(path, 300)}" for path in paths))
        took = asyncio.get_running_loop().time() - call.began
        self._agent.receipt_builder.add(call.tool, status, facts)
        done = ToolFinished(call.id, call.tool, status, took, facts=facts, text=_output(call.fields))
        self._log.emit_soon(self._agent.path, done)

    def end_open_calls(self) -> None:
        """The prompt is over: calls without an end are cancelled."""
        for call in self.calls.values():
            if not call.ended:
                self._end(call, "cancelled")

    def _usage(self, update: dict[str, Any]) -> None:
        cost = dict_in(update.get("cost"))
        self._turns.context = count(update, "used") or self._turns.context
        amount = cost.get("amount") if cost.get("currency", "USD") == "USD" else None
        if isinstance(amount, int | float) and 0 <= amount < 10**6:
            self.cost_usd = float(amount)


def bounded(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a call that are read and have a value."""
    names = ("title", "kind", "rawInput", "locations", "content")
    return {name: value for name in names if (value := fields.get(name)) is not None}


def ran(command: str, status: str) -> str:
    """The line of the receipt for a command that the program says it ran."""
    return f"ran {sanitize_line(command, 300)} -> {status}"


def command_of(fields: dict[str, Any]) -> str:
    """The command line of a call, "" if it names none."""
    raw = dict_in(fields.get("rawInput"))
    command = raw.get("command", raw.get("cmd"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        import shlex

        shells = ("bash", "sh", "zsh")
        if len(command) == 3 and command[0].rpartition("/")[2] in shells and command[1] in ("-c", "-lc"):
            return str(command[2])
        return shlex.join(command)
    if isinstance(command, str):
        return command
    return str(fields.get("title") or "").strip().strip("`") if fields.get("kind") == "execute" else ""


def paths_of(fields: dict[str, Any]) -> list[str]:
    """The files that a call names."""
    raw, rows = dict_in(fields.get("rawInput")), (*dicts_in(fields.get("content")), *dicts_in(fields.get("locations")))
    found = [row.get("path") for row in rows]
    if not any(found):
        found = [raw.get(key) for key in ("file_path", "filePath", "path", "absolute_path")]
        found += dict_in(raw.get("changes"))
    return list(dict.fromkeys(path for path in found if isinstance(path, str) and path))[:100]


def _output(fields: dict[str, Any]) -> str:
    """What a call printed or returned, as the program says."""
    texts = [dict_in(row.get("content")).get("text") for row in dicts_in(fields.get("content"))]
    return sanitize("\n".join(text for text in texts if isinstance(text, str)))[:OUTPUT_CHARS]
