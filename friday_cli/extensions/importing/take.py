"""Compares what was found in another assistant with what the person has here, and writes what is new. Nothing is overwritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.config.edit import add_value
from friday_cli.config.loader import read as read_settings
from friday_cli.config.loader import user_file as settings_file
from friday_cli.core.protocol.errors import FileError, FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import mask, sanitize_line
from friday_cli.mcp import describe, edit
from friday_cli.mcp import read as servers
from friday_cli.mcp.names import server_name
from friday_cli.mcp.parse import check
from friday_cli.system import atomic_file
from friday_cli.system.paths import config_dir

from .found import Found

Kind = Literal["server", "hook", "rule", "agent", "command", "instructions"]


class Item(msgspec.Struct, frozen=True):
    """One thing that can be taken over. `about`: what it does, without secrets. `state`: why it is not written, "" if it is.
    `secrets`: the keys of a server whose values are written out and look like secrets. `write` puts it in place."""

    kind: Kind
    name: str
    about: str
    write: Callable[[], object]
    state: str = ""
    secrets: tuple[str, ...] = ()


def items(found: Found, profiles: Path) -> list[Item]:
    """Everything that was found, servers first. `profiles`: the folder of the person's profiles. Adds a line to `found.left` for
    each server that cannot be used. Raises FileError if a file of the person is damaged."""
    rows = [*_servers(found), *_hooks(found), *_rules(found)]
    rows += [_file("agent", name, profiles / f"{name}.md", text) for name, text in found.agents.items()]
    folder = config_dir() / "commands"
    rows += [
        _file("command", f"/{name}", folder.joinpath(*name.split(":")).with_suffix(".md"), text)
        for name, text in found.commands.items()
    ]
    if found.instructions:
        rows.append(_file("instructions", "AGENTS.md", config_dir() / "AGENTS.md", found.instructions + "\n"))
    return rows


def _servers(found: Found) -> list[Item]:
    path = servers.user_file()
    mine = servers.load(path)
    rows = []
    for written_name, entry in found.servers.items():
        name = server_name(written_name)
        try:
            written, notices = check("mcp.json", name or "?", entry)
        except FileError as error:
            found.leave(f"the server {written_name}", error.problem)
            continue
        if not name:
            found.leave(f"the server {written_name}", "its name has no letters.")
            continue
        found.left += notices
        about = describe.address(written, hide=True) if written.url else describe.command_line(written, hide=True)
        secrets = describe.secret_keys(written)

        def write(name: str = name, entry: dict[str, Any] = entry, *, private: bool = bool(secrets)) -> None:
            edit.add_server(path, name, entry, private=private)

        rows.append(Item("server", name, about, write, "you have one of this name" if name in mine else "", secrets))
    return rows


def _hooks(found: Found) -> list[Item]:
    path = config_dir() / "hooks.json"
    mine = _hooks_in(path).get("hooks", {})
    rows = []
    for event, group in found.hooks:
        commands = "; ".join(" ".join([str(entry["command"]), *entry.get("args", ())]) for entry in group["hooks"])
        known = mine.get(event, ()) if isinstance(mine, dict) else ()
        name = f"{event} {group.get('matcher', '')}".strip()

        def write(event: str = event, group: dict[str, Any] = group) -> None:
            with atomic_file.locked(path):
                document = _hooks_in(path)
                document.setdefault("hooks", {}).setdefault(event, []).append(group)
                atomic_file.replace(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

        rows.append(
            Item("hook", name, mask(sanitize_line(commands, 400)), write, "you have it" if group in known else "")
        )
    return rows


def _hooks_in(path: Path) -> dict[str, Any]:
    """The content of hooks.json. Raises FileError if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(str(path), f"cannot be read: {error}.") from None
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise FileError(str(path), 'must be an object with "hooks": {EVENT: [...]}.')
    return found


def _rules(found: Found) -> list[Item]:
    mine = read_settings(settings_file()).get("permissions", {})
    return [
        Item(
            "rule",
            rule,
            decision,
            partial(add_value, f"permissions.{decision}", rule),
            "you have it" if rule in mine.get(decision, ()) else "",
        )
        for decision, rule in found.rules
    ]


def _file(kind: Kind, name: str, path: Path, text: str) -> Item:
    def write() -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise FridayError(f"{path} cannot be written: {error.strerror}.") from None

    about = pluralize(text.count("\n"), "line")
    return Item(kind, name, about, write, "you have one of this name" if os.path.lexists(path) else "")
