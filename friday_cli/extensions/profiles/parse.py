"""Parses a Markdown file with front matter into a Profile, or reports what to change in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.provider import EFFORTS, TIERS
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, EXTERNAL_PREFIXES
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize
from friday_cli.core.text.suggest import closest_match
from friday_cli.core.tool_catalog import MEMORY_LOAD, MEMORY_SAVE, TOOLS

from .. import frontmatter
from . import claude_import, ladder_keys
from .profile import (
    CONFIGURED_MODES,
    MEMORIES,
    RESULT_CHARS_LEAST,
    SUPERVISION,
    TEMPERATURE_MAX,
    TOKENS_HARD,
    TOKENS_USEFUL,
    TURNS_HARD,
    Memory,
    Origin,
    Profile,
)
from .schema import ALIASES, CAMEL, KEYS, ProfileFields, listed

NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
NAME_HINT = "Use lower-case letters, digits, - and _; at most 64 characters."
SELF = "An agent cannot assign itself as a sub-agent"
MAX_TIMEOUT_S = 86_400

Tools = tuple[str, ...] | Literal["*"] | None
_KNOWN_KEYS = frozenset((*KEYS, *ALIASES, *CAMEL.values(), *claude_import.CLAUDE_KEYS, *claude_import.WITHOUT_EFFECT))


def parse(path: str, raw: bytes, *, origin: Origin = "user", token_cap: int = TOKENS_HARD) -> Profile:
    """Parse the content `raw` of the file `path`. `token_cap`: the maximum of tokens in the settings. Raises FileError
    with line, field and remedy."""
    text = frontmatter.decode(path, raw)
    try:
        page = frontmatter.read(path, text)
        prose = False
    except FileError:
        page = frontmatter.read(path, text, known=_KNOWN_KEYS)
        prose = True
        if origin != "claude" and claude_import.CLAUDE_KEYS.isdisjoint(page.keys):
            raise
    imported = origin == "claude" or not claude_import.CLAUDE_KEYS.isdisjoint(page.keys)
    fields = ProfileFields(path, page, imported=imported)
    if prose:
        fields.note("its front matter is not YAML; each value is read as plain text.")
    return _FieldReader(fields, origin, page.body).profile(token_cap)


class _FieldReader:
    """Interprets the keys of one file."""

    def __init__(self, fields: ProfileFields, origin: Origin, body: str) -> None:
        self._fields, self._origin, self._body = fields, origin, body

    def profile(self, token_cap: int) -> Profile:
        name = self._name()
        tools, only, delegates = self._allowed()
        refused, deny = self._refused()
        sub_agents = self._sub_agents(name, delegates)
        if DELEGATE_TASK in refused:
            sub_agents = ()
        body = self._body.strip()
        prompt = sanitize(body)
        if not prompt and "external" in self._fields.values:
            prompt = "Do the task, and return the result."
        if len(prompt) < len(body):
            self._fields.note(f"{len(body) - len(prompt)} invisible characters were removed from the prompt.")
        if not prompt:
            raise FileError(self._fields.path, "has no prompt.", hint="Write it below the second `---` line.")
        model, models, check = self._model(), *ladder_keys.read(self._fields)
        skills, preload = self._skills()
        tokens = self._capped("max_token_budget", "tokens", token_cap)
        if tokens is not None and tokens < min(token_cap, TOKENS_USEFUL):
            self._fields.note(f"{tokens:,} tokens are rarely enough for a result; use at least {TOKENS_USEFUL:,}.")
        servers, inline = self._servers()
        profile = Profile(
            name=name,
            description=self._fields.text("description", required=not self._fields.imported)
            or prompt.split("\n")[0][:200],
            prompt=prompt,
            max_token_budget=tokens,
            allowed_tools=tools,
            disallowed_tools=refused,
            only=only,
            deny=deny,
            max_iterations=self._capped("max_iterations", "turns", TURNS_HARD),
            timeout=self._timeout(),
            max_cost=self._fields.number("max_cost"),
            model=models[0] if models else "" if model == "inherit" else model,
            models=models,
            check=check,
            ladder=self._fields.choice("ladder", ("fresh",)),
            effort=self._fields.choice("effort", EFFORTS),
            service_tier=self._fields.choice("service_tier", TIERS),
            sub_agents=sub_agents,
            supervision=self._fields.choice("supervision", SUPERVISION),
            isolation=self._fields.choice("isolation", ("worktree",)),
            memory=self._memory(tools),
            mode=self._fields.choice("mode", CONFIGURED_MODES, claude_import.CLAUDE_MODES),
            project_context=self._fields.flag("project_context", default=self._origin == "claude"),
            temperature=self._temperature(),
            result_chars=self._fields.number("result_chars", whole=True, least=RESULT_CHARS_LEAST),
            skills=skills,
            preload_skills=preload,
            mcp_servers=servers,
            mcp_inline=inline,
            path=self._fields.path,
            origin=self._origin,
            imported=self._fields.imported,
            notices=tuple(self._fields.notices),
        )
        return profile if "external" not in self._fields.values else self._external(profile, token_cap)

    def _external(self, profile: Profile, token_cap: int) -> Profile:
        """The profile of an agent whose work another program does, with the limits that it has then."""
        from . import external  # few profiles name a program

        own = self._origin == "user"
        program = external.read(self._fields, own=own)
        return msgspec.structs.replace(
            profile,
            external=program,
            max_token_budget=profile.max_token_budget or min(token_cap, external.TOKENS),
            max_iterations=profile.max_iterations or external.TURNS,
            timeout=profile.timeout or external.TIMEOUT_S,
            allowed_tools="*" if profile.allowed_tools is None else profile.allowed_tools,
            isolation="worktree",
            sub_agents=(),
            supervision="",
            notices=tuple(self._fields.notices),
        )

    def _name(self) -> str:
        name = self._fields.text("name", required=True)
        if self._fields.imported and not NAME().fullmatch(name):
            slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64]
            if slug:
                self._fields.note(f"its name {name!r} is changed to {slug}.")
                return slug
        if not NAME().fullmatch(name):
            raise self._fields.fail("name", f"{name!r} is not a valid name.", NAME_HINT)
        return name

    def _skills(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """The skills that it may load, and those that are loaded before its first turn. In a file of another tool `skills` means
        both."""
        found = {
            key: tuple(dict.fromkeys(self._fields.entries(key)))
            for key in ("skills", "preload_skills")
            if key in self._fields.values
        }
        skills, preload = found.get("skills"), found.get("preload_skills", ())
        if skills == ("none",):
            skills = ()
        elif skills is not None and "*" in skills:
            skills = None
        elif skills and self._fields.imported and not preload:
            preload = skills
        return skills, preload

    def _model(self) -> str:
        """The model; the first of a list in a file of another tool (Copilot's order of preference)."""
        given = self._fields.values.get("model")
        if self._fields.imported and isinstance(given, list) and given:
            self._fields.note(f"model: the first of {len(given)} is used.")
            self._fields.values["model"] = given[0]
        return self._fields.text("model")

    def _capped(self, name: str, unit: str, cap: int) -> int | None:
        """The number of the key `name`, at most `cap`."""
        value: int | None = self._fields.number(name, whole=True)
        if value is None or value <= cap:
            return value
        self._fields.note(f"{value:,} {unit} exceed the maximum; {cap:,} is used.")
        return cap

    def _timeout(self) -> float | None:
        timeout = self._fields.number("timeout")
        if timeout is None:
            return None
        seconds = timeout * 60.0 if self._fields.written["timeout"] == "timeout_mins" else float(timeout)
        if seconds > MAX_TIMEOUT_S:
            hint = f"For {timeout:g} ms use {timeout / 1000:g}."
            raise self._fields.fail("timeout", f"{timeout:g} is too long; the unit is seconds.", hint)
        return seconds

    def _temperature(self) -> float | None:
        temperature: float | None = self._fields.number("temperature", least=0)
        if temperature is not None and temperature > TEMPERATURE_MAX:
            raise self._fields.fail("temperature", f"{temperature:g} is too high; use 0 to {TEMPERATURE_MAX:g}.")
        return temperature

    def _allowed(self) -> tuple[Tools, tuple[str, ...], tuple[str, ...] | Literal["*"]]:
        """The allowed tools, rules that restrict them, and the profiles in `Agent(x, y)`."""
        if "allowed_tools" not in self._fields.values:
            return ("*" if self._origin == "claude" else None), (), ()
        entries = self._fields.entries("allowed_tools")
        if "*" in entries:
            return "*", (), ()
        imported = self._fields.imported
        parsed = [(entry, *claude_import.parse_entry(entry, imported=imported)) for entry in entries]
        known = [(ours, pattern) for entry, ours, pattern in parsed if self._tools_exist("allowed_tools", entry, ours)]
        if entries and not known:
            raise self._fields.fail("allowed_tools", "none of these tools exists.", f"Known: {listed(TOOLS.names)}.")
        agents = [pattern for ours, pattern in known if ours[0] == DELEGATE_TASK]
        anyone = self._fields.imported and not all(agents)
        return (
            tuple(dict.fromkeys(name for ours, _ in known for name in ours)),
            claude_import.narrowed([entry for entry in known if entry[0][0] != DELEGATE_TASK]),
            "*"
            if anyone
            else tuple(dict.fromkeys(name for some in agents for name in claude_import.items(some or ""))),
        )

    def _refused(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The disallowed tools, and rules that deny some calls of a tool."""
        names: list[str] = []
        deny = []
        for entry in self._fields.entries("disallowed_tools") if "disallowed_tools" in self._fields.values else ():
            ours, pattern = claude_import.parse_entry(entry, imported=self._fields.imported)
            if not self._tools_exist("disallowed_tools", entry, ours):
                continue
            if not pattern or pattern == "*":
                names += ours
            elif ours[0] == DELEGATE_TASK:
                deny += [claude_import.rule(DELEGATE_TASK, name) for name in claude_import.items(pattern)]
            else:
                deny.append(claude_import.rule(ours[0], pattern))
        return tuple(dict.fromkeys(names)), tuple(dict.fromkeys(deny))

    def _tools_exist(self, name: str, entry: str, ours: Iterable[str]) -> bool:
        """Whether an entry of a tool list is known. An unknown one is an error, or a notice in imported files."""
        unknown = [tool for tool in ours if tool not in TOOLS.names]
        if not unknown:
            return True
        if unknown[0].startswith(EXTERNAL_PREFIXES):
            return True
        if self._fields.imported:
            self._fields.note(f"{self._fields.written[name]}: {entry} is unknown and ignored.")
            return False
        close = closest_match(unknown[0].lower(), sorted(TOOLS.names))
        hint = f"Did you mean {close}?" if close else f"Known: {listed(TOOLS.names)}."
        raise self._fields.fail(name, f"unknown tool {entry!r}.", hint)

    def _servers(self) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
        """The MCP servers that it names, and those that it defines."""
        if "mcp_servers" not in self._fields.values:
            return (), {}
        from . import mcp_servers  # few profiles name servers

        return mcp_servers.servers(self._fields)

    def _memory(self, tools: Tools) -> Memory:
        """The memory access. `memory` can only remove memory tools; a value without effect adds a notice."""
        memory = self._fields.choice("memory", MEMORIES, claude_import.CLAUDE_MEMORIES)
        names = TOOLS.by_default if tools is None else TOOLS.names if tools == "*" else tools
        if not memory:
            return "tagged" if tools != "*" and MEMORY_SAVE in names else "read"
        if memory == "tagged" and MEMORY_SAVE not in names:
            self._fields.note(f"memory: tagged has no effect without {MEMORY_SAVE} in allowedTools.")
        elif memory == "read" and MEMORY_LOAD not in names:
            self._fields.note(f"memory: read has no effect without {MEMORY_LOAD} in allowedTools.")
        elif memory != "tagged" and tools != "*" and MEMORY_SAVE in names:
            self._fields.note(f"{MEMORY_SAVE} has no effect with memory: {memory}.")
        return memory

    def _sub_agents(self, name: str, delegates: tuple[str, ...] | Literal["*"]) -> tuple[str, ...] | Literal["*"]:
        if "sub_agents" in self._fields.values:
            entries = self._fields.entries("sub_agents")
            found: tuple[str, ...] | Literal["*"] = "*" if "*" in entries else tuple(dict.fromkeys(entries))
            # `delegate_task(x)` in allowedTools limits it, as a pattern limits other tools
            if delegates and delegates != "*":
                found = delegates if found == "*" else tuple(one for one in found if one in delegates)
        else:
            found = delegates
            written = self._fields.values.get("allowed_tools")
            if not found and isinstance(written, list) and DELEGATE_TASK in written:
                self._fields.note(f"{DELEGATE_TASK} has no effect without subAgents.")
        if name in found:
            raise self._fields.fail("sub_agents" if "sub_agents" in self._fields.values else "allowed_tools", SELF)
        return found
