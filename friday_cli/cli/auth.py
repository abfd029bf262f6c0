"""`friday auth`: stores API keys. A key is never read from the command line and never shown."""

from __future__ import annotations

import os
import sys
from getpass import getpass

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.llm.models import credentials
from friday_cli.llm.models.presets import SCRIPTED, service_names, unknown_provider
from friday_cli.system.paths import with_tilde

from . import completion
from .help import add_family
from .output import remark, show_table
from .project_context import load_context

MAX_KEY_CHARS = 10_000
"""Longest key."""

_PROVIDER = typer.Argument(
    metavar="PROVIDER", help="The service, such as anthropic or openai.", autocompletion=completion.providers
)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `auth`."""
    # an unknown option could be a key: accept it here and refuse it in `set`, so that Typer does not print it
    any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True}
    add_family(
        app, "auth", about, {"set": set_, "list": list_, "remove": remove}, set={"context_settings": any_arguments}
    )


def set_(context: typer.Context, provider: str = _PROVIDER) -> None:
    """Store the key of a service in a file that only you can read.

    \b
    friday auth set anthropic                prompts for the key without echo
    pass show anthropic | friday auth set anthropic
    """
    if context.args or provider.startswith("-"):
        raise UsageError(
            "Do not put a key on the command line: the shell stores it in its history.",
            hint="Run `friday auth set PROVIDER` and paste it, or pipe it in. Treat this key as exposed.",
        )
    name = _service_name(provider)
    path = credentials.set_key(name, _read_key(name))
    remark(f"saved the key for {name} in {with_tilde(path)}")
    for row in _rows(name):
        if row.used and row.source != "auth.toml":
            remark(f"warning: {row.source} is set and overrides it")


def list_() -> None:
    """List the services with a key and its source. The keys are not shown."""
    rows = _rows()
    if not rows:
        remark("no keys. Set a variable such as ANTHROPIC_API_KEY, or run `friday auth set anthropic`.")
        return
    show_table(
        ("SERVICE", "KEY FROM", "USED"),
        [(row.provider, row.source, "yes" if row.used else "no: overridden by the one above") for row in rows],
    )


def remove(provider: str = _PROVIDER) -> None:
    """Remove the stored key of a service. Environment variables are not changed."""
    variables = [row.source for row in _rows(provider) if row.source != "auth.toml"]
    note = f" {variables[0]} in the environment is still used." if variables else ""
    if not credentials.remove_key(provider):
        raise UsageError(f"No key for {provider!r} in {with_tilde(credentials.auth_path())}.{note}")
    remark(f"removed the key for {provider}.{note}")


def _service_name(provider: str) -> str:
    """Check the name of a service. Raises UsageError without repeating text that could be a key."""
    providers = load_context().settings.providers
    if provider in SCRIPTED:
        raise UsageError(f"{provider} needs no key.")
    if provider in service_names(providers):
        return provider
    if len(provider) > 24:
        raise UsageError(
            "Unknown service. If this is a key, do not put it on the command line.",
            hint="Run `friday auth set PROVIDER` and paste the key at the prompt.",
        )
    raise unknown_provider(provider, providers)


def _rows(provider: str = "") -> list[credentials.KeyRow]:
    rows = credentials.list_keys(load_context().settings.providers, os.environ)
    return [row for row in rows if not provider or row.provider == provider]


def _read_key(provider: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        try:
            return getpass(f"Key for {provider} (not shown): ", sys.stderr)
        except EOFError:
            raise UsageError("No key was entered.") from None
    text = sys.stdin.read(MAX_KEY_CHARS + 1) if sys.stdin is not None else ""
    if not text.strip():
        raise UsageError(
            "Standard input is empty: no key.", hint="Pipe the key in, or run this in a terminal and paste it."
        )
    if len(text) > MAX_KEY_CHARS:
        raise UsageError("The text on standard input is too long for a key.")
    return text.strip()
