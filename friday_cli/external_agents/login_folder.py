"""The folder with the login of a program, which the program can write: what in it can run code when the person starts that program, and
whether that changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.llm.transport.text import dict_in
from friday_cli.system import safe_files
from friday_cli.workspace.sandbox import tamper_check

PLACES = (
    "settings.json", "settings.local.json", "config.toml", "hooks.json", "CLAUDE.md", "AGENTS.md", "AGENTS.override.md",
    "hooks", "agents", "commands", "skills", "plugins", "prompts", "rules", "output-styles",
)  # fmt: skip
"""Files and folders of it with settings, servers, hooks and instructions."""
MIXED = ".claude.json"
"""A file that changes in each run, and has the servers of the person too."""
MOST = 64 * 1024 * 1024
"""Bytes of that file that are read."""
NAMED = 10
"""Changed files that a warning names."""


class LoginFolder:
    """Such a folder as it is before a run. `fixed` is what the program must not change, as far as the sandbox can prevent that: a path
    that does not exist cannot be made read-only. Blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fixed = tuple(place for name in PLACES if (place := path / name).exists())
        self._before = self._marks()

    def warnings(self, program: str) -> list[str]:
        """What changed in it while `program` ran, in a sentence. Blocks."""
        before, after = self._before, self._marks()
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if not names:
            return []
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        shown = ", ".join(sanitize_line(os.path.relpath(name, self.path), 100) for name in names[:NAMED]) + more
        return [f"{shown} changed in {self.path} while {program} ran, and may run code at its next start: check it"]

    def _marks(self) -> dict[str, object]:
        """What tells whether the files changed, by their paths. No link is followed below the folder."""
        files = tamper_check.below(str(self.path / name) for name in PLACES)
        found: dict[str, object] = {name: (*file.stamp[:2], file.digest) for name, file in files.items()}
        mixed = self.path.resolve() / MIXED
        return found | {str(mixed): _servers(mixed)}


def _servers(path: Path) -> str:
    """The servers that a file of settings and figures names, for the person and by project; "" for none."""
    try:
        document = dict_in(json.loads(safe_files.read(path.parent, path, MOST)))
    except FileNotFoundError:
        return ""
    except (OSError, ToolError, ValueError, RecursionError) as error:
        return type(error).__name__
    rows = {"": document, **dict_in(document.get("projects"))}
    named = {key: servers for key, row in rows.items() if (servers := dict_in(row).get("mcpServers"))}
    return json.dumps(named, sort_keys=True) if named else ""
