"""Rewind, fork and review as a dialog with the user: which message, what to restore, and what to do with files in the way."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session.commands import AcceptChanges, Fork, RestoreFile, RewindTo, UndoRewind

from .context import CommandContext

if TYPE_CHECKING:
    from friday_cli.session.rewind_result import Resolve, RewindPoint, RewindResult, What
    from friday_cli.workspace.checkpoints.review import FileDiff

    Attempt = Callable[[Resolve], Awaitable[RewindResult]]

SHOWN = 8
"""Files that are named; the others are counted."""
_WHATS: dict[str, What] = {"both": "both", "conversation": "conversation", "files": "files"}
_WORDS = {"both": "conversation and files", "conversation": "the conversation", "files": "the files"}
_ANSWERS: dict[str, Resolve] = {"ask": "ask", "overwrite": "overwrite", "leave": "leave"}
"""Arguments of /rewind."""


async def rewind(chat: CommandContext, rest: str) -> None:
    """Rewind to a message, or undo the last rewind. Raises UsageError; then nothing has changed."""
    session = chat.controller.require_session()
    number, what, resolve = _arguments(rest)
    number = number or await _which(chat, await session.rewind.points())
    if number == "undo":
        done = await settled(chat, lambda conflicts: session.do(UndoRewind(conflicts=conflicts)), resolve)
        if done is not None:
            _tell(chat, "The rewind was undone.", done, "")
    elif number and (what := what or await _what(chat, int(number))):
        attempt = partial(RewindTo, int(number), what)
        done = await settled(chat, lambda conflicts: session.do(attempt(conflicts=conflicts)), resolve)
        if done is not None:
            _tell(chat, f"Went back: {_WORDS[what]}.", done, "Undo it with /rewind undo.")
            if what != "files" and done.point is not None:
                chat.offer(done.point.text)


async def undo(chat: CommandContext) -> None:
    """Rewind to before the last message. Raises UsageError; then nothing has changed."""
    points = await chat.controller.require_session().rewind.points()
    if not points:
        raise UsageError("There is no message to take back yet.")
    await rewind(chat, str(max(point.number for point in points)))


def _tell(chat: CommandContext, words: str, done: RewindResult, more: str) -> None:
    files = f" {summary(done)}." if done.files else ""
    chat.say_note(f"{words}{files} {more}".rstrip())
    if done.lost:
        lost = "; ".join(f"{file.path}: {file.reason}" for file in done.lost[:SHOWN])
        chat.say_note(f"Could not be restored: {lost}.", "warning")


async def settled(
    chat: CommandContext, attempt: Attempt, resolve: Resolve = "ask", *, alone: bool = False
) -> RewindResult | None:
    """Attempt it; when files are not as the agents left them, ask what to do with them. None when the user cancels. `alone`:
    there is only one file, so leaving it means to cancel."""
    done = await attempt(resolve)
    if done.done or not done.conflicts:
        return done
    rows = [f"{sanitize_line(file.path, 100)}: {file.reason}" for file in done.conflicts]
    count = f"{len(rows)} file{'s are' if len(rows) > 1 else ' is'}"
    choices = [
        ("leave", "Leave them as they are, and do the rest"),
        ("overwrite", "Overwrite them; their current content is kept, and /rewind undo brings it back"),
        ("", "Do nothing"),
    ]
    title = f"{count} not as the agents left {'them' if len(rows) > 1 else 'it'}:"
    choice = await chat.choose("\n".join([title, *_short(rows)]), choices[1:][::-1] if alone else choices)
    if choice:
        return await attempt(_ANSWERS[choice])
    chat.say_note("Nothing was changed.")
    return None


class ChatReviewActions:
    """The `ReviewActions` of a chat."""

    def __init__(self, chat: CommandContext) -> None:
        self._chat = chat

    async def changed_files(self) -> list[FileDiff]:
        """The changes that are not accepted yet."""
        shown = self._chat.controller.shown
        return await shown.rewind.changes() if shown is not None else []

    async def restore(self, key: str, agent: str | None) -> None:
        """Undo what one agent, or all agents, changed in a file."""
        chat = self._chat
        try:
            session = chat.controller.require_session()
            done = await settled(chat, lambda conflicts: session.do(RestoreFile(key, agent, conflicts)), alone=True)
        except FridayError as error:
            chat.say_note(str(error), "error")
        else:
            if done is not None:
                _tell(chat, "Restored.", done, "Undo it with /rewind undo.")

    async def accept(self, key: str) -> None:
        """Accept the changes of a file so far."""
        try:
            await self._chat.controller.require_session().do(AcceptChanges(key))
        except FridayError as error:
            self._chat.say_note(str(error), "error")

    def name_of(self, path: str) -> str:
        """An agent in one line."""
        agent = self._chat.controller.state.agents.get(path)
        return sanitize_line(f"{path} {agent.profile}: {agent.task}", 120) if agent is not None and path != "a" else "a"


async def fork(chat: CommandContext, rest: str) -> None:
    """Fork the session before a message, and open the fork. Raises UsageError."""
    session = chat.controller.require_session()
    if not session.facts.kept:
        raise UsageError("This session is not saved, so it cannot be forked.")
    points = await session.rewind.points()
    if not points:
        raise UsageError("There is nothing to fork yet.")
    rows = [*_rows(points[1:]), ("all", "All of it")]  # before the first message there is nothing to fork
    about = {**_about(points, files=False), "all": "The second session begins with the whole conversation."}
    number = rest or await chat.choose("Fork before which message?", rows, at=len(rows) - 1, about=about)
    if not number:
        return
    if number != "all" and not number.isdecimal():
        raise UsageError(f"{number} is not the number of a message.", hint="Write /fork NUMBER, or /fork all.")
    at = None if number == "all" else int(number)
    name = await session.do(Fork(at))
    if chat.controller.working:
        chat.say_note(f"The fork is session {name[:8]}; `/resume {name[:8]}` goes there when the agent is done.")
        return
    if await chat.reopen(resume=name):
        back = f"`/resume {session.id[:8]}` goes back"
        chat.say_note(f"This is the fork, session {name[:8]}. {back}. Files are as they were.")
    if at is not None:
        chat.offer(points[at - 1].text)


def _arguments(rest: str) -> tuple[str, What | None, Resolve]:
    """The arguments of /rewind: a number or `undo`, what to restore, and what to do with files in the way."""
    number, what, resolve = "", None, _ANSWERS["ask"]
    for word in rest.split():
        if word == "undo" or word.isdecimal():
            number = word
        elif word in _WHATS:
            what = _WHATS[word]
        elif word in _ANSWERS:
            resolve = _ANSWERS[word]
        else:
            raise UsageError(
                f"{sanitize_line(word, 40)} is not an argument of /rewind.",
                hint="Write /rewind [NUMBER | undo] [both | conversation | files] [overwrite | leave].",
            )
    return number, what, resolve


async def _which(chat: CommandContext, points: Sequence[RewindPoint]) -> str:
    """The number of the message that the user chooses, "undo", or "" for none."""
    rows, about = _rows(points), _about(points)
    try:
        last = await chat.controller.require_session().do(UndoRewind(dry_run=True))
    except UsageError:
        pass  # there is none
    else:
        rows.append(("undo", f"Undo the last rewind ({_WORDS[last.what]})"))
        about["undo"] = summary(last)
    if not rows:
        raise UsageError("There is no message to rewind to yet.")
    rows.append(("", "Stay here"))
    about[""] = "Nothing is changed."
    return await chat.choose("Go back to before which message?", rows, at=len(rows) - 1, about=about) or ""


async def _what(chat: CommandContext, number: int) -> What | None:
    told = await chat.controller.require_session().do(RewindTo(number, dry_run=True))
    if not (told.files or told.conflicts or told.lost):
        return "conversation"
    rows = [
        ("both", "Conversation and files"),
        ("conversation", "The conversation; files stay as they are"),
        ("files", "The files; the conversation stays as it is"),
    ]
    text = sanitize_line(told.point.text, 100) if told.point else ""
    choice = await chat.choose(f"Go back to before: {text}\n{_files(told)}", rows)
    return _WHATS.get(choice or "")


def _rows(points: Sequence[RewindPoint]) -> list[tuple[str, str]]:
    rows, today = [], time.localtime()[:3]
    for point in points:
        then = time.localtime(point.at)
        when = time.strftime("%H:%M" if then[:3] == today else "%d %b %H:%M", then)
        count = f" · {pluralize(len(point.files), 'file')}" if point.files else ""
        rows.append((str(point.number), f"{when}{count} · {sanitize_line(point.text, 200)}"))
    return rows


def _about(points: Sequence[RewindPoint], *, files: bool = True) -> dict[str, str]:
    """The text of each message, and the files that were changed since."""
    found = {}
    for point in points:
        changed = "Changed since: " + ", ".join(_short(point.files)) if point.files else "No file was changed since."
        found[str(point.number)] = f"{point.text[:2_000]}\n{changed}" if files else point.text[:2_000]
    return found


def _short(names: Sequence[str]) -> list[str]:
    left = len(names) - SHOWN
    return [*names[:SHOWN], *([f"and {left} more"] if left > 0 else [])]


def summary(done: RewindResult) -> str:
    """The restored files, in one line."""
    names = _short([f"{file.path} ({file.seen})" if file.seen else file.path for file in done.files])
    return f"{pluralize(len(done.files), 'file')}: {', '.join(names)}" if names else "No files"


def _files(told: RewindResult) -> str:
    rows = [f"{sanitize_line(f.path, 100)}  {f.seen or f'+{f.added} -{f.removed}'}" for f in told.files]
    rows += [f"{sanitize_line(f.path, 100)}  in the way: {f.reason}" for f in told.conflicts]
    rows += [f"{sanitize_line(f.path, 100)}  cannot be restored: {f.reason}" for f in told.lost]
    return "\n".join(_short(rows))
