"""The language servers for the files of a folder. None is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from friday_cli.config import Settings
from friday_cli.extensions import trust
from friday_cli.session.language_servers import language_server_table, languages_of, servers_of
from friday_cli.system.paths import with_tilde

from .fact import Fact, Facts
from .machine import version_of


def installed(cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str]) -> Facts:
    """The server of each language that the folder is a project of, where its program is, and what it is told of; what is missing."""
    if not settings.lsp.enabled:
        yield Fact("used", "no: lsp.enabled is false")
        return
    table = language_server_table(project, env)
    ends = languages_of(cwd)
    servers = servers_of(cwd, ends, table, env)
    for end, one in zip(ends, servers, strict=True):
        if one is not None:
            venv = f", told of {with_tilde(one.venv)}" if one.venv else ""
            confined = "in the sandbox" if one.entry.sandbox or one.in_project else "without the sandbox"
            version = (
                "" if one.in_project else f" {version_of(one.program)}"
            )  # a project's program runs in the sandbox only
            yield Fact(one.entry.name, f"{with_tilde(one.program)}{version}, {confined}{venv}")
        else:
            known = next((e.install for e in table.entries if end in e.languages and e.install), "")
            yield Fact(f"*{end}", "no language server is installed", "note", f"For example: {known}" if known else "")
    for problem in table.problems:
        yield Fact("problem", problem, "note")
    if any(servers) and not project.ok:
        yield Fact("not used", f"{project.reason} None is started here.", "note", "Run `friday trust`.")
    elif not ends and not table.problems:
        yield Fact("needed", "none: no project of a known language here")
