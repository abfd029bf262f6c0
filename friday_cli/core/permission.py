"""Who may do what: ordered rules, modes, and the desk where open questions lie.

Deny beats ask beats allow. A child's rights are its parent's and its own profile's, the stricter of both, decided
anew at each call.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from .danger import WRAPPERS, catastrophe, is_plain, is_protected, is_secret, simple_commands
from .errors import ToolError, UsageError
from .events import (
    AnyEvent,
    AskWithdrawn,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from .log import Log
from .tool import Effect

Decision = Literal["allow", "ask", "deny"]
Mode = Literal["ask", "edits", "plan", "auto", "yolo"]
MODES: tuple[Mode, ...] = ("ask", "edits", "plan", "auto", "yolo")
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}

_DEFAULTS: dict[str, dict[Effect, Decision]] = {
    "ask": {"write": "ask", "run": "ask", "net": "ask"},
    "edits": {"write": "allow", "run": "ask", "net": "ask"},
    "plan": {"write": "deny", "run": "deny", "net": "ask", "save": "deny"},
    "auto": {"write": "allow", "run": "ask", "net": "ask"},
    "yolo": {},
}
"""What a mode says of an effect where no rule does; "allow" where it says nothing."""

_CLAUDE_NAMES = {
    "bash": "bash", "read": "read_file", "write": "write_file", "edit": "edit_file", "multiedit": "edit_file",
    "glob": "glob", "grep": "grep", "ls": "list_dir", "webfetch": "web_fetch", "websearch": "web_search",
    "task": "delegate_task", "agent": "delegate_task", "todowrite": "todo", "notebookread": "read_file",
}  # fmt: skip


class Rule(msgspec.Struct, frozen=True):
    """`tool(pattern)`: `pattern` is empty when the rule speaks of every call of the tool."""

    tool: str
    pattern: str
    decision: Decision

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool


def parse_rule(text: str, decision: Decision) -> Rule:
    """A rule from `bash(git status *)`, `edit_file(src/**)`, `web_fetch(domain:x.org)`, `grep` or Claude's spelling.

    Raises UsageError for text of another form.
    """
    match = re.fullmatch(r"\s*([A-Za-z_][\w*?-]*)\s*(?:\((.*)\))?\s*", text, re.S)
    if not match:
        raise UsageError(
            f"Not a permission rule: {text!r}.", hint="Write a tool and a pattern, such as 'bash(git status *)'."
        )
    name, pattern = match[1], (match[2] or "").strip()
    tool = _CLAUDE_NAMES.get(name.lower(), name) if name != name.lower() else name
    if tool == "bash" and pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    return Rule(tool, "" if pattern == "*" else pattern, decision)


class Call(msgspec.Struct, frozen=True):
    """What rules look at: the tool, its effect, and one subject per thing it touches."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """A decision with its reason in words; `rule` is the rule that decided, "" when a mode or the floor did."""

    decision: Decision
    reason: str = ""
    rule: str = ""


class Rules:
    """The rights of one agent. `allowed` is its allowlist of tool names (None: whatever the parent may).

    A tool that a rule in `only` names runs for what these rules match and for nothing else.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        rules: Iterable[Rule] = (),
        allowed: frozenset[str] | None = None,
        only: Iterable[Rule] = (),
        parent: Rules | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.rules = list(rules)
        self.only = tuple(only)
        self.allowed = allowed
        self.parent = parent

    def child(
        self,
        *,
        allowed: frozenset[str] | None,
        mode: Mode | None = None,
        rules: Iterable[Rule] = (),
        only: Iterable[Rule] = (),
    ) -> Rules:
        """Rights below these: never more, whatever is asked for. Without a mode of its own a child follows its parent's."""
        return Rules(mode=mode or "yolo", rules=rules, allowed=allowed, only=only, parent=self)

    @property
    def effective_mode(self) -> Mode:
        """The strictest mode up the tree, as it is shown to people."""
        modes = [self.mode] if self.parent is None else [self.mode, self.parent.effective_mode]
        return min(modes, key=("plan", "ask", "edits", "auto", "yolo").index)

    def decide(self, call: Call) -> Verdict:
        """The strictest word of this agent's rights and all those above it."""
        own = self._decide(call)
        if self.parent is None:
            return own
        above = self.parent.decide(call)
        return above if _STRICTNESS[above.decision] >= _STRICTNESS[own.decision] else own

    def may(self, tool: str) -> bool:
        """Whether the allowlists up the tree name `tool` at all."""
        return (self.allowed is None or tool in self.allowed) and (self.parent is None or self.parent.may(tool))

    def _decide(self, call: Call) -> Verdict:
        if self.allowed is not None and call.tool not in self.allowed:
            return Verdict("deny", f"{call.tool} is not in this agent's list of allowed tools")
        mine = [rule for rule in self.only if fnmatch.fnmatchcase(call.tool, rule.tool)]
        if mine and _covering(mine, call) is None:
            return Verdict("deny", f"this agent may use {call.tool} only for {', '.join(map(str, mine))}")
        for decision in ("deny", "ask"):
            for rule in self.rules:
                if rule.decision == decision and _touches(rule, call):
                    words = "denied" if decision == "deny" else "must be asked"
                    return Verdict(decision, f"{words} by the rule {rule}", str(rule))
        if reason := floor(call):
            return Verdict("ask", reason)
        if rule_ := _covering(self.rules, call):
            return Verdict("allow", f"allowed by the rule {rule_}", str(rule_))
        decision_ = _DEFAULTS[self.mode].get(call.effect, "allow")
        return Verdict(decision_, f"mode {self.mode}: {call.effect} calls are {_PAST[decision_]}")


