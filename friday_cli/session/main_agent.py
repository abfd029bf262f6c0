"""The main agent of a session: starts its runs, compacts its history, and lets nothing run while the session is rewound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.agent.compaction import compact
from friday_cli.core.agent.next_request import prompt_tokens
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.protocol.agent_path import PERSON
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import Notice, PersonCommand
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Text
from friday_cli.core.protocol.receipt import CommandRun, Receipt
from friday_cli.core.protocol.workspace import Access, CommandResult, tamper_warning
from friday_cli.core.subagents.node import AgentRun
from friday_cli.core.text.untrusted import neutralize_line
from friday_cli.core.tool_catalog import BASH
from friday_cli.tools.delegate.report import report_from_log

from . import mentions
from .parts import SessionParts

if TYPE_CHECKING:
    from typing import Unpack

    from friday_cli.core.agent.cache_refresh import CacheKeeper
    from friday_cli.extensions.tool_lists import Restriction

    from .rewind_result import RewindResult

COMMAND_TIMEOUT_S = 600.0
"""Seconds after which a command of the person is stopped."""
NAMED_FILES = 20
"""Restored files that are named to the model; the others are elided."""


class PromptExtras(TypedDict, total=False):
    """The optional parts of a message of the user. `task`: the text the person typed, if the message has more. `images`:
    attached images. `schema`: a JSON Schema that the answer must fit. `restriction`: limits every agent, in addition to all
    rules, until the next message."""

    task: str
    images: tuple[Image, ...]
    schema: dict[str, object] | None
    restriction: Restriction | None


class MainAgent:
    """Starts the runs of the main agent."""

    def __init__(self, parts: SessionParts) -> None:
        self.agent = parts.tree.root
        self._parts = parts
        self._tree = parts.tree
        self._log = parts.storage.log
        self._busy = ""
        self._keep_warm_s = parts.shared.services.policy.keep_warm_s
        self._keeper: CacheKeeper | None = None

    @property
    def idle(self) -> bool:
        """Whether no run of the main agent is active."""
        try:
            return self._tree.node("a").ended
        except KeyError:
            return True

    async def settled(self) -> bool:
        """Wait while a run of the main agent ends or is being stopped. Returns whether it is idle then."""
        while not self.idle and (node := self._tree.node("a")).leaving:
            await node.finished()
        return self.idle

    def start(self, text: str, **more: Unpack[PromptExtras]) -> AgentRun:
        """Start a run on a message of the person. Raises UsageError if the agent is running, or cannot delegate to the
        profile that the message starts with."""
        self.require_idle()
        if any(node.path == "a" for node in self._tree.running("a")):
            raise UsageError("The main agent is running.", hint="Send it a message instead, or stop it first.")
        profile = self._addressed_profile(text)
        self._parts.rules.narrowed.clear()
        self.agent.rules.narrowed.clear()
        if (restriction := more.get("restriction")) is not None:
            self._parts.rules.narrowed["the command"] = restriction.rules()
        if self._parts.shared.servers is not None:
            self._parts.shared.servers.person_wrote()
        notes = self._parts.notes.take()
        body, schema = text, more.get("schema")
        accept: Callable[[str], str] = lambda answer: ""  # noqa: E731
        if schema is not None:
            from friday_cli.agents.output_schema import checker  # most messages have none

            accept = checker(schema)
            body += f"\n\nAnswer with one JSON document and nothing else. It must fit this JSON Schema:\n{json.dumps(schema)}"
        if profile:
            notes.append(mentions.note(profile))
            accept = mentions.demand(self.agent, self._tree, profile, accept)
        if BASH in self.agent.conversation.tools:
            self._parts.workspace.write_hook.expect_commands()
        parts: tuple[AnyPart, ...] = (*(Text(note + "\n\n") for note in notes), Text(body), *more.get("images", ()))
        self._release_cache()
        run = self._tree.run_root(more.get("task") or text, Message("user", parts), accept)
        if self._keep_warm_s and run.task is not None:
            run.task.add_done_callback(lambda task: self._keep_cache())
        return run

    def _keep_cache(self) -> None:
        """The run ended: keep the service's cache of the conversation for the time that the person set."""
        from friday_cli.core.agent.cache_refresh import keeper_of  # only where it is set

        if not self._tree.closed:
            self._keeper = keeper_of(self.agent, self._parts.shared.services, self._keep_warm_s)

    def _release_cache(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

    async def close(self) -> None:
        """Stop all agents. Nothing of them runs when this returns."""
        await self._tree.close()
        if self._keeper is not None:
            await self._keeper.stop()

    def _addressed_profile(self, text: str) -> str:
        """The profile that a message starts with (`@NAME`), "" if none. Raises UsageError if it cannot be used."""
        name = mentions.addressed(text, self._parts.shared.profiles.names())
        if not name:
            return ""
        offered = self._parts.sub_agents.chosen
        if name not in offered:
            allowed = ", ".join(offered)
            raise UsageError(
                f"@{name}: the main agent cannot delegate to this profile.",
                hint=f"It can delegate to: {allowed or 'no profile'}.",
            )
        if not mentions.task_of(text):
            raise UsageError(f"@{name}: the task is missing.", hint=f"Write it after the name: @{name} TASK.")
        return name

    async def compact(self, instructions: str) -> tuple[int, int]:
        """Implements `Session.compact`."""
        agent = self.agent
        with self.while_idle("compacted"):
            if len(agent.conversation.history) < 2:
                raise UsageError("There is nothing to compact yet.")
            before = prompt_tokens(agent)
            agent.renew_slot(self._log)
            try:
                await compact(agent, self._parts.shared.services, requested=True, instructions=instructions)
            except LimitReached as limit:
                raise UsageError(f"Not compacted: the {limit.limit} budget of {limit.whose} is used up.") from None
            except StopRun as stop:
                raise FridayError(f"Not compacted: {stop.message}") from None
            finally:
                agent.slot.release()
        await self._parts.storage.store.sync()
        return before, prompt_tokens(agent)

    async def rewound(self, result: RewindResult) -> None:
        """Give the agent the history that the log has after a rewind, or a note which files were restored."""
        if result.what != "files":
            from friday_cli.core.eventlog.replay import replay  # few sessions are rewound

            envelopes = await self._log.history()
            record = (await asyncio.to_thread(replay, envelopes, report_from_log))["a"]
            self._tree.rewound(left_behind(envelopes))
            self.agent.conversation.begin_again(record.history, context=record.context)
            self.agent.seen.hashes.clear()
            self.agent.inbox.rewind(record.inbox)
        elif result.files:
            names = ", ".join(neutralize_line(file.path) for file in result.files[:NAMED_FILES])
            more = " ..." if len(result.files) > NAMED_FILES else ""
            self._parts.notes.add(
                f"{NOTE} The user restored earlier versions of these files: {names}{more}. Read them again before you use them."
            )
        await self._parts.storage.store.sync()

    def require_idle(self) -> None:
        """Raises UsageError while the session is rewound or compacted."""
        if self._busy:
            raise UsageError(f"The session is being {self._busy}.", hint="Wait until this has finished.")

    @contextmanager
    def while_idle(self, action: str) -> Iterator[None]:
        """Inside, no run can start. Raises UsageError if an agent is running. `action` is a participle for messages."""
        self.require_idle()
        if running := [node.path for node in self._tree.running("a")]:
            verb = "is" if len(running) == 1 else "are"
            raise UsageError(
                f"The session cannot be {action} while {', '.join(running)} {verb} running.",
                hint="Stop the agents first, or wait.",
            )
        self._busy = action
        self._release_cache()
        try:
            yield
        finally:
            self._busy = ""

    async def run_command(self, command: str, on_output: Callable[[str], None], *, confined: bool) -> CommandResult:
        """Run a command of the person in the session's folder."""
        access: Access = "" if confined else "outside"
        ran = await self._parts.shared.services.workspace.run(
            command, agent=PERSON, timeout_s=COMMAND_TIMEOUT_S, on_output=on_output, access=access
        )
        if ran.tampered:
            await self._log.emit("a", Notice(tamper_warning(command, ran.tampered), "warning"))
        agent, done = self.agent, PersonCommand(CommandRun(command, ran.exit_code, ran.timed_out))
        agent.receipt_builder.add_others(Receipt(commands=(done.run,)))  # the agent may repeat how it ended
        if agent.run:
            await self._log.emit(agent.path, done)
        else:
            agent.log_at_start(done)
        return ran
