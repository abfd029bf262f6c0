"""`friday lsp`: the language servers of a folder, and what they say of its files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem
from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.extensions.trust import Trust
from friday_cli.lsp.entry import LanguageServerEntry
from friday_cli.session.language_servers import language_server_table, language_servers
from friday_cli.system.git_command import git
from friday_cli.system.gitignore import level_of, walk_files
from friday_cli.system.paths import with_tilde, working_folder
from friday_cli.workspace.fs.change_detection import SKIPPED

from . import output
from .help import add_family
from .project_context import ProjectContext, load_context
from .session_args import JSON

NOT_KNOWN = 6
"""The exit code if there is no answer."""
MOST_FILES = 20_000
"""Files that are asked about."""
_TITLES = ("NAME", "STATE", "FILES", "FROM", "WHERE")
_PATHS = typer.Argument([], metavar="PATH", help="Files or folders. Default: this folder.")
_TRUST = typer.Option(
    False, "--trust", help="Treat the folder as trusted: servers read its settings and run its plugins."
)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `lsp`."""
    add_family(app, "lsp", about, {"list": list_, "check": check})


def list_(as_json: bool = JSON, trust: bool = _TRUST) -> None:
    """List the language servers for the files of this folder.

    What would start, from where, or why not. Nothing is started.
    """
    from friday_cli.lsp.find import Folders, candidates, servers_for

    context, project, folder = _opened(trust)
    table = language_server_table(project, os.environ)
    never = "off: lsp.enabled" if not context.settings.lsp.enabled else "" if project.ok else "not trusted"
    rows: dict[str, dict[str, str]] = {}
    for path in sorted({path.suffix: path for path in reversed(_files_below(folder))}.values()):
        found = {one.entry.name: one for one in servers_for(path, Folders(folder, folder), table.entries, os.environ)}
        first = next((name for name, one in found.items() if not one.entry.lints), "")
        for entry in candidates(path.name, table.entries):
            one = found.get(entry.name)
            if one is not None:
                state = never or ("would start" if entry.lints or entry.name == first else "not needed")
            else:
                state = "not configured here" if entry.lints else "not needed" if first else "not found"
            where = with_tilde(one.program) if one is not None else _missing(entry, state)
            row = rows.setdefault(entry.name, _row(entry, state, where))
            row["files"] = " ".join(dict.fromkeys((*row["files"].split(), path.suffix)))
    rows |= {entry.name: _row(entry, "off", entry.file) for entry in table.entries if not entry.enabled}
    if as_json:
        output.show_json({"servers": list(rows.values()), "problems": table.problems})
    elif rows:
        output.show_table(_TITLES, [tuple(row.values()) for row in rows.values()], wide=("FILES", "WHERE"))
    else:
        output.remark(
            "no known language server handles the files here; lsp.json can add others (`friday config schema lsp` describes it)"
        )
    for problem in table.problems:
        output.remark(problem)
    if any(row["state"] == "not trusted" for row in rows.values()):
        output.remark(f"none is started: {project.reason} `friday trust` allows it.")


def _opened(trust: bool) -> tuple[ProjectContext, Trust, Path]:
    """The settings, what is trusted, and the folder of a command."""
    context = load_context()
    return context, context.trust_status.as_trusted() if trust else context.trust_status, working_folder()


def _missing(entry: LanguageServerEntry, state: str) -> str:
    """What stands in place of the program of a server that does not handle a file."""
    if state == "not configured here":
        return f"needs {entry.only_with[0]}" if entry.only_with else ""
    return "not installed" if state == "not needed" else f"install: {entry.install}" if entry.install else entry.command


def _row(entry: LanguageServerEntry, state: str, where: str) -> dict[str, str]:
    return {"name": entry.name, "state": state, "files": "", "from": entry.origin, "where": where}


def check(
    paths: list[str] = _PATHS,
    since: str = typer.Option("", "--since", metavar="REF", help="Show only problems that are new since a commit."),
    wait: float = typer.Option(
        60.0, "--wait", metavar="SECONDS", help="How long to wait for an answer.", min=0.1, max=3600
    ),
    warnings: bool = typer.Option(False, "--warnings", help="Show warnings too."),
    trust: bool = _TRUST,
    as_json: bool = JSON,
) -> None:
    """Show what language servers report about files or changes.

    Exit code 0: no problems; 1: problems; 6: not known.
    """
    context, project, folder = _opened(trust)
    if not project.ok:
        output.remark(
            f"not known: no language server is started, because {project.reason} `friday trust` or --trust allows it."
        )
        raise typer.Exit(NOT_KNOWN)
    files = _named_files(folder, paths or ["."])
    if since:
        files = _changed_since(folder, since, files, paths or ["."])
    if len(files) > MOST_FILES:
        raise UsageError(
            f"These are {len(files):,} files, more than {MOST_FILES:,}.", hint="Name some folders or files."
        )
    checks = asyncio.run(_checked(context, project, files, since, wait, 2 if warnings else 1))
    problems = [problem for one in checks for problem in one.new]
    unknown = [f"{one.server}: {one.unknown}" for one in checks if one.unknown]
    if as_json:
        output.show_json(
            {
                "problems": problems,
                "checks": [{"server": c.server, "files": c.files, "unknown": c.unknown} for c in checks],
            }
        )
    else:
        _show(problems, checks)
    if not checks:
        output.remark(
            "no language server handles the changed files"
            if since
            else "no installed language server handles the files here; `friday lsp list` shows those that do"
        )
        raise typer.Exit(0 if since and not files else NOT_KNOWN)
    raise typer.Exit(1 if problems else NOT_KNOWN if unknown else 0)


