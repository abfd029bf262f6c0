"""Everything Friday raises on purpose. Each message is one clear line a person can act on."""

from __future__ import annotations

from typing import Literal


class FridayError(Exception):
    """A failure with a sentence for a person.

    `hint` is what to do next (may be empty); `exit_code` is what a one-shot command leaves with.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(FridayError):
    """The words of a call are off: an unknown model, profile, session, rule or flag."""

    exit_code = 2


class NotConfigured(FridayError):
    """No model can be used; the message says how to add one."""

    exit_code = 3


class FileError(FridayError):
    """A file of the user's is wrong. `line` counts from 1 (0 when unknown); `field` is the key at fault."""

    exit_code = 2

    def __init__(self, path: str, problem: str, *, line: int = 0, field: str = "", hint: str = "") -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {field}: {problem}" if field else f"{where}: {problem}", hint=hint)
        self.path, self.line, self.field, self.problem = path, line, field, problem


class StoreError(FridayError):
    """The session store cannot be read or written (full disk, damaged or newer database)."""


class Unwritable(StoreError):
    """The store's place takes no writing (read-only, full, not ours); there is nothing wrong with what is kept there."""


class ToolError(FridayError):
    """A tool could not do what was asked; the text goes to the model as an error result."""


class PermissionDenied(ToolError):
    """A call was refused by a rule, a mode or a person; the reason goes to the model."""


ErrorKind = Literal[
    "rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty",  # transient
    "auth", "quota", "invalid", "not_found", "context", "refusal", "config",              # permanent
]  # fmt: skip
TRANSIENT: frozenset[str] = frozenset(
    ("rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty")
)


class ProviderError(FridayError):
    """A model request failed; the only exception a provider's stream may raise.

    `retry_after` is in seconds, `status` the HTTP status (0 when there was none). `usage` is what the failed
    attempt is known to have cost (a `core.messages.Usage`), or None.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        retry_after: float | None = None,
        usage: object = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind: ErrorKind = kind
        self.status = status
        self.retry_after = retry_after
        self.usage = usage

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT
