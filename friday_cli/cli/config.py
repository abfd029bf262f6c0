"""`friday config`: where the settings are, what holds, change one or take it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from friday_cli.paths import with_tilde

from . import completion
from .help import HelpCommand, HelpGroup

if TYPE_CHECKING:
    from friday_cli.config.edit import SavedSetting

_KEY = typer.Argument(
    metavar="KEY", help="A setting, such as model or limits.max_cost.", autocompletion=completion.settings, show_default=False
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the family `config`."""
    family = typer.Typer(cls=HelpGroup, help="Settings: path, show, get, set, unset.", rich_markup_mode=None)
    for name, function in (("path", path), ("show", show), ("get", get), ("set", set_), ("unset", unset)):
        settings = {"ignore_unknown_options": name == "set"}  # a number below 0 is a value
        family.command(name, cls=HelpCommand, context_settings=settings)(function)
    app.add_typer(family, name="config")


def path() -> None:
    """Print the path of your settings file; it need not exist yet."""
    from friday_cli.config.load import user_file

    print(user_file())


def show(as_json: bool = typer.Option(False, "--json", help="Print JSON for programs.")) -> None:
    """Show every setting with its value and where it comes from."""
    from friday_cli import config

    from . import output
    from .project_context import look

    loaded = look().loaded
    rows = config.rows(loaded)
    if as_json:
        import msgspec

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
    from friday_cli import config

    from . import output
    from .project_context import look

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
    from friday_cli.config.edit import set_value, value_of

    from . import output

    _sound(key, value_of(tuple(key.split(".")), value))
    saved = set_value(key, value)
    output.remark(f"{key} is set in {with_tilde(saved.path)}")
    _told(key, saved)


def unset(key: str = _KEY) -> None:
    """Take one setting out of your file: the default holds."""
    from friday_cli.config.edit import unset_value
    from friday_cli.config.load import user_file

    from . import output

    saved = unset_value(key)
    if saved is None:
        output.remark(f"{key} is not set in {with_tilde(user_file())}")
        return
    output.remark(f"{key} is no longer set in {with_tilde(saved.path)}")
    _told(key, saved)


def _told(key: str, saved: SavedSetting) -> None:
    """What a person must know beside the change: lost comments, and another place that sets the key."""
    from . import output
    from .project_context import look

    if saved.backup is not None:
        output.remark(f"its comments could not be kept; the old file is {with_tilde(saved.backup)}")
    source = look().loaded.sources.get(key, "")
    if source and Path(source).resolve() != saved.path.resolve():
        output.remark(f"warning: {with_tilde(source)} sets it too, and wins")


def _sound(key: str, value: object) -> None:
    """Refuse a model or rule that would only fail later. Raises UsageError."""
    from friday_cli.core.permissions.rule import parse_rule

    from .project_context import look

    if key in ("permissions.allow", "permissions.ask", "permissions.deny") and isinstance(value, list):
        for rule in value:
            parse_rule(str(rule), "deny")
    if key in ("model", "subagent_model", "fallback_model") and isinstance(value, str) and value:
        from friday_cli.llm.models.resolve import parse

        parse(value, look().settings.providers)
