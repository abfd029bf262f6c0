"""What slash commands show, as Markdown. Untrusted text is put into code spans, where it is not markup."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import code_block, sanitize_line
from friday_cli.session import lists
from friday_cli.system.paths import with_tilde
from friday_cli.view import SessionView

from ..controller import SessionController

if TYPE_CHECKING:
    from friday_cli.view.reports import RecordedSession
    from friday_cli.view.timeline import Timeline
    from friday_cli.workspace.checkpoints.review import FileDiff

MODE_HELP = (
    ("ask", "Reads are allowed. Everything else needs your approval."),
    ("edits", "Reads and edits in this folder are allowed."),
    ("plan", "Read-only."),
    ("auto", "Edits are allowed; so are commands that run inside the sandbox."),
)
"""The modes that can be chosen, and what is allowed in each."""

INIT = (
    "Look at this project and write a file AGENTS.md for coding agents: what it is, where things are, how to build, test "
    "and check it, and the conventions that cannot be seen at once. Under 100 lines. If there is one already, improve it."
)


REVIEW = (
    "Review of {title}.\n\n@reviewer Review {what}. Then list each defect for me, the most serious first, with file:line, and say for each "
    "what the evidence is: whether Friday saw the reviewer open the file or run the code, or not."
)
_REVISION = re.compile(r"[\w./~^@{}-]+")


def review_task(rest: str) -> str:
    """The message of `/review`, which begins with a title for the session; `rest` names a branch, tag or commit, or is empty. Raises UsageError for anything else."""
    if not rest:
        return REVIEW.format(
            title="uncommitted changes", what="my uncommitted changes (`git diff HEAD`, and untracked files)"
        )
    if not _REVISION.fullmatch(rest) or rest.startswith("-"):
        raise UsageError(f"{sanitize_line(rest, 60)} is not a branch or commit.", hint="Write /review [BASE | COMMIT].")
    return REVIEW.format(
        title=rest,
        what=f"what is new since `{rest}` (`git diff {rest}...HEAD`) if `{rest}` is a branch or tag; if it is a commit, that commit "
        f"alone (`git show {rest}`)",
    )


def code(text: str, limit: int = 120) -> str:
    """Untrusted text as a code span."""
    short = sanitize_line(text, limit).replace("`", "ˋ")
    return f"`{short}`" if short else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are made by `code` or are fixed texts."""
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *body])


def help_card(commands: Sequence[tuple[str, str, str]], problems: Sequence[FridayError] = ()) -> str:
    """The commands (name, usage, help), how to write messages, and the problems of custom commands."""
    how = """\
`@` names a file or a profile, `/` a command, `!cmd` runs a command and lets the agent read its output (`!!cmd` does not).
Enter sends; Shift+Enter, Ctrl+J or Alt+Enter makes a new line. A pasted path of a picture, or Ctrl+V, attaches it.
While the agent works, messages wait in a queue: Enter on an empty prompt sends them at once, Up takes the last one back.
Esc stops. F1 shows this, `/keys` all keys."""
    rows = [(code(f"/{name} {usage}".strip()), sanitize_line(help, 160)) for name, usage, help in commands]
    wrong = "".join(f"\n- {code(str(problem), 300)}" for problem in problems)
    tail = f"\n\n**Not used**:\n{wrong}" if wrong else ""
    return how + "\n\n" + table(("command", "what it does"), rows) + tail


def profile_names(cwd: Path, *, trusted: bool) -> list[tuple[str, str]]:
    """(name, description) of the profiles that can be used in a folder; `trusted` counts it as trusted."""
    from friday_cli.extensions import profiles, trust

    standing = trust.is_trusted(cwd)
    if trusted:
        standing = msgspec.structs.replace(standing, state="trusted")
    delegation = lists.settings(cwd).agents.delegation
    found = profiles.load(delegation.profiles.directory, standing, token_cap=delegation.token_budget.max)
    return [(name, found.get(name).description) for name in found.names()]


def check_model(name: str, cwd: Path) -> None:
    """Raises UsageError for a model that is not known, NotConfigured for one without its key."""
    from friday_cli.llm import models

    known = lists.settings(cwd)
    models.create_provider(models.resolve(name, known), known)


