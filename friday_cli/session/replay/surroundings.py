"""What surrounds a replayed session: its recording. Nothing else is reached, and nothing is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from friday_cli.agents.isolation import local_workspace
from friday_cli.agents.surroundings import Surroundings, T
from friday_cli.config import Settings
from friday_cli.core.agent.agent import Hooks
from friday_cli.core.protocol.provider import AskedTier, Effort, Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.llm.models import ModelChoice
from friday_cli.llm.providers.recorded import RecordedProvider

from .answers import ReplayAnswers
from .hooks import AFTER_CALLS, RecordedHooks
from .recording import Recording
from .worktrees import RecordedWorktrees

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees.worktrees import Worktrees


class RecordedSurroundings(Surroundings):
    """Lets `answers` take the place of models and tools, and a recording that of hooks, unless today's run, and worktrees."""

    saved = False

    def __init__(self, recording: Recording, answers: ReplayAnswers, *, runs_hooks: bool) -> None:
        self.history = answers.history
        self._after = recording.envelopes[len(self.history) :]
        self._hooked = bool(recording.hooks)
        self._answers, self._runs_hooks = answers, runs_hooks
        self.check = answers.check

    def live(self, value: T) -> T | None:
        return None

    def choice(
        self, name: str | None, settings: Settings, env: Mapping[str, str], *, effort: Effort | None, source: str
    ) -> ModelChoice:
        from friday_cli.llm.models.resolve import parse

        service, slash, _ = (name := name or "").partition("/")
        provider, model, own = parse(name, {service: ...} if slash else {})  # type: ignore[dict-item]
        if name.startswith("scripted:"):  # its file is not read; models are named by it
            model = Path(model).stem
        return ModelChoice(provider, model, own or effort)

    async def with_server_limits(self, choice: ModelChoice, settings: Settings, env: Mapping[str, str]) -> ModelChoice:
        return choice

    def provider(
        self, choice: ModelChoice, settings: Settings, env: Mapping[str, str], *, web_search: bool, tier: AskedTier
    ) -> Provider:
        return RecordedProvider(choice.provider, choice.model, self._answers)

    def tools(self, tools: dict[str, Tool]) -> dict[str, Tool]:
        return self._answers.tools(tools)

    def hooks(self, make: Callable[[Hooks | None], Hooks | None]) -> Hooks | None:
        if self._runs_hooks:
            return make(RecordedHooks(self._after, AFTER_CALLS))
        return RecordedHooks(self._after) if self._hooked else None

    def worktrees(self, make: Callable[[], Worktrees], workspace: Workspace) -> Worktrees:
        return cast("Worktrees", RecordedWorktrees(local_workspace(workspace), self._after))
