"""Receipts: what the harness observed an agent do, as evidence next to the agent's report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from ..text.sanitize import mask
from ..text.untrusted import neutralize_line
from .code_check import CodeCheck
from .format import diffstat, pluralize
from .handover import PersonPart

FOUND_SHOWN = 20
"""Pages found by web searches that the text of a receipt names, at most."""
COMMAND_HEAD, COMMAND_TAIL = 300, 100
"""Characters of a longer command that the text of a receipt shows."""
OBSERVED = "observed"
"""The name in the log of what Friday saw another program do in a run. It is not a tool, and not counted as one."""
GONE = "deleted or moved away"
"""How `FileChange.seen` begins for files that a command removed."""
SHORT_TOOLS, SHORT_COMMANDS, SHORT_COMMAND = 4, 2, 40
"""Most tools and commands that the short form of a receipt names, and the characters of a command in it."""


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file an agent changed. `path` as shown to people; `sha256` of the new content, empty when deleted. `seen` says
    how the harness knows: "" for its own file tools, else a remark such as "seen while a command ran, shared"."""

    path: str
    added: int = 0
    removed: int = 0
    sha256: str = ""
    seen: str = ""


class RestoreConflict(msgspec.Struct, frozen=True):
    """A file that no longer has the content that the agents left, or that cannot be restored, and the reason."""

    path: str
    reason: str


class KeptFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file before and after a change. `path` as in `FileChange`; `raw` is its bytes in hex when they are not UTF-8.
    `before` and `after` are the sha256 of the content (of a link: of its target), "" for no file; `mode` and `new_mode`
    are the `st_mode` of each. `lost` says why the content before was not kept, "" when it was."""

    path: str
    before: str = ""
    after: str = ""
    mode: int = 0
    new_mode: int = 0
    raw: str = ""
    lost: str = ""


class CommandRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command and how it ended. `exit_code` is None when it was stopped. `job` is the id of a command that was started in
    the background, `running` True while its end was not observed. `no_test`: it was to run tests, and its output says that there were none."""

    command: str
    exit_code: int | None = None
    timed_out: bool = False
    job: str = ""
    running: bool = False
    no_test: bool = False


class ToolFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The effects of one tool call, as far as the harness observed them. `urls` were fetched, `found` by a web search; `not_fetched`
    are URLs with the reason. `lines` are the first and last of the lines of each file in `read` that were shown, if it has
    lines. `unknown` says what could not be observed. `rewritten` is what a hook changed of the call. `code` is what language
    servers say of changes."""

    files: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    urls: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    not_fetched: tuple[str, ...] = ()
    lines: dict[str, tuple[tuple[int, int], ...]] = {}
    unknown: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    """What the program of an external agent says that it did."""
    confirmed: tuple[str, ...] = ()
    """Those of `reported` commands that were seen to start."""
    unreported: tuple[str, ...] = ()
    """Programs that the program of an external agent was seen to start, and did not report."""
    code: tuple[CodeCheck, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """A claim with its evidence (`file:line`, a URL, a command). `seen`: the harness observed that evidence; always written."""

    claim: str
    evidence: str
    seen: bool = False


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum of an agent's facts over all its runs. `tools` counts the calls per tool, `failed` those that failed.
    `denied` counts the calls that were denied, `refused` the same per tool; tools that the agent does not have are in
    both. `warnings` are about the result of its newest run. `skills`: the sha256 of the instructions of each skill that it got."""

    tools: dict[str, int] = {}
    failed: int = 0
    denied: int = 0
    files: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    urls: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    not_fetched: tuple[str, ...] = ()
    lines_read: dict[str, tuple[tuple[int, int], ...]] = {}
    unknown: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    skills: dict[str, str] = {}
    taken_over: tuple[PersonPart, ...] = ()
    """When a person worked with it in place of its parent."""
    reported: tuple[str, ...] = ()
    """What the program of an external agent says that it did. Friday saw only that the commands in `confirmed` started."""
    confirmed: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()
    """Programs that it was seen to start, and did not report."""
    code: tuple[CodeCheck, ...] = ()
    """What its changes did to the code together, by language server: new problems that are left, and fixed ones."""

    def lines(self) -> list[str]:
        """The receipt as text, one fact per line, for models and people. Keys in commands and URLs are masked."""
        return [*self.facts(), *(mask(neutralize_line(f"WARNING: {text}")) for text in self.warnings)]

    def facts(self) -> list[str]:
        """The same as `lines` without the warnings."""
        if self == NOTHING:
            return ["tools run: none"]
        out = [f"tools run: {_counts(self.tools) or 'none'}" + (f"; {self.failed} failed" if self.failed else "")]
        if self.denied:
            out.append(f"calls denied: {self.denied}" + (f" ({_counts(self.refused)})" if self.refused else ""))
        out.extend(part.text for part in self.taken_over)
        out.extend(f"skill: {name} (sha256 {sha[:12]})" for name, sha in self.skills.items())
        for f in self.files:
            remark = f" ({f.seen})" if f.seen else ""
            counts = f" +{f.added} -{f.removed}" if f.added or f.removed else ""
            out.append(f"{'removed' if f.seen.startswith(GONE) else 'changed'}: {f.path}{counts}{remark}")
        out.extend(f"not known: {text}" for text in self.unknown)
        out.extend(f"changed by a hook before it ran: {text}" for text in self.rewritten)
        out.extend(
            f"ran: {_one_line(c.command, COMMAND_HEAD, COMMAND_TAIL)} -> {_how_it_ended(c)}" for c in self.commands
        )
        seen = set(self.confirmed)
        out.extend(f"reported by it: {text}" + (" (seen to start)" if text in seen else "") for text in self.reported)
        out.extend(f"started without a report: {text}" for text in self.unreported)
        out.extend(f"code: {row}" for check in self.code for row in check.rows_left())
        out.extend(f"fetched: {url}" for url in self.urls)
        out.extend(f"not fetched: {url}" for url in self.not_fetched)
        out.extend(f"found by a web search: {url}" for url in self.found[:FOUND_SHOWN])
        if (more := len(self.found) - FOUND_SHOWN) > 0:
            out.append(f"found by a web search: {more} more pages")
        return [mask(neutralize_line(row)) for row in out]

    @property
    def denied_calls(self) -> str:
        """The denied calls in a few words: `denied: bash x2`; "" for none."""
        return neutralize_line(f"denied: {_counts(self.refused) or self.denied}") if self.denied else ""

    def short(self) -> str:
        """The receipt in one line for people, without its warnings: `parser.py +3 -1 · pytest -> exit 1 · tools: bash,
        edit_file x2`. What tells most comes first: a line may be truncated. Keys in commands are masked."""
        parts = []
        removed = [change for change in self.files if change.seen.startswith(GONE)]
        if changed := [change for change in self.files if change not in removed]:
            paths = {change.path for change in changed}
            counted = any(change.added or change.removed for change in changed)
            name = paths.pop() if len(paths) == 1 else f"{len(paths)} files"
            parts.append(f"{name} {diffstat(changed) if counted else 'changed'}")
        if removed:
            others = f" and {len(removed) - 1} more" if len(removed) > 1 else ""
            parts.append(f"removed {removed[0].path}{others}")
        if len(self.commands) > SHORT_COMMANDS:
            ends = _counts(Counter(map(_how_it_ended, self.commands)))
            parts.append(f"{len(self.commands)} commands: {ends}")
        else:
            parts += [f"{_one_line(c.command, SHORT_COMMAND)} -> {_how_it_ended(c)}" for c in self.commands]
        parts += [check.summary(left=True) for check in self.code if check.new]
        if self.denied:
            parts.append(self.denied_calls)
        if self.failed:
            parts.append(f"{pluralize(self.failed, 'call')} failed")
        if self.urls:
            parts.append(f"{pluralize(len(self.urls), 'URL')} fetched")
        if self.rewritten:
            parts.append(f"{pluralize(len(self.rewritten), 'call')} changed by a hook")
        if self.not_fetched:
            parts.append(f"{pluralize(len(self.not_fetched), 'URL')} not fetched")
        if self.found:
            parts.append(f"{pluralize(len(self.found), 'page')} found")
        if self.taken_over:
            parts.append("taken over by the user")
        if self.skills:
            parts.append(f"skills: {', '.join(self.skills)}")
        tools = _counts(dict(list(self.tools.items())[:SHORT_TOOLS])) or "none"
        more = len(self.tools) - SHORT_TOOLS
        parts.append(f"tools: {tools}" + (f" and {pluralize(more, 'more tool')}" if more > 0 else ""))
        return mask(neutralize_line(" · ".join(parts)))


NOTHING = Receipt()
"""That of an agent without calls."""


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in numbers.items())


def _one_line(command: str, head: int, tail: int = 0) -> str:
    """All lines of a command as one, without keys; a longer one is marked as cut."""
    text = mask(" ⏎ ".join(line.strip() for line in command.strip().splitlines()))
    if len(text) <= head + tail:
        return text
    if not tail:
        return text[: head - 1] + "…"
    return f"{text[:head]} … ({len(text) - head - tail:,} characters not shown) … {text[-tail:]}"


def _how_it_ended(run: CommandRun) -> str:
    if run.running:
        return "started in the background"
    return "timed out" if run.timed_out else "stopped" if run.exit_code is None else f"exit {run.exit_code}"
