"""`friday profiles`: list, show, check, login, new."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import typer

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions import profiles
from friday_cli.extensions.profiles import Profile, Profiles, render, user_folder
from friday_cli.extensions.profiles.create import create
from friday_cli.extensions.profiles.external import KNOWN
from friday_cli.extensions.profiles.lookup import SHIPPED_NAMES
from friday_cli.extensions.profiles.profile import ExternalAgent
from friday_cli.extensions.trust_review import unused_files
from friday_cli.external_agents.programs import how_to_install, how_to_log_in, is_installed, program_of, readiness
from friday_cli.session.mcp_settings import read_servers
from friday_cli.system.paths import working_folder

from . import completion, output
from .help import add_family
from .project_context import ProjectContext, load_context
from .session_args import JSON


def register(app: typer.Typer, about: str) -> None:
    """Add the family `profiles`."""
    add_family(app, "profiles", about, {"list": list_, "show": show, "check": check, "login": login, "new": new})


def list_(as_json: bool = JSON) -> None:
    """List the usable profiles.

    Your profiles override those of a trusted project, and these override the built-in ones.
    """
    context = load_context()
    found = context.profiles()
    if as_json:
        document = {
            "profiles": [_data(found.found[name]) for name in found.names()],
            "hidden": [_data(profile) for profile in found.hidden],
            "problems": [_problem(error) for error in found.problems],
            "announcements": list(found.announcements),
        }
        output.show_json(document)
        return
    _show(found)
    path = os.environ.get("PATH")
    others = [name for name in KNOWN if name not in found.found and is_installed(ExternalAgent(name), path)]
    if others:
        output.remark(f"other assistants that are installed: {', '.join(others)} (`friday ask --profile NAME`)")
    for message in (*found.announcements, *map(str, found.problems)):
        output.remark(message)
    unused = [name for name in unused_files(context.trust_status) if name.endswith(".md")]
    if unused:
        output.remark(f"{context.trust_status.reason} Not used: {', '.join(unused)}. Run `friday trust` to allow them.")


def show(
    name: str = typer.Argument(metavar="NAME", help="The profile.", autocompletion=completion.profiles),
) -> None:
    """Show the source, permissions and prompt of a profile."""
    profile = load_context().profiles().named(name)
    if profile.external is not None:
        output.remark(f"its work is done by {readiness(profile.external, os.environ.get('PATH'))}")
    for row in render.show(profile).rstrip("\n").split("\n"):
        start = re.match(r"\S+(?: \S+)? {2,}|\s*(?:[-*] |\d+\. )?", row)
        head = start[0] if start else ""
        output.show_hanging(len(head), (head, ""), (row[len(head) :], ""))


def check(
    path: str | None = typer.Argument(
        None, metavar="PATH", help="A profile or a folder of profiles. Default: all usable ones."
    ),
) -> None:
    """Check profiles, and in PATH the commands of other programs too. Errors are shown with file, line and remedy; exit code 2 if there are any. Warnings change nothing.

    An error means that the file, or a part of it, is not used; loading finds the same errors."""
    from friday_cli.extensions import command_check  # the reader of commands takes 3 ms; a list needs none

    context = load_context()
    called: list[tuple[str, list[str]]] = []
    if path is not None:
        own = user_folder(context.directory)
        names = context.profiles().names()
        top = Path(os.path.abspath(path))
        called, wrong = command_check.check(top)
        is_command = top.is_file() and bool(called or wrong)
        good, bad = (
            ([], []) if is_command else profiles.check(Path(path), token_cap=context.token_cap, known=names, own=own)
        )
        bad = [*bad, *wrong]
    else:
        found = context.profiles()
        good, bad = [*found.found.values(), *found.hidden], list(found.problems)
        for folder in () if context.trust_status.ok else (".friday/profiles", "profiles"):
            if (context.trust_status.root / folder).is_dir():  # also before the project is trusted
                more, wrong = profiles.check(context.trust_status.root / folder, token_cap=context.token_cap)
                good, bad = [*good, *more], [*bad, *wrong]
    for error in bad:
        output.show(str(error))
    warnings = 0
    for profile in good:
        notes = (_temperature_note(profile, context.settings), _servers_note(profile, context, good))
        for notice in (*profile.notices, *(note for note in notes if note)):
            output.show(f"{profile.path}: warning: {notice}")
            warnings += 1
    for file, differences in called:
        for difference in differences:
            output.show(f"{file}: warning: {difference}")
            warnings += 1
    counts = [pluralize(len(good), "profile")] if good or not called else []
    files = " and ".join([*counts, *([pluralize(len(called), "command")] if called else [])])
    others = f", {pluralize(warnings, 'warning')}" if warnings else ""
    if bad:
        output.remark(f"{files} valid, {pluralize(len(bad), 'error')}{others}")
        raise typer.Exit(2)
    output.remark(f"{files}, no errors{others}" if good or called else "no profiles found")


def login(
    name: str = typer.Argument(
        metavar="NAME", help="The profile of an external agent.", autocompletion=completion.profiles
    ),
) -> None:
    """Log in to the program of a profile. Friday does not see the login.

    Needed where Friday has no key for its service: Claude Code and Codex then use a login of their own."""
    profile = load_context().profiles().named(name)
    if profile.external is None:
        raise UsageError(f"The profile {name} runs no other program.", hint="Use `friday auth` for Friday's own keys.")
    program = program_of(profile.external)
    if not program.login:
        raise UsageError(f"{profile.program} uses a key, not a login: {how_to_log_in(profile)}")
    found = shutil.which(program.argv[0])
    if found is None:
        raise UsageError(f"{profile.program} is not installed: {how_to_install(program)}")
    os.execv(found, [found, *program.login])


def new(
    name: str = typer.Argument(metavar="NAME", help="Lower-case letters, digits, - and _."),
    project: bool = typer.Option(False, "--project", help="Create it for this project (.friday/profiles)."),
) -> None:
    """Create a profile from a template. An existing file is never overwritten."""
    content = render.template(name)
    context = load_context()
    folder = context.trust_status.root / ".friday/profiles" if project else user_folder(context.directory)
    path = folder / f"{name}.md"
    create(path, content)
    print(path)
    output.remark("fill it in, then run `friday profiles check`" + (" and `friday trust`" if project else ""))
    if name in SHIPPED_NAMES:
        output.remark(f"it replaces the built-in profile {name}")


def _show(found: Profiles) -> None:
    """Two lines per profile on a terminal; a table in a pipe."""
    rows = render.rows(found)
    if not output.on_terminal():
        output.show_table([name.upper() for name in render.COLUMNS], rows, right=("TOOLS",))
        return
    width = max((len(row[0]) for row in rows), default=0) + 2
    for name, origin, tools, limits, delegates, description in rows:
        count = f"{tools} tool{'' if tools == '1' else 's'}" if tools.isdigit() else f"{tools} tools"
        program = found.found[name].external
        runs = "" if program is None else f"runs on {readiness(program, os.environ.get('PATH'))}"
        facts = " · ".join(
            part
            for part in (runs, origin, count, limits, "" if delegates == "none" else f"delegates to {delegates}")
            if part
        )
        output.show_hanging(width, (f"{name:<{width}}", "cyan"), (facts, "dim"))
        output.show_hanging(width, (" " * width, ""), (description, ""))


def _temperature_note(profile: Profile, settings: Settings) -> str:
    """Tells that the model of a profile does not take its temperature; "" if it does, or no model can be found."""
    from friday_cli.llm import models  # slow to import

    if profile.temperature is None:
        return ""
    try:
        choice = models.resolve(
            profile.model or settings.subagent_model or None, settings, effort=profile.effort or None
        )
    except FridayError:
        return ""
    return choice.temperature_note


def _servers_note(profile: Profile, context: ProjectContext, others: Iterable[Profile]) -> str:
    """Tells which MCP servers of a profile are not configured; "" if all are."""
    if not profile.mcp_servers:
        return ""
    found, _ = read_servers(working_folder(), os.environ, project=context.trust_status, profiles=others)
    missing = [name for name in profile.mcp_servers if name not in {entry.name for entry in found}]
    return f"mcpServers: {', '.join(missing)} cannot be used: `friday mcp list` shows the servers." if missing else ""


def _data(profile: Profile) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(profile)
    del document["prompt"]
    document["mcp_inline"] = sorted(profile.mcp_inline)  # definitions can contain secrets
    document["tools"] = "*" if profile.allowed_tools == "*" else sorted(profile.select(TOOLS.names))
    return document


def _problem(error: FileError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("path", "line", "field", "problem")} | {"remedy": error.hint}
