"""`friday config`: shows, changes and resets settings."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec
import typer

from friday_cli import config
from friday_cli.config.edit import SavedSetting, set_value, unset_value, value_of
from friday_cli.config.loader import user_file
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.known_keys import without_keys
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.llm.models.resolve import parse
from friday_cli.system.paths import with_tilde

from . import completion, output
from .help import add_family
from .project_context import load_context
from .session_args import JSON

_KEY = typer.Argument(
    metavar="KEY", help="A setting, such as model or limits.max_cost.", autocompletion=completion.settings
)
SCHEMAS = {
    "config": ("friday_cli.config.json_schema", "settings_schema"),
    "mcp": ("friday_cli.mcp.schema", "servers_schema"),
    "lsp": ("friday_cli.lsp.entry", "language_servers_schema"),
    "hooks": ("friday_cli.extensions.hooks.hook", "hooks_schema"),
}
"""The module and the function that make the schema of each file."""


def register(app: typer.Typer, about: str) -> None:
    """Add the family `config`."""
    negative_numbers = {"ignore_unknown_options": True}  # -1 is a value, not an option
    commands = {"path": path, "show": show, "get": get, "set": set_, "unset": unset, "edit": edit, "schema": schema}
    add_family(app, "config", about, commands, set={"context_settings": negative_numbers})


def path() -> None:
    """Print the path of your settings file. It may not exist yet."""
    print(user_file())


def show(as_json: bool = JSON) -> None:
    """Show every setting with its value and source."""
    loaded = load_context().loaded
    rows = config.rows(loaded)
    if as_json:
        output.show_json(
            {
                name: {
                    "value": msgspec.json.decode(value) if value and value != "(hidden)" else value or None,
                    "source": source,
                }
                for name, value, source in rows
            }
        )
        return
    table = [(name, value, with_tilde(source)) for name, value, source in rows]
    output.show_table(("SETTING", "VALUE", "FROM"), table, wide=("VALUE",))
    for notice in loaded.notices:
        output.remark(notice)


def get(key: str = _KEY) -> None:
    """Print one setting.

    Text is printed as it is, a list as JSON, a table with one line per setting.
    """
    loaded = load_context().loaded
    value = config.lookup(loaded.settings, key)
    rows = [row for row in config.rows(loaded) if row[0] == key or row[0].startswith(f"{key}.")]
    if isinstance(value, str) and rows and rows[0][1] != "(hidden)":
        output.show(value)
    elif len(rows) == 1 and rows[0][0] == key:
        output.show(rows[0][1])
    else:
        for name, shown, _ in rows:
            output.show(f"{name} = {shown}")


def set_(
    key: str = _KEY,
    value: str = typer.Argument(
        metavar="VALUE", help='The value: text, a number, true or false, or a list such as \'["a", "b"]\'.'
    ),
) -> None:
    """Change one setting in your file. The rest of the file is kept, with its comments."""
    _validate(key, value_of(tuple(key.split(".")), value))
    saved = set_value(key, value)
    output.remark(f"set {key} in {with_tilde(saved.path)}")
    _warn_if_overridden(key, saved)


def unset(key: str = _KEY) -> None:
    """Remove one setting from your file, so that the default is used."""
    saved = unset_value(key)
    if saved is None:
        output.remark(f"{key} is not set in {with_tilde(user_file())}")
        return
    output.remark(f"removed {key} from {with_tilde(saved.path)}")
    _warn_if_overridden(key, saved)


def edit() -> None:
    """Open your settings file in $VISUAL or $EDITOR, then check it."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    file = user_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        ended = subprocess.run([*shlex.split(wanted), str(file)], env=without_keys(os.environ), check=False).returncode
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{wanted} cannot be started: {error}.", hint="Set EDITOR to the command of an editor."
        ) from None
    if ended:
        raise FridayError(f"{wanted} ended with exit code {ended}.")
    config.load()
    output.remark(f"{with_tilde(file)} is valid" if file.exists() else f"{with_tilde(file)} was not written")


def schema(
    name: Literal["config", "mcp", "lsp", "hooks"] = typer.Argument(
        metavar="config|mcp|lsp|hooks", help="The file: config.toml, mcp.json, lsp.json or hooks.json."
    ),
) -> None:
    """Print the JSON Schema of a file, for editors.

    \b
    friday config schema mcp > mcp.schema.json
    Then write "$schema": "./mcp.schema.json" as the first key of the file.
    The first line of config.toml names it so: #:schema ./config.schema.json
    """
    print(schema_text(name), end="")


def schema_text(name: str) -> str:
    """The schema of a file as JSON text."""
    module, function = SCHEMAS[name]
    document = getattr(import_module(module), function)()
    return json.dumps(json.loads(msgspec.json.encode(document)), indent=2, ensure_ascii=False) + "\n"


def _warn_if_overridden(key: str, saved: SavedSetting) -> None:
    """Warn if another file overrides the key."""
    source = load_context().loaded.sources.get(key, "")
    if source and Path(source).resolve() != saved.path.resolve():
        output.remark(f"warning: {with_tilde(source)} overrides it")


def _validate(key: str, value: object) -> None:
    """Raises UsageError for an invalid model or rule."""
    if key in ("permissions.allow", "permissions.ask", "permissions.deny") and isinstance(value, list):
        for rule in value:
            parse_rule(str(rule), "deny", TOOLS)
    if key in ("model", "subagent_model", "fallback_model") and isinstance(value, str) and value:
        parse(value, load_context().settings.providers)
