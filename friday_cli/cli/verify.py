"""`friday verify`: checks a receipt that somebody else made with `friday sessions receipt`."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.workspace import tamper_warning
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.untrusted import visible
from friday_cli.session.signed_receipt import LARGEST, Statement, blob, content_hash, noted, read_receipt, signer
from friday_cli.system.git_command import git
from friday_cli.system.paths import working_folder
from friday_cli.system.safe_files import read_linked

from . import output
from .help import HelpCommand
from .session_args import YES

if TYPE_CHECKING:
    from friday_cli.workspace.local import LocalWorkspace

MOST_BELOW = 50
"""Commits before the named one in which a receipt is looked for."""
RERUN_S = 600.0
"""Seconds for a command that is repeated."""


def register(app: typer.Typer, about: str) -> None:
    """Add the command `verify`."""
    app.command("verify", cls=HelpCommand, help=f"{about}\n\n{_HELP}")(verify)


_HELP = """The signature must come from somebody in your file of allowed signers; then the tree of the commit and the sha256 of each
file are computed again. It proves who says that Friday saw this, not that the work is right.

Exit codes: 0 it matches, 1 it does not, 2 usage error."""


def verify(
    what: str = typer.Argument(
        "HEAD",
        metavar="FILE|COMMIT",
        help="A receipt, or a commit with one in its notes; of a range such as main..HEAD only the commits of the range.",
    ),
    allowed: str = typer.Option(
        "", "--allowed-signers", metavar="FILE", help="Default: gpg.ssh.allowedSignersFile of your own git settings."
    ),
    unsigned: bool = typer.Option(False, "--unsigned", help="Accept a receipt without a signature."),
    require: bool = typer.Option(False, "--require", help="Fail where there is no receipt."),
    rerun: bool = typer.Option(
        False, "--rerun", help="Repeat the commands of the receipt, in the sandbox without network."
    ),
    yes: bool = YES,
) -> None:
    folder = working_folder()
    found = _read(folder, what)
    if found is None:
        if require:
            before = "" if ".." in what else f", nor has one of the {MOST_BELOW} commits before it"
            raise FridayError(f"{what} has no receipt{before}.")
        output.remark(f"no receipt for {what}: nothing was checked")
        return
    data, commit, after = found
    envelope, statement = read_receipt(data)
    if not (unsigned and not envelope.signatures):
        output.show(f"signed by {sanitize_line(signer(envelope, _allowed(folder, allowed)), 100)}")
    problems = _show(folder, statement, commit, after)
    if rerun and not problems:
        problems = _rerun(folder, statement, yes=yes)
    for problem in problems:
        output.show_painted((f"✗ {problem}", "red"))
    if problems:
        raise typer.Exit(1)
    output.show_painted(("✓ the receipt matches", "green"))


def _read(folder: Path, what: str) -> tuple[bytes, str, int] | None:
    """A receipt with the commit that it is checked against, "" for the folder, and how many commits came after that."""
    if (folder / what).is_file():
        data = read_linked(folder / what, LARGEST + 1)
        tree = read_receipt(data)[1].tree
        for number, commit in enumerate((_commits(folder, "HEAD") if tree else None) or ()):
            if git(folder, "rev-parse", f"{commit}^{{tree}}").decode().strip() == tree:
                return data, commit, number
        if tree:
            raise FridayError(
                f"No commit has the tree of the receipt: not HEAD, nor one of the {MOST_BELOW} before it."
            )
        return data, "", 0
    commits = _commits(folder, what)
    if commits is None:
        raise UsageError(f"{what} is neither a file nor a commit.")
    notes = noted(folder)
    for number, commit in enumerate(commits):
        if commit in notes:
            return blob(folder, notes[commit], LARGEST + 1), commit, number
    return None


def _commits(folder: Path, what: str) -> list[str] | None:
    """A commit and those before it, or a range; None if it is neither."""
    if what.startswith("-"):
        return None
    try:
        return git(folder, "rev-list", f"--max-count={MOST_BELOW + 1}", "--first-parent", what, "--").decode().split()
    except FridayError:
        return None


def _allowed(folder: Path, given: str) -> Path:
    """The person's file of allowed signers. What a repository's own settings name does not count."""
    if not given:
        try:
            given = git(folder, "config", "--global", "gpg.ssh.allowedSignersFile").decode().strip()
        except FridayError:
            raise UsageError(
                "No file of allowed signers.",
                hint="--allowed-signers FILE, or git config --global gpg.ssh.allowedSignersFile FILE.",
            ) from None
    return Path(os.path.expanduser(given))


def _show(folder: Path, statement: Statement, commit: str, after: int) -> list[str]:
    """Show what the receipt says, and return what does not match."""
    about = statement.about
    models = ", ".join(sorted({_line(agent.model) for agent in about.agents}))
    spent = "" if about.cost_usd is None else f", ${about.cost_usd:.4f}"
    output.show(f"session {_line(about.session[:8])}: {pluralize(len(about.agents), 'agent')} on {models}{spent}")
    problems = []
    if commit:
        tree = git(folder, "rev-parse", f"{commit}^{{tree}}").decode().strip()
        if statement.tree != tree:
            problems.append(
                f"the tree of {commit[:10]} is {tree[:10]}, the receipt is for {statement.tree[:10] or 'no tree'}"
            )
        else:
            output.show(f"the tree of {commit[:10]} matches")
        if after:
            output.show_painted((f"! {pluralize(after, 'commit')} after {commit[:10]} is not covered by it", "yellow"))
    names = {name: content_hash(folder, name, name, commit) for name in statement.files}
    bad = [name for name, sha256 in statement.files.items() if names[name] != sha256]
    problems += [f"{_line(name)} {'has different content' if names[name] else 'is missing'}" for name in bad]
    output.show(f"{len(names) - len(bad)} of {pluralize(len(names), 'file')} match")
    for name in about.changed_since:
        output.show(f"  not covered, changed after the agents: {_line(name)}")
    for agent in about.agents:
        for run in agent.commands:
            output.show(f"  {_line(agent.path)} ran {_line(run.command, 120)} -> exit {run.exit_code}")
        for warning in agent.warnings:
            output.show_painted((f"  ! {_line(agent.path)}: {_line(warning)}", "yellow"))
    return problems


def _rerun(folder: Path, statement: Statement, *, yes: bool) -> list[str]:
    """Repeat the commands; returns those that end differently from what the receipt says."""
    runs = {
        run.command: run.exit_code
        for agent in statement.about.agents
        for run in agent.commands
        if run.exit_code is not None
    }
    if not runs:
        output.show("no command to repeat")
        return []
    output.show("Commands of the receipt:")
    for command in runs:
        output.show(textwrap.indent(visible(command), "  | "))
    if not output.confirm(
        f"Run {pluralize(len(runs), 'command')} in the sandbox without network, in {folder}?",
        yes=yes,
        otherwise="Nothing was run",
    ):
        return []
    return asyncio.run(_repeat(folder, runs))


def _line(text: str, most: int = 200) -> str:
    """A text of the receipt as one line."""
    return sanitize_line(text, most)


async def _repeat(folder: Path, runs: Mapping[str, int | None]) -> list[str]:
    problems = []
    workspace = await _confined(folder)
    try:
        for command, wanted in runs.items():
            ran = await workspace.run(command, agent="a", timeout_s=RERUN_S, on_output=lambda text: None)
            how = "did not end in time" if ran.timed_out else f"exit {ran.exit_code}"
            output.show(f"  {sanitize_line(command, 120)} -> {how}")
            if ran.tampered:
                problems.append(tamper_warning(command, ran.tampered))
            if ran.exit_code != wanted:
                problems.append(f"{sanitize_line(command, 120)}: {how}, the receipt says exit {wanted}")
    finally:
        await workspace.close()
    return problems


async def _confined(folder: Path) -> LocalWorkspace:
    """The folder with a sandbox without network for its commands. Raises UsageError where none works."""
    from friday_cli.session.sandbox import sandbox_policy
    from friday_cli.workspace.local import LocalWorkspace
    from friday_cli.workspace.process.command_host import CommandHost
    from friday_cli.workspace.sandbox.detect import detect_sandbox

    from .project_context import load_context

    settings = load_context().settings
    choice = await asyncio.to_thread(detect_sandbox, settings.sandbox.kind, os.environ, workspace=(folder,))
    if choice.kind == "none":
        raise UsageError(
            "No sandbox works here, so the commands of a receipt are not run.", hint="`friday doctor` says why."
        )
    offline = msgspec.structs.replace(settings, sandbox=msgspec.structs.replace(settings.sandbox, network=False))
    return LocalWorkspace(folder, CommandHost(sandbox=sandbox_policy(offline, choice, os.environ)))
