"""What Friday saw of an external agent's work, beside what its program says: files that changed, and programs that started."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import ToolFinished, ToolStarted
from friday_cli.core.protocol.receipt import OBSERVED, FileChange, ToolFacts
from friday_cli.core.text.sanitize import mask, sanitize_line
from friday_cli.workspace.local_commands import WorkEffects
from friday_cli.workspace.process.server import Executed
from friday_cli.workspace.sandbox.call_guard import RECORDED

from .host import local
from .login_folder import LoginFolder
from .updates import Updates

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish"))
NEEDLE = 1_500
"""Characters of a command that are looked for: longer texts are not recorded whole."""
NAMED, SHORT = 10, 120
"""Programs and commands that a receipt names, and characters of each program."""


class Seen(NamedTuple):
    """What there is to judge a run of the program `name` by. `executed`: the programs that were seen to start, None where that was not
    recorded. `login`: the folder with its login, if it used one."""

    name: str
    effects: WorkEffects
    executed: Sequence[Executed] | None
    whole: bool
    """Whether all programs that started are in `executed`."""
    login: LoginFolder | None


async def log_observed(agent: Agent, services: Services, updates: Updates, seen: Seen) -> None:
    """Add to the receipt and the log what was seen of a run, and warn of what the program says and nobody saw."""
    facts = observed(seen.effects, seen.executed, updates)
    agent.receipt_builder.add(OBSERVED, "ok", facts)
    agent.receipt_builder.warn(*warnings(agent, seen.name, facts, seen.executed if seen.whole else None, updates))
    if seen.login is not None:
        agent.receipt_builder.warn(*await asyncio.to_thread(seen.login.warnings, seen.name))
    call = f"x{agent.run}"
    started = ToolStarted(call, OBSERVED, f"what {seen.name} did")
    done = ToolFinished(call, OBSERVED, "ok", facts=facts, text=f"{len(facts.files)} files changed")
    await services.log.emit(agent.path, started, done)


def observed(effects: WorkEffects, executed: Sequence[Executed] | None, updates: Updates) -> ToolFacts:
    """The facts of a run: `executed` are the programs that were seen to start, None where that was not recorded."""
    facts = ToolFacts(files=effects.changed, unknown=effects.unknown)
    if executed is None:
        return facts
    found = {command: starts_of(command, executed) for command, _ in updates.commands}
    said = [text for command, text in updates.reports if found[command]]
    itself, explained = _itself(executed), {row.pid for rows in found.values() for row in rows}
    others = [
        row.words
        for row in executed
        if row.pid not in itself | explained and not explained & set(row.above) and row.words
    ]
    return ToolFacts(
        files=effects.changed,
        unknown=effects.unknown,
        confirmed=tuple(dict.fromkeys(said)),
        unreported=tuple(_named(others)),
    )


def warnings(
    agent: Agent, name: str, facts: ToolFacts, executed: Sequence[Executed] | None, updates: Updates
) -> list[str]:
    """What the program says that it did, and Friday did not see."""
    found = _unseen_changes(agent, name, facts.files, updates) if not facts.unknown else []
    if executed is not None and len(executed) < RECORDED:
        commands = [command for command, status in updates.commands if status == "ok"]
        missing = list(dict.fromkeys(one for one in commands if not starts_of(one, executed)))
        if missing:
            text = ", ".join(sanitize_line(one, SHORT) for one in missing[:NAMED])
            found.append(f"{name} says that it ran {text}, and it was not seen to start")
    return found


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


def _itself(executed: Sequence[Executed]) -> set[int]:
    """The numbers of the program's own process: the first one, and the one that a sandbox with a program of its own starts."""
    inside = executed[0].words[:1] and executed[0].words[0].rpartition("/")[2] == "bwrap"
    return {row.pid for row in executed[: 2 if inside else 1]}


def _named(programs: Sequence[Sequence[str]]) -> list[str]:
    counts = Counter(sanitize_line(mask(shlex.join(words)), SHORT) for words in programs)
    texts = [f"{text} x{count}" if count > 1 else text for text, count in counts.items()]
    more = len(texts) - NAMED
    return [*texts[:NAMED], *([f"{more} more programs"] if more > 0 else [])]


def _unseen_changes(agent: Agent, name: str, files: Sequence[FileChange], updates: Updates) -> list[str]:
    workspace, seen = local(agent), {change.path for change in files}
    missing = []
    for path in updates.changed:
        with suppress(ToolError):
            missing += [label] if (label := workspace.label(path)) not in seen else []
    if not missing:
        return []
    names = ", ".join(sanitize_line(label, 100) for label in missing[:10])
    return [f"{name} says that it changed {names}, and no change was seen"]
