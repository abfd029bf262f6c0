"""`friday mcp`: the MCP servers whose tools agents can use. Only `login` opens a connection."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer

from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.extensions import trust
from friday_cli.mcp import describe, edit, read
from friday_cli.mcp.catalog import CatalogCache
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.names import MAX_SERVER, server_name
from friday_cli.mcp.parse import TABLE, check
from friday_cli.mcp.tokens import logins_dir, remove_logins, uses_oauth
from friday_cli.system.paths import with_tilde, working_folder

from . import mcp_call, mcp_serve, output
from .help import add_family
from .mcp_lookup import NAME, find, untrusted_note
from .project_context import load_context
from .session_args import JSON

_NEW = typer.Argument(metavar="NAME", help="Its name: letters, digits, - and _.")
_PROJECT = typer.Option(False, "--project", help="In .mcp.json of this project instead of your mcp.json.")
_WORDS = typer.Argument(
    metavar="URL | -- PROGRAM [ARGUMENTS]", help="An address, or a program with its arguments after --."
)
_ENV = typer.Option([], "--env", "-e", metavar="KEY=VALUE", help="A variable of the program; may be repeated.")
_HEADER = typer.Option([], "--header", "-H", metavar="'KEY: VALUE'", help="An HTTP header; may be repeated.")
_NO_BROWSER = typer.Option(False, "--no-browser", help="Print the address and read the pasted redirect.")


def register(app: typer.Typer, about: str) -> None:
    """Add the family `mcp`."""
    commands: dict[str, Callable[..., None]] = {
        "list": list_,
        "show": show,
        "add": add,
        "add-json": add_json,
        "remove": remove,
        "login": login,
        "logout": logout,
        "tools": mcp_call.tools,
        "call": mcp_call.call,
        "serve": mcp_serve.serve,
    }
    add_family(app, "mcp", about, commands)


def list_(as_json: bool = JSON) -> None:
    """List the MCP servers of a session in this folder. No server is started or contacted.

    Exit code 1 if a file or an entry cannot be used; the others are listed.
    """
    entries, problems = load_context().mcp_servers()
    if as_json:
        output.show_json({"servers": [_data(entry) for entry in entries], "problems": problems})
    else:
        _show_list(entries, problems)
    if any(not isinstance(problem, read.EntryNotice) for problem in problems):
        raise typer.Exit(1)


def login(name: str = NAME, no_browser: bool = _NO_BROWSER) -> None:
    """Log in to an MCP server with OAuth. The login is stored in a file that only you can read.

    On a machine without a browser use --no-browser: open the printed address anywhere, log in, and paste the address of the
    page that does not load.
    """
    entry = find(name)
    if not uses_oauth(entry):
        why = "is a program" if entry.transport == "stdio" else "has an Authorization header in its entry"
        raise UsageError(f"The server {name} {why}: it has no login.")
    from friday_cli.mcp.login import log_in, summary  # imports the library mcp: 0.8 s

    try:
        stored = asyncio.run(log_in(entry, output.remark, browser=not no_browser))
    except KeyboardInterrupt:
        raise FridayError(f"The login to {name} was cancelled.") from None
    output.remark(f"logged in to {name}: {summary(stored)}")


def logout(name: str = NAME) -> None:
    """Remove the stored login to an MCP server."""
    if not remove_logins(name):
        raise UsageError(f"No login for {sanitize_line(name)} in {with_tilde(logins_dir())}.")
    output.remark(f"removed the login for {name}")


def _show_list(entries: Sequence[ServerEntry], problems: Sequence[str]) -> None:
    rows = [
        (
            entry.name,
            _state(entry),
            _tools(entry),
            "you" if entry.origin == "user" else entry.origin,
            describe.server_line(entry),
        )
        for entry in entries
    ]
    if rows:
        output.show_table(("NAME", "STATE", "TOOLS", "FROM", "SERVER"), rows, wide=("SERVER",))
    for problem in problems:
        output.remark(problem)
    if not rows and not problems:
        output.remark(
            "no MCP servers. `friday mcp add NAME -- PROGRAM ARGUMENTS` or `friday mcp add NAME URL` adds one."
        )
    for note in untrusted_note():
        output.remark(note)


def show(name: str = NAME, as_json: bool = JSON) -> None:
    """Show the settings of an MCP server. Values that look like secrets are hidden."""
    entry = find(name)
    data = _data(entry)
    if as_json:
        output.show_json(data)
        return
    facts = [
        ("from", f"{with_tilde(entry.file)} ({entry.origin})"),
        ("state", _state(entry)),
        ("known tools", _tools(entry)),
        ("runs" if entry.transport == "stdio" else "address", describe.server_line(entry)),
        ("folder", entry.cwd),
        ("description", entry.description),
        ("used tools", _filter(entry)),
        ("expose", entry.expose or ""),
        ("sandbox", ("yes" if entry.sandbox else "no") if entry.transport == "stdio" else ""),
        ("read-only tools", "run without asking" if entry.readonly else ""),
        ("timeouts", f"{entry.timeout_s:g} s for a call, {entry.startup_timeout_s:g} s to start"),
    ]
    output.show_painted((entry.name, "bold"))
    for label, text in facts:
        if text:
            output.show_hanging(17, (f"{label:<17}", "dim"), (text, ""))


def add(
    name: str = _NEW,
    words: list[str] = _WORDS,
    *,
    env: list[str] = _ENV,
    header: list[str] = _HEADER,
    cwd: str = typer.Option("", "--cwd", metavar="DIR", help="Folder in which the program starts."),
    expose: str = typer.Option("", "--expose", metavar="HOW", help="direct, search, delegated or hidden."),
    readonly: bool = typer.Option(False, "--readonly", help="Its read-only tools run without asking."),
    sandbox: bool = typer.Option(False, "--sandbox", help="Run the program in the sandbox."),
    project: bool = _PROJECT,
) -> None:
    """Add an MCP server, and print what was written.

    \b
    friday mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
    friday mcp add github https://example.org/mcp -H 'Authorization: Bearer KEY'

    A value can name an environment variable instead, as in -H 'Authorization: Bearer ${KEY}', which keeps secrets out of the file.
    """
    entry: dict[str, Any] = {}
    if words[0].startswith(("http://", "https://")):
        if len(words) > 1:
            raise UsageError(f"Unexpected {words[1]!r} after the address.", hint="A program comes after --.")
        entry |= {"type": "http", "url": words[0]}
    else:
        entry |= {"command": words[0], "args": words[1:]}
    for option, given, transport in (("--env", env, "command"), ("--header", header, "url")):
        if given and transport not in entry:
            raise UsageError(
                f"{option} is only for a server with {'an address' if transport == 'url' else 'a program'}."
            )
    if env:
        entry["env"] = dict(_pair("--env", text, "=") for text in env)
    if header:
        entry["headers"] = dict(_pair("--header", text, ":") for text in header)
    entry |= {key: value for key, value in (("cwd", cwd), ("expose", expose)) if value}
    entry |= {key: True for key, value in (("readonly", readonly), ("sandbox", sandbox)) if value}
    _write(name, entry, project=project)


def add_json(
    name: str = _NEW,
    text: str = typer.Argument(metavar="JSON", help="The entry, as in mcp.json."),
    project: bool = _PROJECT,
) -> None:
    """Add an MCP server from the JSON of its entry."""
    try:
        entry = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as failed:
        raise UsageError(f"The entry is not valid JSON: {failed}.") from None
    if isinstance(entry, dict) and TABLE in entry:
        raise UsageError("Only the entry of one server is needed.", hint=f"Give the object below {TABLE}.NAME.")
    _write(name, entry, project=project)


def remove(name: str = NAME, project: bool = _PROJECT) -> None:
    """Remove an MCP server from your mcp.json."""
    path = _file(project=project)
    edit.remove_server(path, name)
    output.remark(f"removed {name} from {with_tilde(path)}")


def _file(*, project: bool) -> Path:
    return trust.project_root(working_folder()) / read.PROJECT_FILE if project else read.user_file()


def _pair(option: str, text: str, mark: str) -> tuple[str, str]:
    key, found, value = text.partition(mark)
    if not found:
        raise UsageError(f"{option}: expected KEY{mark}VALUE.")
    return key.strip(), value.strip() if mark == ":" else value


def _write(name: str, entry: Any, *, project: bool) -> None:
    """Check an entry, add it to the file and print it. Raises UsageError if it cannot be used."""
    if server_name(name) != name:
        hint = f"Use letters, digits, - and single _; at most {MAX_SERVER} characters."
        raise UsageError(f"{name!r} cannot be used as a name.", hint=hint)
    path = _file(project=project)
    try:
        written, notices = check(str(path), name, entry)
    except FileError as failed:
        raise UsageError(f"{failed.field.rpartition(f'{name}.')[2]}: {failed.problem}", hint=failed.hint) from None
    secrets = describe.secret_keys(written)
    edit.add_server(path, name, entry, private=bool(secrets) and not project, mode=0o644 if project else 0o600)
    output.remark(f"added to {with_tilde(path)}:")
    output.show(json.dumps({name: describe.without_secrets(entry, secrets)}, indent=2, ensure_ascii=False))
    for notice in notices:
        output.remark(notice)
    if secrets:
        risk = "others can read it there" if project else "the file is readable by you only"
        output.remark(
            f"warning: {', '.join(secrets)} is in plain text; {risk}. ${{VARIABLE}} in its place keeps it out of the file."
        )
    if project:
        output.remark("run `friday trust` to use it")


def _state(entry: ServerEntry) -> str:
    return "on" if entry.enabled else "off"


def _tools(entry: ServerEntry) -> str:
    """The number of tools that agents can get, as Friday knows it, and since when."""
    catalog = CatalogCache().read(entry)
    if catalog is None:
        return "not known yet"
    count = sum(entry.has_tool(tool.name) for tool in catalog.tools)
    return f"{count} ({_age(time.time() - catalog.fetched)})"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return "just now"


def _filter(entry: ServerEntry) -> str:
    parts = [", ".join(entry.enabled_tools or ()) if entry.enabled_tools is not None else ""]
    parts.append(f"not {', '.join(entry.disabled_tools)}" if entry.disabled_tools else "")
    return "; ".join(part for part in parts if part)


def _data(entry: ServerEntry) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(entry)
    catalog = CatalogCache().read(entry)
    names = None if catalog is None else [tool.name for tool in catalog.tools if entry.has_tool(tool.name)]
    data["tools"], data["fetched"] = names, catalog and catalog.fetched
    return describe.without_secrets(data, describe.secret_keys(entry))
