"""Builds the receipt of an agent from the facts of its calls."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .code_check import CodeCheck
from .handover import PersonPart
from .receipt import NOTHING, OBSERVED, CommandRun, FileChange, Receipt, ToolFacts


class ReceiptBuilder:
    """Builds a receipt call by call. A denied call counts only as denied."""

    def __init__(self, receipt: Receipt | None = None) -> None:
        self.reset(receipt or Receipt())
        self._earlier = Receipt()
        self._others: list[tuple[int, Receipt]] = []  # each with the number of own commands before it
        self._earlier_others = 0

    def reset(self, receipt: Receipt) -> None:
        """Continue from `receipt`."""
        self._tools = dict(receipt.tools)
        self._failed, self._denied = receipt.failed, receipt.denied
        self._refused = dict(receipt.refused)
        self._files: dict[tuple[str, str], FileChange] = {(f.path, f.seen): f for f in receipt.files}
        self._commands: list[CommandRun] = list(receipt.commands)
        self._background = [i for i, run in enumerate(self._commands) if run.running]
        """The places of commands that are still running."""
        self._urls: dict[str, None] = dict.fromkeys(receipt.urls)
        self._read: dict[str, None] = dict.fromkeys(receipt.read)
        self._warnings: dict[str, None] = dict.fromkeys(receipt.warnings)
        self._found: dict[str, None] = dict.fromkeys(receipt.found)
        self._not_fetched: dict[str, None] = dict.fromkeys(receipt.not_fetched)
        self._lines = {path: set(spans) for path, spans in receipt.lines_read.items()}
        self._unknown: dict[str, None] = dict.fromkeys(receipt.unknown)
        self._rewritten = list(receipt.rewritten)
        self._reported: dict[str, None] = dict.fromkeys(receipt.reported)
        self._confirmed: dict[str, None] = dict.fromkeys(receipt.confirmed)
        self._unreported: dict[str, None] = dict.fromkeys(receipt.unreported)
        self._skills = dict(receipt.skills)
        self._taken_over = {part.since: part for part in receipt.taken_over}
        self._code = {check.server: check for check in receipt.code}
        self._cached: Receipt | None = receipt

    def begin(self) -> None:
        """A run begins. Warnings about an earlier result are removed."""
        self._warnings.clear()
        self._cached = None
        self._earlier = self.receipt
        self._earlier_others = len(self._others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReceiptBuilder) and self.receipt == other.receipt

    __hash__ = None  # type: ignore[assignment]

    def add(self, tool: str, status: str, facts: ToolFacts) -> None:
        """Count a call that ended with `status`. Changes of the same file are added up in one row; the end of a command in
        the background replaces its start."""
        self._cached = None
        if status == "denied":
            self._denied += 1
            self._refused[tool] = self._refused.get(tool, 0) + 1
            return
        if tool != OBSERVED:
            self._tools[tool] = self._tools.get(tool, 0) + 1
        self._failed += status in ("error", "cancelled")
        for new in facts.files:
            old = self._files.get((new.path, new.seen), FileChange(new.path))
            added, removed = old.added + new.added, old.removed + new.removed
            self._files[new.path, new.seen] = FileChange(new.path, added, removed, new.sha256, new.seen)
        for run in facts.commands:
            self._add_command(run)
        for known, new_names in (
            (self._urls, facts.urls),
            (self._read, facts.read),
            (self._found, facts.found),
            (self._not_fetched, facts.not_fetched),
            (self._unknown, facts.unknown),
            (self._reported, facts.reported),
            (self._confirmed, facts.confirmed),
            (self._unreported, facts.unreported),
        ):
            if new_names:
                known.update(dict.fromkeys(new_names))
        for path, spans in facts.lines.items():
            self._lines.setdefault(path, set()).update(spans)
        self._rewritten += facts.rewritten
        self.add_checks(facts.code)

    def add_checks(self, checks: Iterable[CodeCheck]) -> None:
        """Add what language servers say of changes."""
        for check in checks:
            earlier = self._code.get(check.server)
            self._code[check.server] = check if earlier is None else earlier.followed_by(check)
            self._cached = None

    def add_skill(self, name: str, sha256: str) -> None:
        """The agent got the instructions of a skill."""
        self._skills[name] = sha256
        self._cached = None

    def add_person(self, part: PersonPart) -> None:
        """A person took the agent over; the part with the same start is replaced once they handed it back."""
        self._taken_over[part.since] = part
        self._cached = None

    def _add_command(self, run: CommandRun) -> None:
        """Add a command; the end of a background job replaces its start."""
        started = msgspec.structs.replace(run, exit_code=None, timed_out=False, running=True)
        place = next((i for i in self._background if self._commands[i] == started), None)
        if run.running or place is None:
            self._background += [len(self._commands)] if run.running else []
            self._commands.append(run)
        else:
            self._background.remove(place)
            self._commands[place] = run

    def warn(self, *texts: str) -> None:
        """Add warnings, each once."""
        self._warnings.update(dict.fromkeys(texts))
        self._cached = None

    def add_others(self, receipt: Receipt) -> None:
        """Add what others changed and ran: sub-agents whose run ended, or the person. The agent may claim it as well."""
        self._others.append((len(self._commands), receipt))

    def observed(self, *, whole: bool) -> Receipt:
        """The newest run, or the `whole` life, with the files and commands of others, in the order of their ends."""
        own = self.receipt if whole else self.run
        if not self._others:
            return own
        first, taken = len(self._commands) - len(own.commands), 0
        files, commands = list(own.files), list[CommandRun]()
        for count, receipt in self._others[0 if whole else self._earlier_others :]:
            commands += (*own.commands[taken : count - first], *receipt.commands)
            taken = count - first
            files += receipt.files
        commands += own.commands[taken:]
        return msgspec.structs.replace(own, files=tuple(files), commands=tuple(commands))

    @property
    def receipt(self) -> Receipt:
        """The receipt of all calls so far."""
        if self._cached is None:
            self._cached = Receipt(
                tools=dict(self._tools),
                failed=self._failed,
                denied=self._denied,
                files=tuple(self._files.values()),
                commands=tuple(self._commands),
                urls=tuple(self._urls),
                read=tuple(self._read),
                warnings=tuple(self._warnings),
                found=tuple(self._found),
                refused=dict(self._refused),
                not_fetched=tuple(self._not_fetched),
                lines_read={path: tuple(sorted(spans)) for path, spans in self._lines.items()},
                unknown=tuple(self._unknown),
                rewritten=tuple(self._rewritten),
                skills=dict(self._skills),
                taken_over=tuple(self._taken_over.values()),
                reported=tuple(self._reported),
                confirmed=tuple(self._confirmed),
                unreported=tuple(self._unreported),
                code=tuple(self._code.values()),
            )
        return self._cached

    @property
    def run(self) -> Receipt:
        """The receipt of the newest run."""
        now, then = self.receipt, self._earlier
        if then == NOTHING:
            return now
        return Receipt(
            tools=_count_difference(now.tools, then.tools),
            failed=now.failed - then.failed,
            denied=now.denied - then.denied,
            files=tuple(change for change in now.files if change not in then.files),
            commands=tuple(c for i, c in enumerate(now.commands) if then.commands[i : i + 1] != (c,)),
            urls=now.urls[len(then.urls) :],
            read=now.read[len(then.read) :],
            warnings=now.warnings,
            found=now.found[len(then.found) :],
            refused=_count_difference(now.refused, then.refused),
            not_fetched=now.not_fetched[len(then.not_fetched) :],
            lines_read=now.lines_read,
            unknown=now.unknown,
            rewritten=now.rewritten[len(then.rewritten) :],
            reported=now.reported[len(then.reported) :],
            confirmed=now.confirmed[len(then.confirmed) :],
            unreported=now.unreported[len(then.unreported) :],
            taken_over=tuple(part for part in now.taken_over if part not in then.taken_over),
            code=tuple(check for check in now.code if check not in then.code),
            skills={name: sha for name, sha in now.skills.items() if then.skills.get(name) != sha},
        )


def _count_difference(now: dict[str, int], then: dict[str, int]) -> dict[str, int]:
    return {tool: more for tool, n in now.items() if (more := n - then.get(tool, 0))}
