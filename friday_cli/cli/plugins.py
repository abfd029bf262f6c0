"""`friday plugins`: list, add, remove, check."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import typer

from friday_cli.core.protocol.errors import FileError, FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.extensions import trust
from friday_cli.extensions.plugins import install, review
from friday_cli.extensions.plugins.find import find_plugins
from friday_cli.extensions.plugins.installed import folder, read_store
from friday_cli.extensions.plugins.places import IN_PROJECT
from friday_cli.extensions.plugins.plugin import Plugin, PluginFiles, read
from friday_cli.system.paths import with_tilde, working_folder

from . import output
from .help import add_family
from .session_args import JSON


def register(app: typer.Typer, about: str) -> None:
    """Add the family `plugins`."""
    add_family(app, "plugins", about, {"list": list_, "add": add, "remove": remove, "check": check})


def list_(as_json: bool = JSON) -> None:
    """List the plugins for this folder, and what each brings."""
    status = trust.is_trusted(working_folder())
    found = find_plugins(status)
    plugins, problems = (found.found, found.problems) if found else ((), ())
    pins = read_store().plugins if found else {}
    if as_json:
        output.show_json(
            {
                "plugins": [_data(one, pins[one.name].source if one.name in pins else "") for one in plugins],
                "problems": list(problems),
            }
        )
        return
    if plugins:
        table = [
            (one.name, one.version, "you" if one.origin == "user" else "project", _counts(one), one.description)
            for one in plugins
        ]
        output.show_table(("NAME", "VERSION", "FROM", "BRINGS", "DESCRIPTION"), table, wide=("DESCRIPTION", "BRINGS"))
    elif not problems:
        output.remark("no plugins; `friday plugins add FOLDER` adds one")
    for problem in problems:
        output.remark(problem)
    if not status.ok and any(name.startswith(IN_PROJECT) for name in status.files):
        output.remark(f"{status.reason} Its plugins are not used. Run `friday trust` to allow them.")


def add(
    source: str = typer.Argument(
        metavar="SOURCE", help="A folder, a zip file, or a git address with a commit: URL@COMMIT."
    ),
    plugin: str = typer.Option("", "--plugin", metavar="NAME", help="The plugin of a marketplace in SOURCE."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Add it without asking."),
) -> None:
    """Add or update a plugin, after showing what it brings.

    A copy is kept with the sha256 of each file, and only files with this content are used.
    """
    with tempfile.TemporaryDirectory(prefix="friday-plugin-") as temporary:
        top = install.plugin_folder(install.fetched(source, Path(temporary)), plugin)
        files, problems = install.hashed(top)
        found = read(files)
        before = read_store().plugins.get(found.name)
        output.show_painted((f"{found.name} {found.version}".strip(), "bold"))
        if found.description:
            output.show(found.description)
        for part, about in review.rows(found):
            output.show_hanging(4, (f"  {part}: ", "cyan"), (about, ""))
        for problem in problems:
            output.remark(problem)
        output.show(f"sha256 of its {pluralize(len(files.files), 'file')}: {install.whole_hash(files.files)}")
        if before is not None:
            if before.files == files.files:
                output.remark(f"{found.name} has already been added with this content")
                return
            output.show(f"What changes from {before.source}:")
            for line in review.differences(PluginFiles(folder() / found.name, before.files), files):
                output.show(line)
        question = f"{'Update' if before is not None else 'Add'} the plugin {found.name}?"
        if output.confirm(question, yes=yes, otherwise="Nothing was added"):
            install.add(found.name, _lasting(source), files)
            output.remark(f"{'updated' if before is not None else 'added'} {found.name}")


def remove(name: str = typer.Argument(metavar="NAME", help="The plugin.")) -> None:
    """Remove a plugin that you added. What its servers stored stays."""
    install.remove(name)
    output.remark(f"removed {name}")


def check(
    path: str | None = typer.Argument(
        None, metavar="PATH", help="The folder of a plugin. Default: all that you added."
    ),
) -> None:
    """Check plugins: manifest, parts, and files that changed since. Exit code 2 if there are errors."""
    bad = 0
    checked = []
    if path is not None:
        top = Path(os.path.abspath(os.path.expanduser(path)))
        files, problems = install.hashed(top)
        for problem in problems:
            output.show(f"{with_tilde(top)}: {problem}")
        checked.append((str(top), files))
    else:
        checked = [(n, PluginFiles(folder() / n, pin.files)) for n, pin in read_store().plugins.items()]
    for name, files in checked:
        changed = files.changed() if path is None else []
        for file in changed:
            output.show(f"{name}: {file} has changed since it was added, so it is not used")
        try:
            plugin = read(files)
        except FridayError as error:
            output.show(f"{name}: {error}" if not isinstance(error, FileError) else str(error))
            bad += 1
            continue
        rows = [
            (part, about)
            for part, about in review.rows(plugin)
            if part == "not used" or about.startswith("cannot be used")
        ]
        for part, about in rows:
            output.show(f"{plugin.name}: {part}: {about}")
        bad += bool(changed or rows)
    if bad:
        output.remark(f"{pluralize(len(checked), 'plugin')}, {bad} with problems")
        raise typer.Exit(2)
    output.remark(f"{pluralize(len(checked), 'plugin')}, no errors" if checked else "no plugins")


def _lasting(source: str) -> str:
    """The source as it is kept: a path of the file system absolute."""
    path = Path(os.path.expanduser(source))
    return str(path.resolve()) if path.exists() else source


def _counts(plugin: Plugin) -> str:
    counts = [
        pluralize(len(found), noun)
        for found, noun in (
            (plugin.skills, "skill"),
            ((*plugin.agents, *plugin.profiles), "agent"),
            (plugin.commands, "command"),
        )
        if found
    ]
    counts += ["MCP servers"] if plugin.servers or plugin.inline_servers else []
    return ", ".join([*counts, *(["language servers"] if plugin.language_servers else [])])


def _data(plugin: Plugin, source: str) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "origin": plugin.origin,
        "folder": str(plugin.root),
        "source": source,
        "sha256": install.whole_hash(plugin.files.files),
        "parts": [{"part": part, "about": about} for part, about in review.rows(plugin)],
    }
