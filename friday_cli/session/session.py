"""A session with its engine, as frontends see it.

Open it, send prompts, answer questions, read its events, close it. `rewind` and `permissions` group what concerns these.
A frontend builds its view from `events()` and uses no other part of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Unpack

from friday_cli.agents.skills import PersonSkills
from friday_cli.core.agent.agent import Source
from friday_cli.core.eventlog import notices
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import BudgetSpent, ToolError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.run_result import RunResult, StopReason
from friday_cli.core.subagents.node import AgentRun, SubagentTask

from .attachments import PromptText, attached
from .main_agent import MainAgent, PromptExtras
from .open import open_session
from .open_context import Options
from .parts import SessionParts
from .port import RunName, SessionFacts

if TYPE_CHECKING:
    from friday_cli.agents.sub_agents import SubAgentChoice
    from friday_cli.core.protocol.workspace import CommandResult

    from .commands import Command
    from .context_size import ContextSize
    from .permissions import SessionPermissions
    from .person_takeover import PersonTakeover
    from .program_calls import ProgramCalls
    from .rewind import Rewinder

R = TypeVar("R")

__all__ = ["Options", "Session"]


class ResumeExtras(TypedDict, total=False):
    """The optional parts of a message that resumes a sub-agent. `limits.tokens` replaces what is left of its token budget; the
    other limits can only be lowered. `schema`: a JSON Schema that the answer must fit."""

    limits: Limits
    schema: dict[str, object] | None
    with_person: bool


class Session:
    """A running session. Make one with `Session.open`. `since`: the number of the last event before this opening.
    `profiles`: names of all profiles. `sandbox`: the kind that confines commands. `servers`: its MCP servers, None if it has none. `kept`: whether the session is stored
    on disk. `program`: makes calls as the main agent, None for a session that no program drives."""

    def __init__(self, parts: SessionParts) -> None:
        self.id = parts.storage.id
        self.since = parts.storage.since
        self.profiles = parts.shared.profiles.names()
        self.sandbox = parts.sandbox.kind
        self.kept = not parts.storage.store.in_memory
        self.permissions: SessionPermissions = parts.permissions
        self.approvals = parts.shared.services.approvals
        self.sub_agents: SubAgentChoice = parts.sub_agents
        self.servers = parts.shared.servers
        self.code = parts.shared.code
        self._parts = parts
        self._log = parts.storage.log
        self._tree = parts.tree
        self._main = MainAgent(parts)
        self.settled = self._main.settled
        self.program: ProgramCalls | None = None
        if parts.caller:
            from .program_calls import ProgramCalls

            self.program = ProgramCalls(parts.caller, self._main, parts)
        self.skills: PersonSkills = PersonSkills(parts.shared.skills, self._main.agent)

    @classmethod
    async def open(cls, options: Options, *, env: Mapping[str, str] | None = None) -> Session:
        """Open a new session, or resume one. Raises FridayError with a message for a person."""
        return cls(await open_session(options, env))

    # ---- the main agent ------------------------------------------------------------

    @property
    def facts(self) -> SessionFacts:
        """What is so now."""
        agent, servers = self._main.agent, self.servers
        conversation = agent.conversation
        return SessionFacts(
            model=agent.model,
            effort=conversation.effort,
            badge=conversation.provider.badge,
            context_window=conversation.provider.window,
            idle=self.idle,
            mode=self.permissions.mode,
            sandbox=self.sandbox,
            kept=self.kept and self._log.failure is None,
            at_work=len(self._tree.running("a")),
            prompts=None if servers is None else tuple(servers.prompts()),
        )

    async def do(self, command: Command[R], on_output: Callable[[str], None] = lambda text: None) -> R:
        """Carry out a command; the class of each says which errors it raises. `on_output` gets the output of a command of the
        person while it runs."""
        from .dispatch import carry_out

        return await carry_out(self, command, on_output)

    @property
    def context_size(self) -> ContextSize:
        """What the main agent's context window holds now, also right after a rewind."""
        from .context_size import context_size

        return context_size(self._main.agent)

    @property
    def idle(self) -> bool:
        """Whether the main agent is not running: then `start` starts a run, else `send` reaches it."""
        return self._main.idle

    def start(self, text: str, **more: Unpack[PromptExtras]) -> RunName:
        """Start a run of the main agent; its result is in the events. The agent must be idle (else: `send`). If `text`
        starts with `@NAME` of a profile, the agent must delegate to that profile before it can answer. Raises
        UsageError if it cannot delegate to that profile, or is running."""
        return _name_of(self._main.start(text, **more))

    async def prompt(self, text: str, **more: Unpack[PromptExtras]) -> RunResult:
        """Run the main agent as `start` does, until it and all background sub-agents have ended and their results were
        reported to it. Returns the result of its last run."""
        node = self._main.start(text, **more)
        while True:
            await node.finished()
            node = self._tree.node("a")
            if not node.ended:
                continue
            if self._tree.closed or node.outcome.stop_reason in ("aborted", "cancelled"):
                break
            if running := self._tree.in_background():
                await asyncio.wait([n.task for n in running if n.task], return_when=asyncio.FIRST_COMPLETED)
            elif not self._main.agent.inbox.needs_turn:
                break
            self._tree.wake()
        return node.outcome

    async def attach(self, prompt: str | PromptText) -> tuple[str, tuple[Image, ...], list[str]]:
        """The text with the content of the files and resources of MCP servers that it names with `@`, or of the prompt of a
        server that it begins with (`/mcp__SERVER__PROMPT`), the images among them, and remarks for the person. A text is one that
        the person typed."""
        prompt = PromptText(prompt) if isinstance(prompt, str) else prompt
        return await attached(
            prompt,
            self._parts.shared.services.workspace,
            rules=self._main.agent.rules,
            profiles=self.profiles,
            servers=self.servers,
        )

    async def compact(self, instructions: str = "") -> tuple[int, int]:
        """Replace the main agent's history by a summary of it; `instructions` name what the summary must contain.

        Returns the tokens of the context before and after. The log keeps the whole history. Cancelling the caller's task
        leaves everything as it was. Raises UsageError while an agent is running or if there is nothing to compact,
        FridayError if the model did not produce a summary.
        """
        return await self._main.compact(instructions)

    @cached_property
    def takeover(self) -> PersonTakeover:
        """Takes sub-agents over for the person."""
        from .person_takeover import PersonTakeover

        return PersonTakeover(self._parts, self.start_agent)

    @cached_property
    def rewind(self) -> Rewinder:
        """Rewinds and forks the session, and reviews the changes of its agents."""
        from .rewind import Rewinder

        parts = self._parts
        return Rewinder(self.id, parts.storage.store, self._log, parts.workspace, agents=self._main)

    # ---- all agents ----------------------------------------------------------------

    async def start_agent(self, path: str, text: str, **more: Unpack[ResumeExtras]) -> RunName:
        """Start a run of an ended sub-agent with a message of the person. Raises UsageError if there is no such agent, or
        it cannot be resumed; BudgetSpent if it needs more tokens."""
        self._main.require_idle()
        known = self._tree.known(path)
        if known is None:
            raise UsageError(f"There is no agent {path!r} in session {self.id[:8]}.")
        try:
            task = SubagentTask(known.profile, text, **more)
            return _name_of(await self._tree.resumer.resume(path, task, by=None))
        except BudgetSpent:
            raise
        except ToolError as error:
            raise UsageError(str(error)) from None

    def running(self, path: str = "a") -> list[RunName]:
        """The active runs of an agent and all below it."""
        return [_name_of(node) for node in self._tree.running(path)]

    async def result(self, run: RunName) -> RunResult:
        """Wait until an active run, or the newest of the main agent, has ended or was sent to the background; returns its
        result. Raises UsageError for another run: its result is in the events."""
        node: AgentRun | None = None
        with suppress(KeyError):
            node = self._tree.node(run.agent)
        if node is None or _name_of(node) != run:
            raise UsageError(f"Run {run.number} of {run.agent} is not active.", hint="Its result is in the events.")
        await node.finished()
        return node.outcome

    def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        """All durable events above number `after`, then new events until the session is closed. Live events come at most
        every `lull_s` seconds. `late`: earlier events come only together with a new one."""
        return self._log.events(after, lull_s=lull_s, late=late)

    async def history(self) -> list[Envelope]:
        """All durable events so far."""
        return await self._log.history()

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> bool:
        """Answer a permission request (ApprovalAnswer) or a question (text); False if it is no longer open. An answer with a
        mode changes that first, which may answer other requests too."""
        if isinstance(answer, ApprovalAnswer) and answer.mode and ask_id in self.approvals.pending:
            await self.approvals.choose_mode(answer.mode)
            return await self.approvals.answer(ask_id, answer) or True
        return await self.approvals.answer(ask_id, answer)

    async def send(self, path: str, text: str, *, source: Source = "person") -> None:
        """Send a message to a running agent, which reads it at its next turn. Raises UsageError if it is not running."""
        try:
            await self._tree.send(path, text, source)
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def detach(self, path: str) -> bool:
        """Let a sub-agent that its parent waits for continue in the background; False if it cannot."""
        return await self._tree.detach(path)

    async def stop(
        self, path: str = "a", *, level: Literal["cancel", "abort"] = "abort", keep_background: bool = False
    ) -> int:
        """Stop an agent and all below it; returns the number of runs that ended, once all have. `level` as for
        `SubagentTree.stop`. `keep_background`: its own background sub-agents continue."""
        why: StopReason = "aborted" if level == "abort" else "cancelled"
        for node in self._tree.running(path):
            if node.path == path:
                await self._tree.notifier.notify_parent(path, notices.stopped(path, node.agent.profile, level))
        return await self._tree.stop(path, level=level, why=why, keep=keep_background)

    async def apply_worktree(self, path: str) -> tuple[FileChange, ...]:
        """Apply what an ended agent changed in its worktree to the session's files: all changes or none. Raises
        UsageError if there is no such worktree, or with the files that conflict."""
        try:
            return (await self._parts.changes.apply_for_person(path)).files
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def discard_worktree(self, path: str, *, keep_branch: bool = False) -> None:
        """Remove the worktree of an ended agent, and its changes unless they are kept on the branch. Raises UsageError."""
        try:
            await self._parts.changes.discard_for_person(path, keep_branch=keep_branch)
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def run_command(
        self, command: str, on_output: Callable[[str], None], *, confined: bool = False
    ) -> CommandResult:
        """Run a command of the person in the session's folder, without a sandbox unless it is to be `confined`."""
        return await self._main.run_command(command, on_output, confined=confined)

    async def close(self, *, last: bool = True) -> None:
        """Stop all agents, write all events, and release the session. May be called twice. `last`: no other session of this
        event loop is open, so that connections to services can be closed too."""
        if self._tree.closed:
            return
        try:
            await self._main.close()
        finally:
            await self._parts.close(last=last)


def _name_of(node: AgentRun) -> RunName:
    return RunName(node.path, node.agent.run)
