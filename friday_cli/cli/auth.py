"""`friday auth`: keep a key for a model service. A key is never read from the command line and never shown."""

from __future__ import annotations

import os
import sys
from getpass import getpass

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.llm.models import credentials
from friday_cli.llm.models.presets import SCRIPTED, service_names, unknown_provider
from friday_cli.paths import with_tilde

from . import completion
from .help import add_family
from .output import TableColumn, remark, show_table
from .project_context import look

LONGEST = 10_000
"""Characters of a key; more is something else."""

_PROVIDER = typer.Argument(
    metavar="PROVIDER", help="The service, such as anthropic or openai.", autocompletion=completion.providers,
    show_default=False,
)  # fmt: skip


def register(app: typer.Typer, about: str) -> None:
    """Add the family `auth`."""
    # what looks like an option could be a key: take it in here, refuse it there, and print it nowhere
    loose = {"allow_extra_args": True, "ignore_unknown_options": True}
    add_family(app, "auth", about, {"set": set_, "list": list_, "remove": remove}, set={"context_settings": loose})


def set_(context: typer.Context, provider: str = _PROVIDER) -> None:
    """Keep the key of a service in a file that only you can read.

    \b
    friday auth set anthropic                asks for the key without showing it
    pass show anthropic | friday auth set anthropic
    """
    if context.args or provider.startswith("-"):
        raise UsageError(
            "A key does not belong on the command line: the shell keeps it in its history.",
            hint="Run `friday auth set PROVIDER` and paste it, or pipe it in. Consider that key known to others.",
        )
    name = _known(provider)
    path = credentials.set_key(name, _read_key(name))
    remark(f"the key of {name} is kept in {with_tilde(path)}")
    for row in _rows(name):
        if row.used and row.source != "auth.toml":
            remark(f"warning: {row.source} is set and is used in its place")


def list_() -> None:
    """List which services have a key, and where it is from. The keys themselves are not shown."""
    rows = _rows()
    if not rows:
        remark("no keys. Set a variable such as ANTHROPIC_API_KEY, or run `friday auth set anthropic`.")
        return
    show_table(
        [TableColumn("SERVICE"), TableColumn("KEY FROM"), TableColumn("USED")],
        [(row.provider, row.source, "yes" if row.used else "no: the one above comes first") for row in rows],
    )


def remove(provider: str = _PROVIDER) -> None:
    """Forget the key of a service. Variables of the environment stay as they are."""
    left = [row.source for row in _rows(provider) if row.source != "auth.toml"]
    still = f" {left[0]} is set in the environment and still gives one." if left else ""
    if not credentials.remove_key(provider):
        raise UsageError(f"No key of {provider!r} is kept in {with_tilde(credentials.auth_path())}.{still}")
    remark(f"the key of {provider} is forgotten.{still}")


def _known(provider: str) -> str:
    """The name of a service that can have a key. Raises UsageError for any other, without repeating a likely key."""
    providers = look().settings.providers
    if provider in SCRIPTED:
        raise UsageError(f"{provider} is no service: it needs no key.")
    if provider in service_names(providers):
        return provider
    if len(provider) > 24:
        raise UsageError(
            "That is no service's name, and may be a key: it does not belong on the command line.",
            hint="Write friday auth set PROVIDER and paste the key when asked.",
        )
    raise unknown_provider(provider, providers)


def _rows(provider: str = "") -> list[credentials.KeyRow]:
    rows = credentials.list_keys(look().settings.providers, os.environ)
    return [row for row in rows if not provider or row.provider == provider]


def _read_key(provider: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        try:
            return getpass(f"Key of {provider} (it is not shown): ", sys.stderr)
        except EOFError:
            raise UsageError("No key was given.") from None
    text = sys.stdin.read(LONGEST + 1) if sys.stdin is not None else ""
    if not text.strip():
        raise UsageError("No key came through standard input.")
    if len(text) > LONGEST:
        raise UsageError("What came through standard input is too long to be a key.")
    return text.strip()
