"""`friday config`: where the settings are, what holds, change one or take it back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from friday_cli import config
from friday_cli.config.edit import SavedSetting, set_value, unset_value, value_of
from friday_cli.config.loader import user_file
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.llm.models.resolve import parse
from friday_cli.paths import with_tilde
from friday_cli.tool_catalog import TOOLS

from . import completion, output
from .help import add_family
from .project_context import look
from .session_args import JSON

_KEY = typer.Argument(
    metavar="KEY", help="A setting, such as model or limits.max_cost.", autocompletion=completion.settings, show_default=False
)  # fmt: skip


def register(app: typer.Typer, about: str) -> None:
    """Add the family `config`."""
    below_zero = {"ignore_unknown_options": True}  # a number below 0 is a value
    commands = {"path": path, "show": show, "get": get, "set": set_, "unset": unset}
    add_family(app, "config", about, commands, set={"context_settings": below_zero})


def path() -> None:
    """Print the path of your settings file; it need not exist yet."""
    print(user_file())


def show(as_json: bool = JSON) -> None:
    """Show every setting with its value and where it comes from."""
    loaded = look().loaded
    rows = config.rows(loaded)
    if as_json:
        output.show_json(
            {name: {"value": msgspec.json.decode(value) if value and value != "(hidden)" else value or None, "source": source}
             for name, value, source in rows}
        )  # fmt: skip
        return
    columns = [output.TableColumn("SETTING"), output.TableColumn("VALUE", wide=True), output.TableColumn("FROM")]
    output.show_table(columns, [(name, value, with_tilde(source)) for name, value, source in rows])
    for words in loaded.notices:
        output.remark(words)


def get(key: str = _KEY) -> None:
    """Print one setting.

    Text comes as it is, a list as JSON, and for a table there is a line for each of its settings.
    """
    loaded = look().loaded
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
        metavar="VALUE", help='The value: text, a number, true or false, or a list such as \'["a", "b"]\'.', show_default=False
    ),
) -> None:  # fmt: skip
    """Change one setting in your file. Everything else in it stays, comments too."""
    _sound(key, value_of(tuple(key.split(".")), value))
    saved = set_value(key, value)
    output.remark(f"{key} is set in {with_tilde(saved.path)}")
    _told(key, saved)


def unset(key: str = _KEY) -> None:
    """Take one setting out of your file: the default holds."""
    saved = unset_value(key)
    if saved is None:
        output.remark(f"{key} is not set in {with_tilde(user_file())}")
        return
    output.remark(f"{key} is no longer set in {with_tilde(saved.path)}")
    _told(key, saved)


def _told(key: str, saved: SavedSetting) -> None:
    """Warn where another file sets the key, too."""
    source = look().loaded.sources.get(key, "")
    if source and Path(source).resolve() != saved.path.resolve():
        output.remark(f"warning: {with_tilde(source)} sets it too, and wins")


def _sound(key: str, value: object) -> None:
    """Refuse a model or rule that would only fail later. Raises UsageError."""
    if key in ("permissions.allow", "permissions.ask", "permissions.deny") and isinstance(value, list):
        for rule in value:
            parse_rule(str(rule), "deny", TOOLS)
    if key in ("model", "subagent_model", "fallback_model") and isinstance(value, str) and value:
        parse(value, look().settings.providers)
