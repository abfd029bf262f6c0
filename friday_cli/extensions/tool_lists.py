"""The value of `allowed-tools` in commands and skills, and the rules that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.protocol.errors import FileError

if TYPE_CHECKING:
    from friday_cli.core.permissions.rules import Rules


def allowed_tools(
    path: str, value: object, line: int, *, imported: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The tools that the value of `allowed-tools` names, rules that restrict them, and the entries that name none. `imported`: it
    was written for another program. Raises FileError."""
    from friday_cli.core.protocol.tool_info import EXTERNAL_PREFIXES
    from friday_cli.core.tool_catalog import TOOLS

    from .profiles import claude_import

    entries = claude_import.items(value) if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise FileError(path, "expected a list of tools.", line=line, field="allowed-tools")
    known: list[tuple[tuple[str, ...], str | None]] = []
    ignored: list[str] = []
    for entry in entries:
        tool_names, pattern = claude_import.parse_entry(entry, imported=imported)
        unknown = [tool for tool in tool_names if tool not in TOOLS.names and not tool.startswith(EXTERNAL_PREFIXES)]
        if not unknown:
            known.append((tool_names, pattern))
        elif imported:
            ignored.append(entry)
        else:
            hint = f"Known: {', '.join(sorted(TOOLS.names))}."
            raise FileError(path, f"unknown tool {entry!r}.", line=line, field="allowed-tools", hint=hint)
    tools = tuple(dict.fromkeys(name for names, _ in known for name in names))
    return tools, claude_import.narrowed(known), tuple(ignored)


class Restriction(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nothing but `tools` may run, and some of them only as the rules `only` say. Files in `folder` can be read in any case."""

    tools: tuple[str, ...]
    only: tuple[str, ...] = ()
    folder: str = ""

    def rules(self) -> Rules:
        """The rules that hold for this. They never allow more than before."""
        from friday_cli.core.permissions.rule import Allowlist, parse_rule
        from friday_cli.core.permissions.rules import Rules
        from friday_cli.core.protocol.tool_info import SKILL, TASK_RESULT
        from friday_cli.core.tool_catalog import READ_FILE, TOOLS

        rules = [parse_rule(rule, "allow", TOOLS) for rule in self.only]
        allowed = {*self.tools, TASK_RESULT}
        if self.folder:
            if READ_FILE not in self.tools or any(rule.tool == READ_FILE for rule in rules):
                inside = "/".join(self.folder.split("/")[-3:])  # how the workspace names it, if it is in there
                rules += [parse_rule(f"{READ_FILE}({top}/**)", "allow") for top in (self.folder, inside)]
            allowed |= {SKILL, READ_FILE}
        return Rules(mode=None, allowlist=Allowlist(frozenset(allowed), tuple(rules)))