async def change_memory(rest: str) -> str:
    """Promote or forget notes. Returns a report. Raises UsageError."""
    verb, *numbers = rest.split()
    if verb not in ("promote", "forget") or not numbers:
        raise UsageError("Write /memory promote ID or /memory forget ID; /memory lists the notes.")
    done = await (lists.promote_notes(numbers) if verb == "promote" else lists.forget_notes(numbers))
    count = pluralize(len(done), "note")
    return f"{count} now visible to every agent." if verb == "promote" else f"{count} forgotten."


def diff_card(rows: Sequence[FileDiff]) -> str:
    """The changes of each agent to each file."""
    parts = []
    for row in rows:
        parts.append(f"**{code(row.agent, 30)}** {row.kind} {code(row.path)} +{row.added} -{row.removed}")
        parts.append(code_block(row.diff, "diff") if row.diff else code(row.remark, 100))
    return "\n\n".join(parts)


async def export_file(controller: SessionController, rest: str) -> Path:
    """Write the session to a file; `rest` is "[FORMAT] [FILE]". Returns its path. Raises FridayError."""
    from friday_cli.view.reports import FORMATS, write_file

    words = rest.split(maxsplit=1)
    named = [form for name, form in FORMATS.items() if words[:1] == [name]]
    form, words = (named[0], words[1:]) if named else (FORMATS["md"], words)
    recorded = await _recorded(controller)
    name = words[0] if words else f"friday-{recorded.id[:8]}.{form.suffix}"
    path = controller.options.cwd / os.path.expanduser(name)  # noqa: ASYNC240 - asks no disk
    await asyncio.to_thread(lambda: write_file(path, form.write(recorded), replace=False))
    return path


async def export_text(controller: SessionController, form: str) -> str:
    """The session as text in a format, "" for Markdown. Raises UsageError for an unknown format."""
    from friday_cli.view.reports import FORMATS

    if (chosen := next((made for name, made in FORMATS.items() if name == (form or "md")), None)) is None:
        raise UsageError(f"Unknown format {form!r}.", hint=f"Known formats: {', '.join(FORMATS)}.")
    recorded = await _recorded(controller)
    return await asyncio.to_thread(lambda: chosen.write(recorded))


async def timeline(controller: SessionController) -> tuple[SessionView, Timeline]:
    """The view of the session and its timeline, as of now. Raises StoreError."""
    from friday_cli.view.timeline import Timeline

    history = await (controller.shown or controller.require_session()).history()
    return await asyncio.to_thread(lambda: (SessionView.of(history), Timeline.of(history)))


async def _recorded(controller: SessionController) -> RecordedSession:
    from friday_cli import __version__
    from friday_cli.view.reports import RecordedSession

    session = controller.shown or controller.require_session()
    title = await lists.title(session.id) if controller.session is None or controller.session.facts.kept else ""
    return RecordedSession(session.id, await session.history(), __version__, title)


async def memory_card(cwd: Path) -> str:
    """The notes of a folder."""
    rows = [
        f"- {note.id}: {code(note.text, 300)}, by {_author(note.agent.rpartition(':')[2])}"
        f"{'' if note.promoted else ' (waits: /memory promote ' + note.id + ')'}"
        for note in await lists.notes(cwd)
    ]
    return "**Notes**\n\n" + "\n".join(rows) if rows else "No notes are kept for this folder. `# a note` keeps one."


def _author(agent: str) -> str:
    return "you" if agent == "person" else code(agent, 20)


def config_card() -> str:
    """The settings that are not at their default, and where they are from."""
    from friday_cli import config
    from friday_cli.config.loader import user_file

    changed = [row for row in config.rows(config.load()) if row[2] != "default"]
    rows = [
        f"- {code(name, 60)} = {code(value, 100)}{_from(source, str(user_file()))}" for name, value, source in changed
    ]
    body = "\n".join(rows) or "Everything is at its default."
    return f"**Settings** in {code(with_tilde(user_file()), 200)}:\n\n{body}"


def _from(source: str, usual: str) -> str:
    """Where a value is from, unless it is the file that the heading names."""
    return "" if source == usual else f", from {code(with_tilde(source), 100)}"


async def doctor_card(cwd: Path, model: str | None) -> str:
    """The report of `friday doctor` for a folder and the chat's model."""
    from friday_cli.diagnostics.doctor import examine

    marks = {"ok": "", "note": "! ", "bad": "✗ "}
    facts = await asyncio.to_thread(examine, cwd=cwd, model=model)
    return "\n".join(f"- {marks[f.level]}{f.area}: {code(f.name, 40)} {code(f.text, 200)}" for f in facts)
