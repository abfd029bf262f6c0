"""The same for scripts without an event loop: `run`, and `open` with methods that return when they are done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Unpack

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import Image

from . import open_session
from .open_session import OpenSession
from .options import DelegateOptions, OpenOptions
from .results import AgentResult


def run(
    prompt: str,
    *,
    schema: dict[str, object] | None = None,
    images: Sequence[Image] = (),
    **options: Unpack[OpenOptions],
) -> AgentResult:
    """As `friday_cli.api.run`. Raises UsageError where an event loop runs."""
    _require_no_loop()
    return asyncio.run(open_session.run(prompt, schema=schema, images=images, **options))


@contextmanager
def open(**options: Unpack[OpenOptions]) -> Iterator[SyncSession]:
    """As `friday_cli.api.open`. Raises UsageError where an event loop runs."""
    _require_no_loop()
    with asyncio.Runner() as runner:
        opening = open_session.open(**options)
        session = runner.run(opening.__aenter__())
        try:
            yield SyncSession(runner, session)
        finally:
            runner.run(opening.__aexit__(None, None, None))


def _require_no_loop() -> None:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UsageError("An event loop runs here.", hint="Await `friday_cli.api.run`, or use `friday_cli.api.open`.")


class SyncSession:
    """An open session whose agents work while one of its methods runs."""

    def __init__(self, runner: asyncio.Runner, session: OpenSession) -> None:
        self._runner, self._session = runner, session
        self.id = session.id

    def prompt(self, text: str, **more: Any) -> AgentResult:
        """As `OpenSession.prompt`; returns the result."""

        async def work() -> AgentResult:
            return await self._session.prompt(text, **more)

        return self._runner.run(work())

    def delegate(self, profile: str, task: str, **options: Unpack[DelegateOptions]) -> AgentResult:
        """As `OpenSession.delegate`."""
        return self._runner.run(self._session.delegate(profile, task, **options))

    def apply_worktree(self, agent: str) -> tuple[str, ...]:
        """As `OpenSession.apply_worktree`."""
        return self._runner.run(self._session.apply_worktree(agent))
