"""What another assistant has configured, in Friday's form, and what of it has no counterpart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.permissions.patterns import any_depth
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import BASH, TOOLS

from .. import command_check, commands, frontmatter
from ..hooks.read import HookFile, HookFiles, read_hooks
from ..profiles import claude_import
from ..profiles.parse import parse as parse_profile
from ..profiles.profile import Profile

MAX_FILES = 1_000
"""Files of one folder that are read."""
DECISIONS = ("allow", "ask", "deny")


class Found(msgspec.Struct):
    """The settings that were found in another assistant. `servers`: entries of mcp.json by name. `hooks`: (event, group of hooks.json). `rules`: (decision, rule).
    `agents` and `commands`: the text of a file by name. `left`: one line for each thing that is not taken over, or not as it was."""

    servers: dict[str, dict[str, Any]] = {}
    hooks: list[tuple[str, dict[str, Any]]] = []
    rules: list[tuple[str, str]] = []
    agents: dict[str, str] = {}
    commands: dict[str, str] = {}
    instructions: str = ""
    left: list[str] = []

    def leave(self, where: object, why: str) -> None:
        """Add a line about something that is not imported."""
        self.left.append(sanitize_line(f"{where}: {why}", 400))

    def add_hooks(self, file: Path, hooks: object) -> None:
        """Add the hooks of a file in Claude's shape that Friday can run."""
        for event, groups in hooks.items() if isinstance(hooks, dict) else ():
            for group in groups if isinstance(groups, list) else ():
                entries = group.get("hooks") if isinstance(group, dict) else None
                kept = [entry for entry in entries or () if self._is_hook(file, event, group, entry)]
                if kept:
                    matcher = {"matcher": group["matcher"]} if group.get("matcher") else {}
                    self.hooks.append((event, {**matcher, "hooks": kept}))

    def _is_hook(self, file: Path, event: str, group: dict[str, Any], entry: object) -> bool:
        data = json.dumps({"hooks": {event: [{"matcher": group.get("matcher") or "", "hooks": [entry]}]}})
        hooks, problems = read_hooks(HookFiles((HookFile(file, data.encode(), "user"),)))
        self.left += [sanitize_line(problem, 400) for problem in problems]
        return bool(hooks)

    def add_rule(self, where: object, decision: str, rule: str) -> None:
        """Add a permission rule in Friday's form, if it is one."""
        name = rule.partition("(")[0]
        if name not in TOOLS.names and not name.startswith(SERVER_PREFIX):
            self.leave(where, f"the rule {rule!r}: Friday has no such tool.")
            return
        try:
            parse_rule(rule, "deny", TOOLS)
        except FridayError as error:
            self.leave(where, f"the rule {rule!r}: {error}")
        else:
            if (decision, rule) not in self.rules:
                self.rules.append((decision, rule))

    def add_profile(self, path: Path, parse: Callable[[], tuple[str, str, list[str]]]) -> None:
        """Add an agent: `parse` gives its name, its text as a profile, and what is different. An error becomes a line."""
        try:
            name, text, notices = parse()
            parse_profile(str(path), text.encode(), origin="user")
        except FridayError as error:
            self.leave(path, f"the agent: {error}")
            return
        for notice in notices:
            self.leave(path, notice)
        self.agents.setdefault(name, text)

    def add_commands(self, folder: Path) -> None:
        """Add the commands in a folder of Markdown files."""
        for relative, path, raw in markdown_files(folder):
            name = relative.removesuffix(".md").replace("/", ":").lower()
            self.add_command(path, name, raw)

    def add_command(self, path: Path, name: str, raw: bytes) -> None:
        """Add one command from the content of its file."""
        try:
            command = commands.parse(str(path), name, raw, "claude")
        except FridayError as error:
            self.leave(path, f"the command: {error}")
            return
        for difference in command_check.differences(command, raw):
            self.leave(path, difference)
        front: dict[str, Any] = {"description": command.description}
        front |= {"argument-hint": command.hint} if command.hint else {}
        front |= {"arguments": list(command.names)} if command.names else {}
        if command.tools is not None:
            front["allowed-tools"] = _narrowed(command.tools, command.only)
        self.commands.setdefault(name, markdown(front, command.text))


def markdown_files(folder: Path) -> Iterator[tuple[str, Path, bytes]]:
    """The Markdown files below a folder: the path relative to it, the path, and the content. What cannot be read is skipped."""
    paths = sorted(path for path in folder.rglob("*.md") if path.is_file()) if folder.is_dir() else []
    for path in paths[:MAX_FILES]:
        raw = frontmatter.contents(path)
        if isinstance(raw, bytes):
            yield path.relative_to(folder).as_posix(), path, raw


def markdown(front: Mapping[str, Any], body: str) -> str:
    """A Markdown file with front matter. JSON values are valid YAML."""
    rows = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()]
    return "\n".join(["---", *rows, "---", "", body.strip(), ""])


def profile_text(profile: Profile) -> str:
    """A profile as a file of Friday."""
    front: dict[str, Any] = {"name": profile.name, "description": profile.description}
    if profile.allowed_tools is not None:
        tools = profile.allowed_tools
        front["allowedTools"] = ["*"] if tools == "*" else _narrowed(tools, profile.only)
    optional: dict[str, Any] = {
        "disallowedTools": [*profile.disallowed_tools, *profile.deny],
        "model": profile.model,
        "effort": profile.effort,
        "maxIterations": profile.max_iterations,
        "timeout": profile.timeout,
        "maxTokenBudget": profile.max_token_budget,
        "subAgents": ["*"] if profile.sub_agents == "*" else list(profile.sub_agents),
        "mode": profile.mode,
        "temperature": profile.temperature,
        "preloadSkills": list(profile.preload_skills),
        "projectContext": profile.project_context,
        "mcpServers": [
            {name: profile.mcp_inline[name]} if name in profile.mcp_inline else name for name in profile.mcp_servers
        ],
    }
    front |= {key: value for key, value in optional.items() if value not in (None, "", [], False)}
    if profile.skills is not None:
        front["skills"] = list(profile.skills) or ["none"]
    if profile.memory == "tagged" and profile.allowed_tools != "*":
        front["memory"] = profile.memory
    return markdown(front, profile.prompt)


def rules_of(entry: str, decision: str) -> list[str]:
    """The rules for one entry of Claude's permission lists, such as `Bash(npm run:*)`."""
    names, pattern = claude_import.parse_entry(entry, imported=True)
    if pattern and pattern.startswith("//"):
        pattern = pattern[1:]  # an absolute path
    names = (BASH,) if BASH in names else names
    if pattern and decision != "allow" and TOOLS.effect(names[0]) in ("read", "write"):
        pattern = any_depth(pattern)
    return [claude_import.rule(name, pattern) if pattern else name for name in names]


def _narrowed(tools: tuple[str, ...], only: tuple[str, ...]) -> list[str]:
    """A tool list in which tools that `only` restricts are named by these rules."""
    restricted = {rule.partition("(")[0] for rule in only}
    return [*(tool for tool in tools if tool not in restricted), *only]
