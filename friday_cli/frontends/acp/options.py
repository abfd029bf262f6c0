"""The options of `friday acp`."""

from __future__ import annotations

from ..options import MODEL, SESSION, SHARED, Option

OPTIONS: tuple[Option, ...] = (
    *(option for option in SHARED if option.dest not in ("cwd", "trust")),
    Option(("--config",), "text", "Settings file to use instead of yours.", "FILE", group=SESSION),
    Option(("--login",), "flag", "Ask for an API key in this terminal and exit; clients start this.", group=MODEL),
)
