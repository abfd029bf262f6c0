"""What Friday saw of an external agent's work, beside what its program says: files that changed, and programs that started."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import ToolFinished, ToolStarted
from friday_cli.core.protocol.receipt import OBSERVED, FileChange, ToolFacts
from friday_cli.core.text.sanitize import mask, sanitize_line
from friday_cli.workspace.local_commands import WorkEffects
from friday_cli.workspace.process.server import Executed, ServerProcess
from friday_cli.workspace.sandbox.call_guard import RECORDED

from .host import local
from .login_folder import LoginFolder
from .updates import Updates, ran

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish"))
NEEDLE = 1_500
"""Characters of a command that are looked for: longer texts are not recorded whole."""
NAMED, SHORT = 10, 120
"""Programs, commands and files that a receipt names, and characters of each program."""


class Seen(NamedTuple):
    """What there is to judge a run of the program `name` by: its process, and the folder with its login, if it used one."""

    name: str
    effects: WorkEffects
    server: ServerProcess
    login: LoginFolder | None


async def log_observed(agent: Agent, services: Services, updates: Updates, seen: Seen) -> None:
    """Add to the receipt and the log what was seen of a run, and warn of what the program says and nobody saw."""
    executed, files = seen.server.executed, seen.effects.changed
    starts = {command: starts_of(command, executed or ()) for command, _ in updates.commands}
    facts = ToolFacts(
        files=files,
        unknown=seen.effects.unknown,
        confirmed=tuple(dict.fromkeys(ran(*said) for said in updates.commands if starts[said[0]])),
        unreported=tuple(_named(_unexplained(executed or (), starts.values()))),
    )
    agent.receipt_builder.add(OBSERVED, "ok", facts)
    says = f"{seen.name} says that it"
    if not facts.unknown and (names := _unseen(agent, files, updates.changed)):
        agent.receipt_builder.warn(f"{says} changed {names}, and no change was seen")
    missing = dict.fromkeys(command for command, status in updates.commands if status == "ok" and not starts[command])
    if missing and executed and seen.server.recorded_whole and len(executed) < RECORDED:
        text = ", ".join(sanitize_line(one, SHORT) for one in list(missing)[:NAMED])
        agent.receipt_builder.warn(f"{says} ran {text}, and it was not seen to start")
    if seen.login is not None:
        agent.receipt_builder.warn(*await asyncio.to_thread(seen.login.warnings, seen.name))
    call = f"x{agent.run}"
    started = ToolStarted(call, OBSERVED, f"what {seen.name} did")
    done = ToolFinished(call, OBSERVED, "ok", facts=facts, text=f"{len(files)} files changed")
    await services.log.emit(agent.path, started, done)


def starts_of(command: str, executed: Iterable[Executed]) -> list[Executed]:
    """The programs that were started for a command: it itself, or a shell with it in its text."""
    needle = command.strip()[:NEEDLE]
    if not needle:
        return []
    forms = dict.fromkeys((needle, shlex.quote(needle)[1:-1], needle.replace("'", "'\\''")))
    text = re.compile("|".join(rf"(?<![\w./-]){re.escape(form)}(?![\w./-])" for form in forms if form))
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(command)
    return [row for row in executed if _is_for(row.words, needle, words, text)]


def _is_for(started: Sequence[str], needle: str, words: Sequence[str], text: re.Pattern[str]) -> bool:
    if not started:
        return False
    if any(word.strip()[:NEEDLE] == needle for word in started[1:]):
        return True
    same = len(started) == len(words) and list(started[1:]) == list(words[1:])
    if same and started[0].rpartition("/")[2] == words[0].rpartition("/")[2]:
        return True
    return started[0].rpartition("/")[2].lstrip("-") in SHELLS and any(text.search(word) for word in started[1:])


def _unexplained(executed: Sequence[Executed], starts: Iterable[list[Executed]]) -> Iterator[list[str]]:
    """The programs that were started neither for a reported command nor as the program itself: the first one, and the one that a sandbox
    with a program of its own starts."""
    explained = {row.pid for rows in starts for row in rows}
    inside = executed and executed[0].words[:1] and executed[0].words[0].rpartition("/")[2] == "bwrap"
    itself = {row.pid for row in executed[: 2 if inside else 1]}
    for row in executed:
        if row.words and row.pid not in itself | explained and not explained & set(row.above):
            yield row.words


def _named(programs: Iterable[list[str]]) -> list[str]:
    counts = Counter(sanitize_line(mask(shlex.join(words)), SHORT) for words in programs)
    texts = [f"{text} x{count}" if count > 1 else text for text, count in counts.items()]
    more = len(texts) - NAMED
    return [*texts[:NAMED], *([f"{more} more programs"] if more > 0 else [])]


def _unseen(agent: Agent, files: Sequence[FileChange], paths: Iterable[str]) -> str:
    """Those of the files at `paths` that are not among the changed ones."""
    workspace, changed, missing = local(agent), {change.path for change in files}, list[str]()
    for path in paths:
        with suppress(ToolError):
            missing += [label] if (label := workspace.label(path)) not in changed else []
    return ", ".join(sanitize_line(label, 100) for label in missing[:NAMED])
