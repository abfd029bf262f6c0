"""The exceptions that Friday raises. Each message is one line that says what to do."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .messages import Usage


class FridayError(Exception):
    """A failure with a message for people. `hint` says what to do next and may be empty. `exit_code` is the exit code
    of a one-shot command."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(FridayError):
    """Invalid input: an unknown model, profile, session, rule or flag."""

    exit_code = 2


class NotConfigured(FridayError):
    """No model can be used; the message says how to add one."""

    exit_code = 3


class FileError(FridayError):
    """A file of the user is invalid. `line` counts from 1 (0 when unknown); `field` is the invalid key."""

    exit_code = 2

    def __init__(self, path: str, problem: str, *, line: int = 0, field: str = "", hint: str = "") -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {field}: {problem}" if field else f"{where}: {problem}", hint=hint)
        self.path, self.line, self.field, self.problem = path, line, field, problem


class StoreError(FridayError):
    """The session store cannot be read or written (full disk, damaged or newer database)."""


class Unwritable(StoreError):
    """The store cannot be written (read-only, full, wrong owner). Its data are intact."""


class ToolError(FridayError):
    """A tool call failed. The model reads the message as an error result."""


class PermissionDenied(ToolError):
    """A tool call was denied by a rule, a mode or a person. The model reads the reason. `words`: what the person said."""

    def __init__(self, message: str, *, hint: str = "", words: str = "") -> None:
        super().__init__(message, hint=hint)
        self.words = words


class BudgetSpent(ToolError, UsageError):
    """A sub-agent cannot be resumed with the tokens that it has left. `needed` is the tokens of its conversation, 0 when
    it was not counted."""

    def __init__(self, message: str, *, hint: str = "", needed: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.needed = needed


ErrorKind = Literal[
    "rate",
    "overloaded",
    "server",
    "network",
    "truncated",
    "stall",
    "garbled",
    "empty",  # transient
    "auth",
    "quota",
    "invalid",
    "not_found",
    "context",
    "refusal",
    "config",
    "bad_call",  # permanent
]
TRANSIENT: frozenset[str] = frozenset(
    ("rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty")
)


class ProviderError(FridayError):
    """A model request failed. A provider's stream raises no other exception."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind: ErrorKind = kind
        self.status = status
        """The HTTP status; 0 for none."""
        self.retry_after = retry_after
        """Seconds."""
        self.usage = usage
        """What the service counts for the failed attempt, as the provider knows it; None if it does not."""

    def but(self, *, kind: ErrorKind | None = None, hint: str = "", usage: Usage | None = None) -> ProviderError:
        """The same failure with another kind, hint or usage."""
        other = type(self)(
            kind or self.kind,
            self.message,
            hint=hint or self.hint,
            status=self.status,
            retry_after=self.retry_after,
            usage=usage or self.usage,
        )
        return other.with_traceback(self.__traceback__)

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT


PROCESS_LIMIT = (
    "The system does not start any more processes or threads for this user. End some, or raise the limit (ulimit -u)."
)


def is_process_limit(error: BaseException) -> bool:
    """Whether the limit of processes and threads is reached, as starting one raises it. Output that is full is a BlockingIOError, too."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_process_limit, error.exceptions))
    refused = isinstance(error, BlockingIOError) and not hasattr(error, "characters_written")
    return refused or "can't start new thread" in str(error)


def limit_words(error: BaseException) -> str:
    """What to say of an error that says that a limit of the system is reached, "" for any other."""
    if is_process_limit(error):
        return PROCESS_LIMIT
    if isinstance(error, MemoryError):
        return "There is not enough memory. End other programs, or raise the limit (ulimit -v)."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "No more files can be opened. Raise the limit (ulimit -n)."
    return ""


def words_of(error: OSError, *, name: str = "") -> str:
    """A line for a person. `name` is what failed if the error has no file."""
    if limit := limit_words(error):
        return limit
    name = str(error.filename or name)
    text = f"{error.strerror or error}."
    return f"{name}: {text}" if name else text
