"""Turns a Markdown file with front matter into a Profile, or says what to change in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from .. import frontmatter
from ..core.errors import FileError
from ..core.pattern import pattern
from ..core.plain import line, plain
from . import foreign
from .profile import (
    KNOWN,
    READ_ONLY,
    SUPERVISION,
    TOKENS_HARD,
    TOKENS_USEFUL,
    TURNS_HARD,
    Memory,
    Origin,
    Profile,
)

NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SELF = "An agent cannot assign itself as a sub-agent"
LONGEST = 86_400
LARGEST_VALUE = 4_000
"""Characters of one text in front matter; the rest is cut off."""

KEYS = (
    *("name", "description", "max_token_budget", "allowed_tools", "disallowed_tools", "max_iterations", "timeout"),
    *("max_cost", "model", "effort", "sub_agents", "memory", "mode", "project_context"),
    *("supervision", "isolation"),
)
"""The keys of a profile, in snake_case; camelCase is the same."""
_OTHERS = {
    "tools": "allowed_tools",
    "max_turns": "max_iterations",
    "timeout_mins": "timeout",
    "permission_mode": "mode",
    "reasoning_effort": "effort",
}
_CAMEL = {
    "max_token_budget": "maxTokenBudget",
    "allowed_tools": "allowedTools",
    "disallowed_tools": "disallowedTools",
    "max_iterations": "maxIterations",
    "max_cost": "maxCost",
    "sub_agents": "subAgents",
    "project_context": "projectContext",
}

Tools = tuple[str, ...] | Literal["*"] | None


def parse(path: str, raw: bytes, *, origin: Origin = "user", token_cap: int = TOKENS_HARD) -> Profile:
    """The profile in `raw`, the content of the file `path`.

    `token_cap` is the most tokens the settings allow. Raises FileError naming line, field and remedy.
    """
    text = frontmatter.decode(path, raw)
    page = frontmatter.read(path, text, lenient=origin == "claude")
    imported = origin == "claude" or any(key in foreign.MARKS for key in page.keys)
    return _Reader(path, page, imported, origin).profile(token_cap)


class _Reader:
    """Reads one file's keys, collecting remarks on the way."""

    def __init__(self, path: str, page: frontmatter.Page, imported: bool, origin: Origin) -> None:
        self.path, self.page, self.imported, self.origin = path, page, imported, origin
        self.notices: list[str] = []
        self.values: dict[str, Any] = {}
        self.written: dict[str, str] = {}
        for key, value in page.keys.items():
            self._take(key, value)

    def profile(self, token_cap: int) -> Profile:
        name = self._name()
        tools, only, delegates = self._allowed()
        refused, deny = self._refused()
        sub_agents = self._sub_agents(name, delegates)
        if "delegate_task" in refused:
            sub_agents = ()
        body = self.page.body.strip()
        prompt = plain(body)
        if len(prompt) < len(body):
            self._note(f"{len(body) - len(prompt)} invisible characters were taken out of the prompt.")
        if not prompt:
            raise FileError(self.path, "has no prompt.", hint="Write it below the second line of three dashes.")
        return Profile(
            name=name,
            description=self._text("description", required=not self.imported) or prompt.split("\n")[0][:200],
            prompt=prompt,
            max_token_budget=self._tokens(token_cap),
            allowed_tools=tools,
            disallowed_tools=refused,
            only=only,
            deny=deny,
            max_iterations=self._turns(),
            timeout=self._timeout(),
            max_cost=self._number("max_cost"),
            model=self._model(),
            effort=self._choice("effort", EFFORTS, {}),
            sub_agents=sub_agents,
            supervision=self._choice("supervision", SUPERVISION, {}),
            isolation=self._choice("isolation", ("worktree",), {}),
            memory=self._memory(tools),
            mode=self._choice("mode", ("ask", "edits", "plan", "auto"), foreign.MODES),
            project_context=self._flag("project_context", default=self.origin == "claude"),
            path=self.path,
            origin=self.origin,
            imported=self.imported,
            notices=tuple(self.notices),
        )

    # ---- keys ---------------------------------------------------------------

    def _take(self, key: str, value: object) -> None:
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()
        name = _OTHERS.get(snake, snake)
        if name not in KEYS:
            if key in foreign.WITHOUT_EFFECT:
                self._note(f"{key} has no effect in Friday.")
                return
            known = [*KEYS, *_CAMEL.values()]
            close = nearest(key, known, 0.7) or nearest(snake, known, 0.7)
            hint = f"Did you mean {_CAMEL.get(close, close)}?" if close else f"Known: {_listed(KEYS)}."
            if not self.imported:
                raise self._error(key, "unknown key.", hint)
            self._note(f"{key} is not known and ignored.")
            return
        if name in self.values:
            raise self._error(key, f"says the same as {self.written[name]}.", "Keep one of them.")
        if value is None or value == "":
            raise self._error(key, "has no value.", "Take the line out, or write [] for an empty list.")
        self.values[name], self.written[name] = value, key

    def _error(self, key: str, problem: str, hint: str = "") -> FileError:
        return FileError(self.path, problem, line=self.page.lines.get(key, 1), field=key, hint=hint)

    def _fail(self, name: str, problem: str, hint: str = "") -> FileError:
        return self._error(self.written.get(name, name), problem, hint)

    def _note(self, text: str) -> None:
        self.notices.append(text)

    def _text(self, name: str, *, required: bool = False) -> str:
        value = self.values.get(name)
        if value is None:
            if required:
                raise FileError(self.path, "is missing.", line=1, field=name, hint=f"Add a line {name}: ...")
            return ""
        if isinstance(value, bool):
            raise self._fail(name, "YAML reads yes, no, on and off as true or false.", "Put the value in quotes.")
        if isinstance(value, (dict, list)):
            raise self._fail(name, "expected one text.")
        if not isinstance(value, str):
            raise self._fail(name, f"expected text, got {value}.", "Put the value in quotes.")
        return line(value, LARGEST_VALUE)

    def _name(self) -> str:
        name = self._text("name", required=True)
        if self.imported and not NAME().fullmatch(name):
            slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64]
            if slug:
                self._note(f"is called {slug} here; its own name is {name!r}.")
                return slug
        if not NAME().fullmatch(name):
            raise self._fail("name", f"{name!r} is no name.", "Use small letters, digits, - and _, at most 64.")
        return name

    def _model(self) -> str:
        model = self._text("model")
        return "" if model == "inherit" else model

    def _choice(self, name: str, choices: tuple[str, ...], foreign_words: dict[str, str]) -> str:
        value = self._text(name) if not isinstance(self.values.get(name), bool) or not self.imported else ""
        if not value or value in choices:
            return value
        if self.written[name] == "permissionMode" or self.imported:
            if value in foreign_words:
                return foreign_words[value]
            self._note(f"{self.written[name]}: {value} is not taken over.")
            return ""
        close = nearest(value, choices)
        hint = f"Did you mean {close}?" if close else ""
        raise self._fail(name, f"{value!r} is none of {', '.join(choices)}.", hint)

    def _flag(self, name: str, *, default: bool) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self._fail(name, "expected true or false.")
        return value

    def _number(self, name: str, *, whole: bool = False) -> Any:
        value = self.values.get(name)
        if isinstance(value, str) and self.imported and re.fullmatch(r"\d{1,12}", value):
            value = int(value)
        if value is None:
            return None
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1e12:
            raise self._fail(name, f"expected a {'whole ' if whole else ''}number above 0, got {str(value)[:40]}.")
        return value

    def _tokens(self, cap: int) -> int | None:
        tokens: int | None = self._number("max_token_budget", whole=True)
        if tokens is not None and tokens > cap:
            self._note(f"{tokens:,} tokens are more than the cap of {cap:,}, which holds.")
            return cap
        if tokens is not None and tokens < TOKENS_USEFUL:
            self._note(f"{tokens:,} tokens are seldom enough for a result; {TOKENS_USEFUL:,} is a useful minimum.")
        return tokens

    def _turns(self) -> int | None:
        turns: int | None = self._number("max_iterations", whole=True)
        if turns is not None and turns > TURNS_HARD:
            self._note(f"{turns} turns are more than the cap of {TURNS_HARD}, which holds.")
            return TURNS_HARD
        return turns

    def _timeout(self) -> float | None:
        timeout = self._number("timeout")
        if timeout is None:
            return None
        seconds = timeout * 60.0 if self.written["timeout"] == "timeout_mins" else float(timeout)
        if seconds > LONGEST:
            hint = f"For {timeout:g} milliseconds write {timeout / 1000:g}."
            raise self._fail("timeout", f"{timeout:g} looks like milliseconds: durations are in seconds.", hint)
        return seconds

    # ---- tools --------------------------------------------------------------

    def _list(self, name: str) -> list[str]:
        value = self.values.get(name)
        entries = foreign.items(value) if isinstance(value, str) else value
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise self._fail(name, "expected a list of names.", "Write [a, b], or one `- name` a line.")
        return [entry.strip() for entry in entries]

    def _allowed(self) -> tuple[Tools, tuple[str, ...], tuple[str, ...] | Literal["*"]]:
        """The allowlist, rules that narrow it, and whom `Agent(x, y)` in it names."""
        if "allowed_tools" not in self.values:
            return ("*" if self.origin == "claude" else None), (), ()
        entries = self._list("allowed_tools")
        if "*" in entries:
            return "*", (), ()
        names: list[str] = []
        whole: set[str] = set()
        only: list[str] = []
        delegates: list[str] = []
        anyone = False
        for entry in entries:
            ours, pattern = foreign.take_apart(entry)
            if not self._known("allowed_tools", entry, ours):
                continue
            names += ours
            if ours[0] == "delegate_task":
                anyone = anyone or not pattern
                delegates += foreign.items(pattern or "")
            elif pattern and pattern != "*":
                only.append(foreign.rule(ours[0], pattern))
            else:
                whole.add(ours[0])
        if entries and not names:
            raise self._fail("allowed_tools", "none of these tools exists here.", f"Known: {_listed(KNOWN)}.")
        narrowed = tuple(rule for rule in dict.fromkeys(only) if rule.split("(", 1)[0] not in whole)
        return (
            tuple(dict.fromkeys(names)),
            narrowed,
            ("*" if anyone and self.imported else tuple(dict.fromkeys(delegates))),
        )

    def _refused(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tools that are taken away, and rules that refuse some of a tool's calls."""
        names: list[str] = []
        deny = []
        for entry in self._list("disallowed_tools") if "disallowed_tools" in self.values else ():
            ours, pattern = foreign.take_apart(entry)
            if not self._known("disallowed_tools", entry, ours):
                continue
            if not pattern or pattern == "*":
                names += ours
            elif ours[0] == "delegate_task":
                deny += [foreign.rule("delegate_task", name) for name in foreign.items(pattern)]
            else:
                deny.append(foreign.rule(ours[0], pattern))
        return tuple(dict.fromkeys(names)), tuple(dict.fromkeys(deny))

    def _known(self, name: str, entry: str, ours: Iterable[str]) -> bool:
        """Whether a tool list's entry counts; an unknown one is an error in our files, a remark in imported ones."""
        unknown = [tool for tool in ours if tool not in KNOWN]
        if not unknown:
            return True
        if unknown[0].startswith("mcp__"):
            self._note(f"{self.written[name]}: {entry} is not available.")
            return True
        if self.imported:
            self._note(f"{self.written[name]}: {entry} is not known here and left out.")
            return False
        close = nearest(unknown[0].lower(), sorted(KNOWN))
        hint = f"Did you mean {close}?" if close else f"Known: {_listed(KNOWN)}."
        raise self._fail(name, f"there is no tool {entry!r}.", hint)

    def _memory(self, tools: Tools) -> Memory:
        """What it may do with notes. `memory` takes the memory tools away and gives none: a word without effect is remarked on."""
        memory: Any = self._choice("memory", ("none", "read", "tagged"), foreign.MEMORIES)
        names = READ_ONLY if tools is None else KNOWN if tools == "*" else tools
        if not memory:
            return "tagged" if tools != "*" and "memory_save" in names else "read"
        if memory == "tagged" and "memory_save" not in names:
            self._note("memory: tagged has no effect without memory_save in allowedTools.")
        elif memory == "read" and "memory_load" not in names:
            self._note("memory: read has no effect without memory_load in allowedTools.")
        elif memory != "tagged" and tools != "*" and "memory_save" in names:
            self._note(f"memory_save has no effect with memory: {memory}.")
        return memory  # type: ignore[no-any-return]

    def _sub_agents(self, name: str, delegates: tuple[str, ...] | Literal["*"]) -> tuple[str, ...] | Literal["*"]:
        if "sub_agents" in self.values:
            entries = self._list("sub_agents")
            found: tuple[str, ...] | Literal["*"] = "*" if "*" in entries else tuple(dict.fromkeys(entries))
        else:
            found = delegates
            written = self.values.get("allowed_tools")
            if not found and isinstance(written, list) and "delegate_task" in written:
                self._note("delegate_task has no effect without subAgents.")
        if name in found:
            raise self._fail("sub_agents" if "sub_agents" in self.values else "allowed_tools", SELF)
        return found


def nearest(word: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """The name that was probably meant; "" when none is near."""
    import difflib  # only ever needed on the way to an error

    return next(iter(difflib.get_close_matches(word, list(names), 1, likeness)), "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_CAMEL.get(name, name) for name in (names if isinstance(names, tuple) else sorted(names)))
