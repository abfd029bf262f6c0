"""One hook, and the shape of the files that configure hooks: that of Claude Code."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from friday_cli.core.permissions.matching import matching_rule, possible_rule
from friday_cli.core.permissions.rule import Rule, RuleInput

Event = Literal[
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure",
    "PostToolBatch", "SubagentStart", "SubagentStop", "Stop", "StopFailure", "Notification", "PreCompact", "PostCompact",
    "SessionEnd", "WorktreeCreate", "WorktreeRemove",
]  # fmt: skip
EVENTS: tuple[str, ...] = Event.__args__  # type: ignore[attr-defined]
"""Every event that hooks can run on."""
TIMEOUT_S = 60.0
"""Seconds that a hook may take without a `timeout`."""
NAME_CHARS = 60
"""Characters of a hook's command that a line for people or models shows: the reason beside it matters more."""
_NAMES = re.compile(r"[A-Za-z0-9_\-|, ]*")
_LIST = re.compile(r"[A-Za-z0-9_\- ]*(?:\.?\*)?(?:[|,][A-Za-z0-9_\- ]*(?:\.?\*)?)*")


class HookEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One program of a hooks file, as an item of `hooks`."""

    command: Annotated[str, Meta(min_length=1)]
    """A shell command; with `args` the program itself, which then runs without a shell."""
    type: Literal["command"] = "command"
    """The kind of hook: a program."""
    args: tuple[str, ...] | None = None
    """Arguments of the program. Not set: `command` is a shell command."""
    condition: str = msgspec.field(default="", name="if")
    """A permission rule such as `Bash(git push *)`: the hook runs for calls that have a part that it matches."""
    timeout: Annotated[float, Meta(gt=0, le=3600)] = TIMEOUT_S
    """Seconds after which it is ended."""
    on_failure: Literal["allow", "block"] = "allow"
    """What happens if it fails, is ended or answers nonsense: a warning, or the same as if it had denied."""
    run_async: bool = msgspec.field(default=False, name="async")
    """Whether nothing waits for it. Its answer does not count."""
    writes: tuple[str, ...] = ()
    """Folders of the project, relative to it, that a project's hook may write. Without them it writes nothing there. Only in
    `.friday/hooks.json`."""
    status_message: str = ""
    """Shown to people while it runs."""


class HookGroup(msgspec.Struct, frozen=True):
    """Hooks with the same matcher. Empty or `*` matches all; letters, digits, `_`, `-`, `|` and `,` are names; anything else is a
    regular expression over the whole name. In a project's file a name may end in `*` or `.*`, and anything else matches all."""

    hooks: tuple[HookEntry, ...]
    """The programs."""
    matcher: str = ""
    """What the event must be about: the name of a tool, of a profile, or what the table in docs/hooks.md names."""


class HooksFile(msgspec.Struct, frozen=True):
    """A file with hooks: by the name of the event."""

    hooks: dict[Event, tuple[HookGroup, ...]] = {}
    """The hooks of each event."""


class Hook(msgspec.Struct, frozen=True):
    """A configured hook. `file` is where, `source` whose: a project's hooks only tighten and run in the sandbox. `rule` is the
    parsed condition. `scripts` are the files of a project that its command names, with the sha256 that the person trusted."""

    event: str
    matcher: str
    entry: HookEntry
    source: Literal["user", "project"]
    file: str
    rule: Rule | None = None
    scripts: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Its command in one line, for people."""
        return " ".join((self.entry.command, *(self.entry.args or ())))

    @property
    def blocks(self) -> bool:
        """Whether its failure counts as a denial."""
        return self.entry.on_failure == "block"

    def matches(self, subjects: tuple[str, ...]) -> bool:
        """Whether its matcher fits one of the names of what happened; without a name every matcher does."""
        text = self.matcher.strip()
        if text in ("", "*") or not subjects:
            return True
        if _NAMES.fullmatch(text):
            return any(name.strip() in subjects for name in re.split(r"[|,]", text))
        if self.source == "project":  # a pattern of a project could take for ever
            if not is_list_of_names(text):
                return True
            parts = [part.strip() for part in re.split(r"[|,]", text)]
            return any(_fits(part, subject) for part in parts for subject in subjects)
        return any(re.fullmatch(text, subject) for subject in subjects)

    def applies(self, call: RuleInput | None) -> bool:
        """Whether its condition fits a call, or may fit a part of it that cannot be read."""
        if self.rule is None or call is None:
            return True
        rules = (self.rule,)
        return matching_rule(rules, call, "deny") is not None or possible_rule(rules, call) is not None


def is_list_of_names(matcher: str) -> bool:
    """Whether the matcher is a name, a name that ends in `*` or `.*`, or a list of them."""
    return _LIST.fullmatch(matcher) is not None


def _fits(part: str, subject: str) -> bool:
    return subject.startswith(part.rstrip(".*")) if part.endswith("*") else subject == part


def hooks_schema() -> dict[str, Any]:
    """The JSON Schema of hooks.json, for editors."""
    from friday_cli.config import json_schema  # only needed to print it

    components = json_schema.definitions(HooksFile)
    return json_schema.document("Hooks of Friday", components.pop("HooksFile"), components)
