"""`friday trust`: decides whether the settings, profiles, skills and instructions of a project are used."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.extensions import trust as trust_store
from friday_cli.extensions import trust_review
from friday_cli.extensions.trust import Trust
from friday_cli.system.paths import with_tilde
from friday_cli.system.project_search import left_out

from .help import HelpCommand
from .output import confirm, remark, show_hanging, show_table
from .session_args import YES


def register(app: typer.Typer, _: str) -> None:
    """Add the command `trust`."""
    app.command("trust", cls=HelpCommand)(trust)


def trust(
    path: str = typer.Argument(".", metavar="PATH", help="A folder of the project."),
    revoke: bool = typer.Option(False, "--revoke", help="Stop trusting it."),
    listing: bool = typer.Option(False, "--list", help="List all decisions."),
    yes: bool = YES,
) -> None:
    """Trust the settings, profiles and skills of a project.

    It shows what they would change first. Settings of a project can only restrict yours. When one of these files changes, the
    project is no longer trusted until you decide again.
    """
    if listing:
        _list()
        return
    folder = Path(path)
    if not folder.is_dir():
        raise UsageError(f"{path} is not a folder.")
    trust_status = trust_store.is_trusted(folder)
    if trust_status.state == "broken":
        raise UsageError(trust_status.reason)
    name = with_tilde(trust_status.root)
    if line := left_out(folder.resolve()):
        remark(line)
    if revoke:
        trust_store.decide(folder, False)
        remark(f"{name} is no longer trusted")
        return
    if trust_status.ok and not trust_status.outdated:
        remark(f"{name} is already trusted, and unchanged")
        return
    for head, text in _allowed(trust_status):
        show_hanging(4, (head, ""), (text, ""))
    if not confirm(f"Trust {name}?", yes=yes, otherwise=f"{name} was not trusted"):
        return
    trust_store.decide(folder, True, seen=trust_status.seen)
    remark(f"{name} is trusted")


def _list() -> None:
    rows = trust_store.decisions()
    if not rows:
        remark("no decisions yet")
        return
    table = [
        (with_tilde(folder), "yes" if yes else "no", time.strftime("%Y-%m-%d", time.localtime(at)))
        for folder, yes, at in rows
    ]
    show_table(("PROJECT", "TRUSTED", "SINCE"), table, wide=("PROJECT",))


def _allowed(trust_status: Trust) -> list[tuple[str, str]]:
    """The effects of trusting a project: per file a prefix and its text."""
    name = with_tilde(trust_status.root)
    lines = [("", f"If you trust {name}, Friday uses:")]
    if trust_status.changed or trust_status.outdated:
        lines = [("", f"{name} has changed since you decided (+ new, ~ changed, - removed):")]
        lines += [("  ", row) for row in trust_review.differences(trust_status)]
        lines.append(("", "If you trust it, Friday uses:"))
    return lines + [(f"  {file}: " if file else "  ", text) for file, text in trust_review.lines(trust_status)]