_PAST = {"allow": "allowed", "ask": "asked about", "deny": "refused"}


def floor(call: Call) -> str:
    """Why a call must be put to a person in every mode, "" when it need not."""
    for subject in call.subjects:
        if call.effect == "run" and (reason := catastrophe(subject)):
            return f"{reason}: asked in every mode"
        if call.effect == "write" and is_protected(subject):
            return f"{subject} is protected: asked in every mode"
        if call.effect == "read" and is_secret(subject):
            return f"{subject} may hold secrets: asked in every mode"
    return ""


def _touches(rule: Rule, call: Call) -> bool:
    """Whether a deny or ask rule speaks of any part of the call, commands inside a compound one included."""
    if not fnmatch.fnmatchcase(call.tool, rule.tool):
        return False
    if not rule.pattern:
        return True
    for subject in call.subjects:
        parts = (subject, *simple_commands(subject)) if call.effect == "run" else (subject,)
        if any(_matches(rule, call, part) for part in parts):
            return True
    return False


def _covering(rules: Sequence[Rule], call: Call) -> Rule | None:
    """The allow rule of the first subject, when every subject has one."""
    found: Rule | None = None
    for subject in call.subjects or ("",):
        for rule in rules:
            if rule.decision != "allow" or not fnmatch.fnmatchcase(call.tool, rule.tool):
                continue
            if rule.pattern and call.effect == "run" and not is_plain(subject):
                continue
            if not rule.pattern or _matches(rule, call, subject):
                found = found or rule
                break
        else:
            return None
    return found


def _matches(rule: Rule, call: Call, subject: str) -> bool:
    if rule.pattern.startswith("domain:"):
        if not subject.startswith("domain:"):
            return False
        host, wanted = subject.removeprefix("domain:").lower().rstrip("."), rule.pattern[7:].lower().strip(".")
        return host == wanted or host.endswith("." + wanted.removeprefix("*."))
    if call.effect == "run":
        words = " ".join(subject.split())
        if rule.pattern.endswith(" *") and words == rule.pattern[:-2]:
            return True
        return fnmatch.fnmatchcase(words, rule.pattern)
    return _glob(rule.pattern).fullmatch(subject) is not None


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    """Path patterns: `*` and `?` stop at `/`, `**` does not."""
    out = ""
    for token in re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", pattern.removeprefix("./")):
        out += {"**/": r"(?:.*/)?", "/**": r"(?:/.*)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}.get(
            token, re.escape(token)
        )
    return re.compile(out, re.S)


def suggested_rule(call: Call) -> str:
    """The narrowest useful rule that would let this call pass next time, "" where none should be offered."""
    text = _narrowest(call)
    if not text:
        return ""
    rule = parse_rule(text, "allow")
    return text if str(rule) == text and rule.pattern and _covering([rule], call) else ""


