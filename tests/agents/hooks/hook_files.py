"""Hooks for tests: writes hooks files and scripts, and reads what recorders got."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from friday_cli.extensions.hooks.hook import EVENTS
from friday_cli.extensions.hooks.samples import FIELDS
from friday_cli.system.paths import config_dir

assert FIELDS.keys() == set(EVENTS)


def hook(command: str, **more: Any) -> dict[str, Any]:
    """One hook; `matcher` goes to its group."""
    matcher = more.pop("matcher", "")
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}


def answer(event: str, **specific: Any) -> str:
    """A command that answers with `specific` for an event."""
    text = json.dumps({"hookSpecificOutput": {"hookEventName": event, **specific}})
    return f"cat >/dev/null; cat <<'END'\n{text}\nEND"


def own_hooks(hooks: Mapping[str, list[dict[str, Any]]]) -> Path:
    """Write the hooks of the person; returns their file."""
    config_dir().mkdir(parents=True, exist_ok=True)
    file = config_dir() / "hooks.json"
    file.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    return file


def project_hooks(project: Path, hooks: Mapping[str, list[dict[str, Any]]], name: str = ".friday/hooks.json") -> None:
    """Write the hooks of a project."""
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


class Recorder:
    """A hook that keeps each input in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.command = f'cat > "$(mktemp {folder}/XXXXXXXX)"'

    def hooks(self, *events: str) -> dict[str, list[dict[str, Any]]]:
        """Hooks that record these events."""
        return {event: [hook(self.command)] for event in events}

    def inputs(self, event: str = "") -> list[dict[str, Any]]:
        """What was recorded, in any order."""
        found = self.read(self.folder)
        return [one for one in found if event in ("", one["hook_event_name"])]

    @staticmethod
    def read(folder: Path) -> list[dict[str, Any]]:
        """What was recorded in `folder`."""
        return [json.loads(path.read_bytes()) for path in sorted(folder.iterdir())]
