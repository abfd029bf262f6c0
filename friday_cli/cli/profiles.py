"""`friday profiles`: list, show, check, new."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import typer

from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.extensions import profiles
from friday_cli.extensions.profiles import Profile, Profiles, render, user_folder
from friday_cli.extensions.profiles.lookup import SHIPPED_NAMES
from friday_cli.tool_catalog import TOOLS

from . import completion, output
from .help import add_family
from .project_context import look
from .session_args import JSON


def register(app: typer.Typer, about: str) -> None:
    """Add the family `profiles`."""
    add_family(app, "profiles", about, {"list": list_, "show": show, "check": check, "new": new})


def list_(as_json: bool = JSON) -> None:
    """List the profiles that can be used here.

    Yours come before those of a trusted project, and these before the ones that come with Friday.
    """
    here = look()
    found = here.profiles()
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
    for words in (*found.announcements, *map(str, found.problems)):
        output.remark(words)
    if waiting := _waiting(here.standing.files) if not here.standing.ok else []:
        output.remark(f"{here.standing.reason} Not used: {', '.join(waiting)}. `friday trust` would allow them.")


def show(
    name: str = typer.Argument(
        metavar="NAME", help="The profile.", autocompletion=completion.profiles, show_default=False
    ),
) -> None:
    """Show where a profile is from, what it may do, its prompt."""
    for row in render.show(look().profiles().get(name)).rstrip("\n").split("\n"):
        start = re.match(r"\S+(?: \S+)? {2,}|\s*(?:[-*] |\d+\. )?", row)
        head = start[0] if start else ""
        output.show_hanging(len(head), (head, ""), (row[len(head) :], ""))


def check(
    path: str | None = typer.Argument(
        None, metavar="PATH", help="A profile or a folder of them; all that are found from here without it.",
        show_default=False,
    ),
) -> None:  # fmt: skip
    """Say what is wrong in profiles, with file and line.

    And what to write instead. Exit code 2 when something is wrong.
    """
    here = look()
    if path is not None:
        good, bad = profiles.check(Path(path), token_cap=here.token_cap, known=here.profiles().names())
    else:
        found = here.profiles()
        good, bad = [*found.found.values(), *found.hidden], list(found.problems)
        for folder in () if here.standing.ok else (".friday/profiles", "profiles"):
            if (here.standing.root / folder).is_dir():  # also before it is trusted
                more, wrong = profiles.check(here.standing.root / folder, token_cap=here.token_cap)
                good, bad = [*good, *more], [*bad, *wrong]
    for error in bad:
        output.show(str(error))
    for profile in good:
        for words in profile.notices:
            output.show(f"{profile.path}: {words}")
    files = pluralize(len(good), "profile")
    if bad:
        output.remark(f"{files} good, {pluralize(len(bad), 'thing')} wrong")
        raise typer.Exit(2)
    output.remark(f"{files}, nothing wrong" if good else "no profiles found there")


def new(
    name: str = typer.Argument(metavar="NAME", help="Small letters, digits, - and _.", show_default=False),
    project: bool = typer.Option(False, "--project", help="For this project (.friday/profiles) instead of for you."),
) -> None:
    """Write a new profile from a template, to be filled in. An existing file is never overwritten."""
    content = render.template(name)
    here = look()
    folder = here.standing.root / ".friday/profiles" if project else user_folder(here.directory)
    path = folder / f"{name}.md"
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already.", hint="Edit it, or choose another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(content)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    print(path)
    output.remark("fill it in, then see `friday profiles check`" + (" and `friday trust`" if project else ""))
    if name in SHIPPED_NAMES:
        output.remark(f"it takes the place of the built-in profile {name}")


def _show(found: Profiles) -> None:
    """Two lines for each profile on a terminal, where descriptions need room; a table through a pipe."""
    rows = render.rows(found)
    if not output.on_terminal():
        output.show_table([output.TableColumn(name.upper(), right=name == "tools") for name in render.COLUMNS], rows)
        return
    width = max((len(row[0]) for row in rows), default=0) + 2
    for name, origin, tools, limits, description in rows:
        count = f"{tools} tool{'' if tools == '1' else 's'}" if tools.isdigit() else f"{tools} tools"
        facts = " · ".join(part for part in (origin, count, limits) if part)
        output.show_hanging(width, (f"{name:<{width}}", "cyan"), (facts, "dim"))
        output.show_hanging(width, (" " * width, ""), (description, ""))


def _waiting(files: dict[str, str]) -> list[str]:
    """The files of an untrusted project that could be profiles."""
    return [name for name in files if name.endswith(".md")]


def _data(profile: Profile) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(profile)
    del document["prompt"]
    document["tools"] = "*" if profile.allowed_tools == "*" else sorted(profile.select(TOOLS.names))
    return document


def _problem(error: FileError) -> dict[str, Any]:
    return {
        "path": error.path,
        "line": error.line,
        "field": error.field,
        "problem": error.problem,
        "remedy": error.hint,
    }
