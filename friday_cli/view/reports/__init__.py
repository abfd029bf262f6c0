"""Reports on a session, one module for each format, for `friday sessions export` and `/export` of the chat.

In all formats control characters are removed, and text that looks like a secret is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from friday_cli.core.protocol.errors import FridayError, UsageError

from .recorded_session import RecordedSession as RecordedSession

FormatName = Literal["md", "html", "json", "perfetto", "atif", "otlp"]


class ReportFormat(NamedTuple):
    """A format of reports."""

    suffix: str
    """How the names of its files end."""
    about: str
    """Its name for a person."""
    write: Callable[[RecordedSession], str]
    """Returns text that ends with a newline."""


def _markdown(session: RecordedSession) -> str:
    from .markdown import as_markdown

    return as_markdown(session)


def _html(session: RecordedSession) -> str:
    from .html import as_html

    return as_html(session)


def _perfetto(session: RecordedSession) -> str:
    from .perfetto import as_perfetto

    return as_perfetto(session)


def _json(session: RecordedSession) -> str:
    from .json_report import as_json

    return as_json(session)


def _atif(session: RecordedSession) -> str:
    from .atif import as_atif

    return as_atif(session)


def _otlp(session: RecordedSession) -> str:
    from .otlp import as_otlp

    return as_otlp(session)


FORMATS: dict[FormatName, ReportFormat] = {
    "md": ReportFormat("md", "Markdown", _markdown),
    "html": ReportFormat("html", "a web page", _html),
    "json": ReportFormat("json", "JSON with every event", _json),
    "perfetto": ReportFormat("json", "a trace for ui.perfetto.dev", _perfetto),
    "atif": ReportFormat("json", "ATIF (a common trajectory format)", _atif),
    "otlp": ReportFormat("json", "OTLP (traces)", _otlp),
}
"""All formats. A module is imported when its format is asked for."""


def write_file(path: Path, text: str, *, replace: bool) -> None:
    """Write a report. Raises UsageError for a file that exists and may not be replaced, else FridayError."""
    try:
        with path.open("w" if replace else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} already exists.", hint="Name another file: /export md FILE.") from None
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
