"""New profile files: from the template, or from what a model wrote."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import show_invisible
from friday_cli.system import atomic_file

from . import lookup, render
from .profile import Profile


def unused(path: Path, *, hint: str = "Edit it, or choose another name.") -> Path:
    """`path`. Raises UsageError if it exists."""
    if os.path.lexists(path):
        raise UsageError(f"{path} already exists.", hint=hint)
    return path


def create(path: Path, text: str, *, replace: bool = False) -> None:
    """Write the file of a new profile, with its folder, whole or not at all. Raises UsageError if it exists, unless `replace` is set,
    and FridayError."""
    if not replace:
        unused(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = Path(os.path.realpath(path))
        atomic_file.replace(found, text, mode=None if found.exists() else 0o644)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None


def drafted(text: str) -> Profile:
    """The profile that a model wrote as the text of a file. Raises UsageError with all errors in it, and for what a model must not
    add for a person: a program to start (an MCP server, an external agent), and characters that nobody sees."""
    named = re.search(r"(?m)^name:[ \t]*['\"]?([^\s'\"]+)", text)
    name = named[1] if named else ""
    render.template(name)  # raises for a name that no file can have
    if show_invisible(text) != text:
        raise UsageError("The draft has invisible characters.", hint="Ask for it again without them.")
    with TemporaryDirectory(prefix="friday-") as folder:
        path = Path(folder, f"{name}.md")
        path.write_text(text, encoding="utf-8")
        good, bad = lookup.check(path, own=path.parent)
        if bad or not good:
            wrong = "; ".join(str(error).replace(f"{path}:", "line ").replace(str(path), "it") for error in bad)
            raise UsageError(
                f"The draft is not a valid profile: {wrong or 'it has no front matter'}",
                hint="Ask the agent to correct it.",
            )
    if good[0].mcp_inline or good[0].external:
        raise UsageError(
            "The draft names programs to start (mcpServers, external).", hint="Ask for it without; add them yourself."
        )
    return good[0]
