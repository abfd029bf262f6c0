"""The ladder of a profile (`models` and `check`): a cheap model works first; only where the check fails an expensive one goes on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.agent.next_request import prompt_tokens
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.protocol.events import Checked, Compacted, Notice, Prefix
from friday_cli.core.protocol.messages import Message, user
from friday_cli.core.protocol.provider import Effort, Provider
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.subagents.driver import ModelDriver
from friday_cli.core.text.sanitize import code_block
from friday_cli.extensions.profiles import Profile

from .check_command import run_check
from .provider_pool import require_price
from .shared_resources import SharedResources
from .surroundings import Check

CHECKED = ("done", "reported", "loop", "supervision", "refusal", "context")
"""Ends of a rung after which the check decides; a limit, a stop or a failed service ends the run."""
DIFF_CHARS = 20_000
"""Characters of the changes so far that the next model reads."""
_GIT = "git --no-pager -c core.fsmonitor=false"
_DIFF = (
    f"{_GIT} diff --no-ext-diff --no-textconv --no-color HEAD 2>/dev/null"
    f" && {_GIT} ls-files --others --exclude-standard | sed 's/^/new file: /'"
)


async def check_work(agent: Agent, profile: Profile) -> Checked:
    """Run the check where the agent worked, and find what it changed if that fails. Raises ToolError, also for a command of a project
    that nothing would confine."""
    if profile.origin == "project" and not agent.workspace.sandbox_access(""):
        raise ToolError(f"The check of the project's profile {profile.name} needs a sandbox, and none works here.")
    check = await run_check(agent, profile.check)
    if check.passed:
        return Checked(True, check.how)
    diff = await agent.workspace.run(_DIFF, agent=agent.path, timeout_s=60.0, on_output=lambda text: None)
    return Checked(False, check.how, check.output, diff.output[:DIFF_CHARS] if diff.exit_code == 0 else "")


class LadderDriver(ModelDriver):
    """Implements `Driver`: the models of a profile work one after the other, in the same files (or, with `ladder: fresh`, from their
    start) and on the same budget, until its check passes. Each hands up what it changed, the output of the check and its receipt."""

    def __init__(self, agent: Agent, profile: Profile, shared: SharedResources, check: Check) -> None:
        super().__init__(agent, shared.services)
        self._profile, self._shared, self._check = profile, shared, check
        self._rest = list(profile.models[1:])
        known = [name for name in self._rest if self._is(name)]
        if known:  # a resumed agent goes on where it was
            del self._rest[: self._rest.index(known[-1]) + 1]
        self._begin: list[Message] | None = None
        """The conversation up to the message that this run is about."""

    async def start(self, task: str) -> RunResult:
        agent, command = self._agent, self._profile.check
        if self._begin is None:
            history = agent.conversation.history
            asked = [at for at, message in enumerate(history) if _asks(message)]
            self._begin = history[: asked[-1] + 1] if asked else [user(task)]
        while True:
            outcome = await super().start(task)
            if outcome.stop_reason not in CHECKED:
                return outcome
            try:
                check = await self._check(agent, self._profile)
                await self._services.log.emit(agent.path, check)
                if check.passed:
                    await self._note(f"{agent.model} passed the check `{command}`")
                    return outcome
                failed = f"{agent.model} did not pass the check `{command}`: it {check.how}"
                agent.receipt_builder.warn(failed)
                if not self._rest:
                    return _failed(outcome, f"{failed}.")
                await self._climb(self._begin, outcome, check, failed)
            except FridayError as error:
                return _failed(outcome, str(error))

    async def _climb(self, begin: Sequence[Message], outcome: RunResult, check: Checked, failed: str) -> None:
        """Let the next model go on: it reads what came before the work, later messages of people and the evidence, not the work itself.
        Raises FridayError."""
        agent, conversation = self._agent, self._agent.conversation
        evidence = self._evidence(outcome, check)
        if self._profile.ladder:
            await self._shared.isolation.reset(agent.path)
        before, name = prompt_tokens(agent), self._rest.pop(0)
        provider, effort = self._named(name)
        require_price(provider, agent.budget)
        later = [message for message in conversation.history if _asks(message) and message not in begin]
        conversation.hand_over([*begin, *later, user(evidence, source="harness")], provider, effort)
        await self._note(f"{failed}; {agent.model} takes over")
        await self._services.log.emit(
            agent.path,
            Compacted(tuple(conversation.history), before, prompt_tokens(agent)),
            Prefix(agent.model, conversation.system, conversation.specs),
        )

    def _evidence(self, outcome: RunResult, check: Checked) -> str:
        """What the next model reads of the work so far."""
        where = "and its changes were undone" if self._profile.ladder else "in the files as they are now"
        parts = [
            f"{NOTE} [Evidence] Another model worked on this task before you, {where}. The check `{self._profile.check}` "
            f"{check.how}. {'Start over' if self._profile.ladder else 'Correct the work or start over'}; it counts only if the check passes.",
            f"Output of the check:\n{code_block(check.output)}" if check.output else "",
            f"Its changes:\n{code_block(check.changes)}" if check.changes else "",
            "What Friday saw it do:\n" + "\n".join(self._agent.receipt_builder.run.lines()),
            f"What it said:\n{code_block(outcome.text[:4_000])}" if outcome.text else "",
        ]
        return "\n\n".join(filter(None, parts))

    async def _note(self, text: str) -> None:
        await self._services.log.emit(self._agent.path, Notice(text, "info"))

    def _is(self, name: str) -> bool:
        try:
            provider, _ = self._named(name)
        except FridayError:
            return False
        return f"{provider.name}/{provider.model}" == self._agent.model

    def _named(self, name: str) -> tuple[Provider, Effort | None]:
        """The model of a rung, as a sub-agent of that profile would have it. Raises FridayError."""
        conversation, profile = self._agent.conversation, msgspec.structs.replace(self._profile, model=name)
        return self._shared.providers.for_child(conversation.provider, profile, conversation.effort)


def _asks(message: Message) -> bool:
    return message.role == "user" and message.source != "harness"


def _failed(outcome: RunResult, why: str) -> RunResult:
    return msgspec.structs.replace(outcome, status="failed", stop_reason="reported", error=why)