def _show(problems: Sequence[CodeProblem], checks: Sequence[CodeCheck]) -> None:
    for problem in problems:
        output.show(problem.text)
    for one in checks:
        if one.unknown:
            output.remark(f"{one.server}: not known: {one.unknown}")
        else:
            count = pluralize(len(one.new), "problem") if one.new else "no problems"
            output.remark(f"{one.server}: {count} in {pluralize(one.files, 'file')}")


async def _checked(
    context: ProjectContext, project: Trust, files: Sequence[Path], since: str, wait_s: float, worst: int
) -> list[CodeCheck]:
    from friday_cli.lsp.check import TextChange, check_files, problems_in
    from friday_cli.lsp.pool import Alternatives
    from friday_cli.lsp.project_files import read_text

    folder, groups = working_folder(), dict[Alternatives, list[Path]]()

    async def asked(one: Alternatives, paths: Sequence[Path]) -> CodeCheck:
        if not since:
            return await problems_in(one, paths, wait_s, worst)
        changes: dict[Path, TextChange] = {}
        for path in paths:
            text = await asyncio.to_thread(read_text, path)
            if isinstance(text, FileError):
                return CodeCheck(one[0].name, unknown=str(text))
            changes[path] = TextChange(await asyncio.to_thread(_text_at, folder, since, path), text)
        return await check_files(one, changes, wait_s, worst)

    async with language_servers(folder, context.settings, project, os.environ, output.remark) as (workspace, servers):
        for path in filter(servers.wants, files):
            for one in await servers.alternatives(workspace, path):
                groups.setdefault(one, []).append(path)
        tasks = {one: asyncio.create_task(asked(one, paths)) for one, paths in groups.items()}
        late = (await asyncio.wait(tasks.values(), timeout=wait_s))[1] if tasks else ()
        for task in late:
            task.cancel()
        unknown = f"no answer within {wait_s:.3g} s"
        return [
            CodeCheck(one[0].name, unknown=unknown) if task in late else task.result() for one, task in tasks.items()
        ]


def _text_at(folder: Path, since: str, path: Path) -> str | None:
    """The text of a file in a commit, None if it was not there."""
    with suppress(FridayError):
        return git(folder, "cat-file", "blob", f"{since}:./{os.path.relpath(path, folder)}").decode("utf-8", "replace")
    return None


def _named_files(folder: Path, names: Sequence[str]) -> list[Path]:
    found: dict[Path, None] = {}
    for name in names:
        path = Path(os.path.abspath(folder / name))
        if not path.exists():
            raise UsageError(f"{name}: no such file.")
        if not path.is_relative_to(folder):
            raise UsageError(f"{name} is not in this folder.", hint="Change to its folder first.")
        found |= dict.fromkeys(_files_below(path) if path.is_dir() else [path])
    return list(found)


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder that git does not ignore, without those in folders of tools."""
    walked = walk_files(str(folder), str(folder), level_of(folder)[0], hidden=False)
    return sorted(
        Path(file.path) for file in walked if SKIPPED.isdisjoint(file.path.removeprefix(str(folder)).split("/"))
    )


def _changed_since(folder: Path, since: str, files: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """Those of `files` that differ from a commit, or are not in it, and what is gone since of what was named. Raises FridayError for an
    unknown commit."""
    if since.startswith("-"):
        raise UsageError(f"{since!r} is not a commit.")
    commit = git(folder, "rev-parse", "--verify", "--quiet", f"{since}^{{commit}}").decode().strip()
    changed = git(folder, "diff", "--name-only", "--relative", "-z", commit, "--", *names).split(b"\0")
    changed += git(folder, "ls-files", "-o", "--exclude-standard", "-z", ".").split(b"\0")
    wanted = {folder / os.fsdecode(name) for name in changed if name}
    return [path for path in files if path in wanted] + sorted(path for path in wanted if not path.exists())