def _narrowest(call: Call) -> str:
    if len(call.subjects) != 1 or floor(call):
        return ""
    subject = call.subjects[0]
    if re.search(r"[*?]", subject):  # it would mean more than this call
        return ""
    if call.effect != "run":
        return f"{call.tool}({subject})"
    if not is_plain(subject):
        return ""
    words = subject.split()
    keep = 3 if words[1:2] == ["run"] else 2
    names = [word.rsplit("/", 1)[-1] for word in (words[0], *words[2:keep])]
    if any(name in WRAPPERS or name.rstrip("0123456789.") in _INTERPRETERS for name in names):
        return ""
    if len(words) <= keep or words[1].startswith("-"):
        return f"{call.tool}({' '.join(words)})"
    return f"{call.tool}({' '.join(words[:keep])} *)"


_INTERPRETERS = frozenset(
    [
        "python",
        "node",
        "deno",
        "bun",
        "bash",
        "sh",
        "zsh",
        "dash",
        "ksh",
        "fish",
        "ruby",
        "perl",
        "php",
        "lua",
        "awk",
        "npx",
        "bunx",
        "uvx",
        "eval",
        "source",
        "ssh",
        "docker",
    ]
)


class Answer(msgspec.Struct, frozen=True):
    """A person's word on a permission. `reason` goes to the model when it is no."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""


async def _nothing(rule: Rule, scope: str) -> None:
    """Where nobody keeps grants."""


class Desk:
    """Open questions of all agents, side by side. The first answer wins; a question dies with the call that asked.

    No lock is held while a person thinks. `attended` is False where nobody can answer. `on_grant(rule, scope)` keeps
    what a person allowed for longer than once.
    """

    def __init__(self, log: Log, *, attended: bool) -> None:
        self.attended = attended
        self._log = log
        self._open: dict[str, tuple[str, asyncio.Future[Answer | str]]] = {}
        self.on_grant: Callable[[Rule, str], Awaitable[None]] = _nothing

    @property
    def pending(self) -> dict[str, str]:
        """Open questions: id -> path of the asker."""
        return {ask_id: path for ask_id, (path, _) in self._open.items()}

    async def permission(self, path: str, call_id: str, call: Call, *, reason: str) -> Answer:
        """Wait for a person's decision on `call`."""
        rule = suggested_rule(call)
        ask_id = self._new_id("p")
        asked = PermissionAsked(ask_id, call_id, call.tool, "\n".join(call.subjects), reason, rule)
        answer = await self._put(path, ask_id, asked)
        assert isinstance(answer, Answer)
        if answer.decision == "deny" or not rule:
            answer = msgspec.structs.replace(answer, scope="once")
        if answer.scope != "once":
            await self.on_grant(parse_rule(rule, "allow"), answer.scope)
        return answer

    async def question(self, path: str, call_id: str, question: str, choices: Sequence[str]) -> str:
        """Wait for a person's answer in words. Raises ToolError where nobody can answer."""
        if not self.attended:
            raise ToolError("Nobody can answer questions here. Decide yourself and say what you assumed.")
        ask_id = self._new_id("q")
        answer = await self._put(path, ask_id, QuestionAsked(ask_id, call_id, question, tuple(choices)))
        assert isinstance(answer, str)
        return answer

    async def answer(self, ask_id: str, answer: Answer | str) -> bool:
        """Answer an open question; False when it is not open any more or wants another kind of answer."""
        entry = self._open.get(ask_id)
        if entry is None or entry[1].done():
            return False
        if isinstance(answer, str) is ask_id.startswith("p"):
            return False
        entry[1].set_result(answer)
        return True

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}{self._log.last + 1}"  # the number of the event that asks: unique over resumes

    async def _put(self, path: str, ask_id: str, asked: AnyEvent) -> Answer | str:
        future: asyncio.Future[Answer | str] = asyncio.get_running_loop().create_future()
        self._open[ask_id] = (path, future)
        closing: AnyEvent = AskWithdrawn(ask_id, "the asker was stopped")
        try:
            await self._log.emit(path, asked)
            answer = await future
            if isinstance(answer, Answer):
                closing = PermissionAnswered(ask_id, answer.decision, answer.scope, answer.reason)
            else:
                closing = QuestionAnswered(ask_id, answer)
            return answer
        finally:
            self._open.pop(ask_id, None)
            await self._log.emit(path, closing)
