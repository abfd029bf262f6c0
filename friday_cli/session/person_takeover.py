"""A person works with a sub-agent of the session in place of its parent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from friday_cli.core.eventlog.notices import WITH_PERSON
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.subagents.takeover import hand_back, take_over

from .parts import SessionParts


class PersonTakeover:
    """Takes sub-agents over and hands them back. `start_agent` is that of the session."""

    def __init__(self, parts: SessionParts, start_agent: Callable[..., Any]) -> None:
        self._tree, self._log, self._start_agent = parts.tree, parts.storage.log, start_agent

    async def begin(self, path: str) -> None:
        """See `TakeOver`."""
        if path != "a" and not self._tree.running(path):
            await self._start_agent(path, WITH_PERSON, with_person=True)
            return
        try:
            await take_over(self._tree.node(path), self._log)
        except KeyError:
            raise UsageError(f"{path} is not at work.") from None
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def end(self, path: str, result: str) -> None:
        """See `HandBack`."""
        try:
            await hand_back(self._tree.node(path), self._log, result)
        except KeyError:
            raise UsageError(f"{path} is not at work.") from None
        except ToolError as error:
            raise UsageError(str(error)) from None
