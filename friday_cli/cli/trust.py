"""`friday trust`: let a project's settings, profiles and instructions count."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.extensions import trust as book
from friday_cli.extensions import trust_review
from friday_cli.extensions.trust import Trust
from friday_cli.paths import with_tilde

from .help import HelpCommand
from .output import TableColumn, confirm, remark, show_hanging, show_table
from .session_args import YES


def register(app: typer.Typer, _: str) -> None:
    """Add the command `trust`."""
    app.command("trust", cls=HelpCommand)(trust)


def trust(
    path: str = typer.Argument(".", metavar="PATH", help="The project; this folder's without it.", show_default=False),
    revoke: bool = typer.Option(False, "--revoke", help="Trust it no longer."),
    listing: bool = typer.Option(False, "--list", help="List what was decided so far."),
    yes: bool = YES,
) -> None:
    """Trust a project with what it brings along.

    Its profiles can be used then, its settings tighten yours, and its AGENTS.md counts as instructions. What that
    would allow is shown first. When a profile or settings file changes, the project is not trusted any more until you decide
    again. No project can loosen your settings.
    """
    if listing:
        _list()
        return
    folder = Path(path)
    if not folder.is_dir():
        raise UsageError(f"{path} is not a folder.")
    standing = book.is_trusted(folder)
    if standing.state == "broken":
        raise UsageError(standing.reason)
    name = with_tilde(standing.root)
    if revoke:
        book.decide(folder, False)
        remark(f"{name} is not trusted any more")
        return
    if standing.ok:
        remark(f"{name} is trusted, and has not changed since")
        return
    for head, text in _allowed(standing):
        show_hanging(4, (head, ""), (text, ""))
    if not confirm(f"Trust {name}?", yes=yes, otherwise=f"{name} was not trusted"):
        remark("nothing was changed: it is not trusted")
        return
    book.decide(folder, True, seen=standing.files)
    remark(f"{name} is trusted")


def _list() -> None:
    rows = book.decisions()
    if not rows:
        remark("nothing was decided yet")
        return
    show_table(
        [TableColumn("PROJECT", wide=True), TableColumn("TRUSTED"), TableColumn("SINCE")],
        [
            (with_tilde(folder), "yes" if yes else "no", time.strftime("%Y-%m-%d", time.localtime(at)))
            for folder, yes, at in rows
        ],
    )


def _allowed(standing: Trust) -> list[tuple[str, str]]:
    """What trusting a project would let it do: a line for each file, with where its text begins."""
    name = with_tilde(standing.root)
    lines = [("", f"The project {name} could then steer Friday with:")]
    if standing.changed:
        lines = [("", f"{name} has changed since you decided (+ new, ~ changed, - gone):")]
        lines += [("  ", row) for row in trust_review.differences(standing)]
        lines.append(("", "It could then steer Friday with:"))
    return lines + [(f"  {file}: " if file else "  ", text) for file, text in trust_review.lines(standing)]
