"""`friday sessions receipt`: what Friday saw the agents of a session do, as a file or a git note that others can check."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import typer

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session.signed_receipt import LARGEST, NOTES, blob, make_statement, noted, read_receipt, seal
from friday_cli.system.git_command import git
from friday_cli.view.reports import write_file

from .output import remark
from .session_args import LAST
from .session_lookup import read, refuse_agent


def receipt(
    name: str = LAST,
    sign: bool = typer.Option(False, "--sign", help="Sign it with your SSH key, so that `friday verify` knows you."),
    key: str = typer.Option("", "--key", metavar="FILE", help="Default: user.signingKey of your own git settings."),
    commit: str = typer.Option(
        "HEAD", "--commit", metavar="COMMIT", help="What the session left, if its folder is a repository."
    ),
    note: bool = typer.Option(False, "--note", help="Attach it to that commit, as a git note under refs/notes/friday."),
    file: str = typer.Option(
        "", "--output", "-o", metavar="FILE", help="Write to this file instead of standard output."
    ),
) -> None:
    """Write a receipt that others can check with `friday verify`.

    It has the sha256 of each file that the agents wrote, the tree of the commit, the commands with their exit codes, denied calls, warnings,
    models and cost. Likely keys are masked. Commit the work first: files that were changed since are named, and not covered.
    """
    record = asyncio.run(read(name, last=True))
    refuse_agent(record.id, record.agent, "Only a whole session has a receipt for others.")
    folder = Path(record.state.cwd)
    found = _commit(folder, commit)
    if note and not found:
        raise UsageError(f"{folder} is not a git repository with a commit, so there is nothing to attach a note to.")
    statement = make_statement(record.id, record.envelopes, found)
    for path in statement.predicate["changedSince"]:
        remark(f"not covered, because it is not as the agents left it: {path}")
    text = (
        msgspec.json.format(msgspec.json.encode(seal(statement, _key(folder, key) if sign else "")), indent=1).decode()
        + "\n"
    )
    if note:
        _name_replaced(folder, found, record.id)
        git(folder, "notes", f"--ref={NOTES}", "add", "-f", "-F", "-", found, stdin=text.encode())
        remark(f"attached to {found[:10]}; others get it with: git fetch origin refs/notes/{NOTES}:refs/notes/{NOTES}")
    elif file and file != "-":
        write_file(Path(file), text, replace=True)
        remark(f"wrote the receipt to {file}")
    else:
        print(text, end="")


def _name_replaced(folder: Path, commit: str, session: str) -> None:
    """Say so if the commit has a receipt of another session, whose place this one takes."""
    try:
        before = read_receipt(blob(folder, noted(folder)[commit], LARGEST + 1))[1].about.session
    except (KeyError, FridayError):
        return
    if before != session:
        remark(
            f"it replaces the receipt of session {sanitize_line(before[:8], 20)}, which `git log -p notes/{NOTES}` still has"
        )


def _commit(folder: Path, commit: str) -> str:
    """The full id of a commit, "" where there is none and the default was not changed."""
    if commit.startswith("-"):
        raise UsageError(f"{commit!r} is not a commit.")
    try:
        return git(folder, "rev-parse", "-q", "--verify", f"{commit}^{{commit}}").decode().strip()
    except FridayError:
        if commit != "HEAD":
            raise UsageError(f"{commit!r} is not a commit of {folder}.") from None
        return ""


def _key(folder: Path, given: str) -> str:
    """The file of the person's key. What a repository's own settings name does not count."""
    if not given:
        try:
            given = git(folder, "config", "--global", "user.signingKey").decode().strip()
        except FridayError:
            given = ""
    path = os.path.expanduser(given)
    if not given or not Path(path).is_file():
        raise UsageError(
            "No SSH key to sign with." if not given else f"{given} is not a file.",
            hint="--key ~/.ssh/id_ed25519, or git config --global user.signingKey ~/.ssh/id_ed25519.",
        )
    return path
