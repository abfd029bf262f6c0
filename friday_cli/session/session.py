"""The waist: one session with its engine, as every face sees it.

open -> prompt, events, answer, send, stop -> close; between two prompts also points, rewind, fork, compact. A face folds
`events()` and never looks behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Literal, TypedDict, Unpack

from friday_cli.core.eventlog import notices
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.permissions.rules import Mode, Rules
from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.core.protocol.events import Envelope, ModeChanged, Notice, RuleAdded, RuleRemoved
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Text
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.run_result import RunResult, StopReason
from friday_cli.core.subagents.node import AgentRun, SubagentTask
from friday_cli.llm import transport

from . import mentions, output_schema
from .between import Between
from .open import Options, SessionParts, drop_rule, keep_rule, open_session
from .system_prompt import mode_message

__all__ = ["Options", "Session"]


class PromptExtras(TypedDict, total=False):
    """What may come with a message of the user: `task`, what the person wrote, where the text holds more; a JSON `schema`
    that the answer must fit; `bounds`, rights that nobody may go beyond, on top of all others, until the next message."""

    task: str
    images: tuple[Image, ...]
    schema: dict[str, object] | None
    bounds: Rules | None


class Session(Between):
    """A running session. Make one with `Session.open`."""

    def __init__(self, opened: SessionParts) -> None:
        super().__init__(opened)
        self.rules = opened.rules
        self.since = opened.since
        self.profiles = opened.profiles
        self.sandbox = opened.sandbox.kind
        self.kept = not opened.store.in_memory
        self._closed = False
        opened.world.approvals.on_rule_granted = self._grant
        opened.tree.root = opened.root
        opened.tree.on_news = self._wake

    @classmethod
    async def open(cls, options: Options, *, env: Mapping[str, str] | None = None) -> Session:
        """Open a new session, or an old one with everything it knew. Raises FridayError with a line for a person."""
        return cls(await open_session(options, env))

    # ---- talking -------------------------------------------------------------------

    async def prompt(self, text: str, **more: Unpack[PromptExtras]) -> RunResult:
        """Run the root on a message of the user, as `start` does, until it and every background child has ended and been
        reported. Returns the end of the root's last run."""
        node = self.start(text, **more)
        while True:
            await node.finished()
            node = self.tree.node("a")
            if not node.ended:
                continue
            if self._closed or node.outcome.stop_reason in ("aborted", "cancelled"):
                break
            if running := self.tree.in_background():
                await asyncio.wait([n.task for n in running if n.task], return_when=asyncio.FIRST_COMPLETED)
            elif not self.root.inbox.needs_turn:
                break
            self._wake("a")
        return node.outcome

    def _wake(self, path: str) -> None:
        """Let an idle root answer what lies in its inbox: news that no person wrote, or messages that came too late."""
        last = self.tree.node("a")
        if path == "a" and last.ended and not self._closed and self.root.inbox.needs_turn:
            waiting = self.root.inbox.take_turn_message()
            task = waiting.text if waiting.source == "person" else last.spec.task
            self._run(task, Message("user", (Text(waiting.text),), waiting.source))

    async def resume_agent(
        self,
        path: str,
        text: str,
        *,
        max_tokens: int | None = None,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
        schema: dict[str, object] | None = None,
    ) -> RunResult:
        """Continue an ended sub-agent with a message of the person; returns how its run ended.

        `max_tokens` is what it may use from now on, in place of what its budget has left; the other limits (turns, US
        dollars, active seconds) only lower. Raises UsageError when there is no such agent, or it cannot be continued.
        """
        self._require_idle()
        known = self.tree.known(path)
        if known is None:
            raise UsageError(f"There is no agent {path!r} in session {self.id[:8]}.")
        try:
            spec = SubagentTask(
                known.profile, text, max_tokens=max_tokens, max_turns=max_turns, max_cost=max_cost, timeout_s=timeout,
                schema=schema,
            )  # fmt: skip
            node = await self.tree.resume(path, spec, by=None)
        except ToolError as error:
            raise UsageError(str(error)) from None
        await node.finished()
        await self._opened.store.sync()
        return node.outcome

    @property
    def idle(self) -> bool:
        """Whether the root has nothing to do: then `start` begins a run, else `send` reaches it."""
        try:
            return self.tree.node("a").ended
        except KeyError:
            return True

    def start(self, text: str, **more: Unpack[PromptExtras]) -> AgentRun:
        """Begin a run of the root; its end is in the events. The root must be idle (else: `send`).

        `@NAME` of a profile at the start of `text` makes the root hand this to a sub-agent of that profile: without
        having tried it cannot answer. Raises UsageError where it could not, or the root is at work.
        """
        self._require_idle()
        if any(node.path == "a" for node in self.tree.running("a")):
            raise UsageError("The main agent is at work.", hint="Send it a message instead, or stop it first.")
        profile = self._wanted(text)
        self.tree.started_now = []
        self.rules.parent = more.get("bounds")
        notes, self._notes = self._notes, []
        body, schema = text, more.get("schema")
        if schema is not None:
            body += f"\n\nAnswer with one JSON document and nothing else. It must fit this JSON Schema:\n{json.dumps(schema)}"
        self.root.accept = output_schema.checker(schema) if schema is not None else lambda answer: ""
        if profile:
            notes.append(mentions.note(profile))
            self.root.accept = mentions.demand(self.root, self.tree, profile, self.root.accept)
        parts: tuple[AnyPart, ...] = (*(Text(note + "\n\n") for note in notes), Text(body), *more.get("images", ()))
        return self._run(more.get("task") or text, Message("user", parts))

    def _wanted(self, text: str) -> str:
        """The profile that a prompt is addressed to, "" for the root itself."""
        name = mentions.addressed(text, self.profiles)
        if not name:
            return ""
        if name not in self._opened.offered:
            words = ", ".join(self._opened.offered)
            raise UsageError(
                f"@{name}: the main agent cannot delegate to it now.", hint=f"It can to {words or 'nobody'}."
            )
        if not mentions.task_of(text):
            raise UsageError(f"@{name} what? Write the task behind the name.")
        return name

    def _run(self, task: str, message: Message) -> AgentRun:
        if self.root.run:
            self.root.slot = RunSlot("a", log=self.log, slots=None)
        return self.tree.run(self.root, SubagentTask(self.root.profile, task), message)

    def events(self, after: int = 0, *, lull_s: float = 0.0) -> AsyncIterator[Envelope]:
        """Everything durable above number `after`, then what happens, until the session is closed. Live events come at most
        every `lull_s` seconds: whoever draws them wants no more."""
        return self.log.events(after, lull_s=lull_s)

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> bool:
        """Answer a permission (an Answer) or a question (words); False when it is not open any more."""
        return await self.world.approvals.answer(ask_id, answer)

    async def send(self, path: str, text: str) -> None:
        """Hand a message to a working agent; it reads it at its next turn. Raises UsageError when it does not work."""
        try:
            await self.tree.send(path, text, "person")
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def detach(self, path: str) -> bool:
        """Let a child that somebody waits for go on in the background; False when it cannot."""
        return await self.tree.detach(path)

    async def stop(self, path: str = "a", *, level: Literal["cancel", "abort"] = "abort") -> int:
        """End an agent and all below it; returns how many runs ended, when nothing of them is left. `level` as for
        `Tree.stop`."""
        why: StopReason = "aborted" if level == "abort" else "cancelled"
        for node in self.tree.running(path):
            if node.path == path:
                await self.tree.notify_parent(path, notices.stopped(path, node.agent.profile, level))
        return await self.tree.stop(path, level=level, why=why)

    async def apply_worktree(self, path: str) -> tuple[FileChange, ...]:
        """Take what an ended agent changed in its worktree over into the session's files, all of it or nothing.

        Raises UsageError when there is no such worktree, or with the files that conflict.
        """
        try:
            return (await self._opened.apart.apply_for_person(path)).files
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def discard_worktree(self, path: str, *, keep_branch: bool = False) -> None:
        """Remove the worktree of an ended agent, with its work unless that is kept on its branch. Raises UsageError."""
        try:
            await self._opened.apart.discard_for_person(path, keep_branch=keep_branch)
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def set_mode(self, mode: Mode) -> None:
        """Change what passes without asking, for everybody, from the next call on."""
        self.rules.mode = mode
        self._notes.append(mode_message(mode))
        await self.log.emit("a", ModeChanged(mode))

    async def revoke(self, rule: Rule) -> None:
        """Take what a person allowed back, from the next call on: in this session, and in the user's settings where it is
        kept there. Raises UsageError for a rule that stands elsewhere, FridayError where the settings cannot be written."""
        kept = rule.decision == "allow" and not rule.profile and await asyncio.to_thread(drop_rule, str(rule))
        if rule.source and not kept:
            raise UsageError(f"{rule} stands in {rule.source}.", hint="Change it there.")
        gone = (str(rule), rule.decision, rule.profile)
        self.rules.rules[:] = [r for r in self.rules.rules if (str(r), r.decision, r.profile) != gone]
        await self.log.emit("a", RuleRemoved(str(rule), rule.decision))

    async def close(self) -> None:
        """Stop what runs, write what is open, and let go of the session. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await self.tree.stop("a")
        await self._opened.apart.close()
        await self.world.workspace.close()
        await self.log.close()
        await transport.aclose_all()
        await self._opened.store.sync()
        self._opened.ownership.release()
        await self._opened.store.close()

    async def _grant(self, rule: Rule, scope: str) -> None:
        """Keep what a person allowed: for this session, or with "always" in the user's settings too."""
        self.rules.rules.append(rule)
        await self.log.emit("a", RuleAdded(str(rule), rule.decision))
        if scope == "always":
            try:
                await asyncio.to_thread(keep_rule, str(rule))
            except FridayError as error:
                await self.log.emit("a", Notice(f"The rule {rule} holds for this session only: {error}", "warning"))
