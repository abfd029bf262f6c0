"""What models read of every tool, as a snapshot: specs.md beside this file.

After a change on purpose: `python -m tests.tools.test_specs [FAMILY...]` writes it anew; read the difference before you keep it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import friday_cli.tools
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions.profiles import Profile
from friday_cli.tools import ask_user, batch, code, delegate, memory, skill, task_result, web, worktree

SNAPSHOT = Path(__file__).with_name("specs.md")


NONE: Any = None
WITH_ARGUMENTS: dict[str, list[Tool]] = {
    "batch": [batch.map_tool(NONE)],
    "ask_user": ask_user.tools(attended=True),
    "code": code.tools(NONE),
    "delegate": delegate.delegate_tools(
        NONE, NONE, delegate.DelegateSettings((Profile("researcher", "finds things out", "x"),))
    ),
    "memory": memory.tools(NONE),
    "skill": [skill.skill_tool(NONE, (Profile("pdf", "Reads and fills PDF forms.", "x"),), 0)],
    "task_result": [task_result.result_tool()],
    "web": web.tools(search=web.search_tool({"BRAVE_API_KEY": "key"})),
    "worktree": worktree.worktree_tools(NONE),
}
"""The tools of the modules whose functions need arguments; of every other module, `tools()` is called."""


def present() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(friday_cli.tools.__path__))


FAMILIES: dict[str, list[Tool]] = {
    name: WITH_ARGUMENTS.get(name) or importlib.import_module(f"friday_cli.tools.{name}").tools() for name in present()
}


def written(family: str) -> str:
    """One family as Markdown: of each tool the description, then every parameter, then the schema as it is sent."""
    parts = [f"# {family}"]
    for tool in FAMILIES[family]:
        parts.append(f"## {tool.name}\n\nEffect: {tool.effect}\n\n{tool.description}")
        rows = [
            f"- `{path}` ({_kind(node)}, {_need(node, required)}): {node.get('description', '')}"
            for path, node, required in _parameters(tool.spec.schema)
        ]
        parts.append("\n".join(rows) or "No parameters.")
        parts.append(f"```json\n{json.dumps(tool.spec.schema, ensure_ascii=False, sort_keys=True)}\n```")
    return "\n\n".join(parts) + "\n"


def kept(family: str) -> str:
    """The same family as the snapshot has it, "" when it is not in there."""
    text = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    sections = re.split(r"^(?=# )", text, flags=re.M)
    return next((section.rstrip("\n") + "\n" for section in sections if section.startswith(f"# {family}\n")), "")


def _parameters(schema: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name, node in schema.get("properties", {}).items():
        yield above + name, node, name in schema.get("required", ())
        yield from _parameters(node, f"{above}{name}.")
        yield from _parameters(node.get("items") or {}, f"{above}{name}[].")


def _kind(node: dict[str, Any]) -> str:
    if "enum" in node:
        return "one of " + ", ".join(map(json.dumps, node["enum"]))
    return " or ".join(part.get("type", "?") for part in node.get("anyOf", [node]))


def _need(node: dict[str, Any], required: bool) -> str:
    return "required" if required else f"default {json.dumps(node['default'])}" if "default" in node else "optional"


CLEAR = frozenset({
    "read_file limit", "write_file path", "write_file content", "edit_file path", "edit_file edits[].old",
    "edit_file edits[].replace_all", "list_dir path", "glob path", "grep context", "grep ignore_case", "document_query path",
    "document_query max_quotes", "memory_save tags", "memory_load limit", "todo items", "todo items[].text",
    "todo items[].status", "bash command", "bash_kill id", "message_sub_agent id", "message_sub_agent text", "cancel_sub_agent id",
    "apply_delegation id", "discard_delegation id", "code action", "code path", "rename_symbol path", "rename_symbol name",
    "rename_symbol new_name", "rename_symbol line", "rename_symbol apply",
})  # fmt: skip
"""Parameters that need no description: name and tool say it all, or a tool beside it gives an example."""


@pytest.mark.parametrize("family", present())
def test_what_models_read_is_as_agreed(family: str) -> None:
    agreed = written(family) == kept(family)
    assert agreed, f"what models read of {family} changed; if on purpose: python -m tests.tools.test_specs"


@pytest.mark.parametrize("family", present())
def test_descriptions_are_fit_for_a_model(family: str) -> None:
    for tool in FAMILIES[family]:
        assert 60 <= len(tool.description) <= 1_000, tool.name
        assert tool.description == tool.description.strip(), tool.name
        jsonschema.Draft202012Validator.check_schema(tool.spec.schema)
        assert tool.spec.schema["type"] == "object", tool.name
        assert tool.args.__struct_config__.forbid_unknown_fields, f"{tool.name} takes arguments that do nothing"
        assert "$ref" not in json.dumps(tool.spec.schema), tool.name
        for path, node, required in _parameters(tool.spec.schema):
            described = len(node.get("description", "")) >= 10 or f"{tool.name} {path}" in CLEAR
            described = described or path.startswith("tasks[].")
            assert described, f"{tool.name}: {path} is not described"
            assert not (required and "default" in node), f"{tool.name}: {path} is either required or has a default"


def test_every_row_of_the_catalogue_is_made_once_by_the_module_it_names() -> None:
    made = [(tool.name, family) for family in present() for tool in FAMILIES[family]]
    assert sorted(made) == sorted((row.name, row.group) for row in TOOLS if row.group)


if __name__ == "__main__":
    renewed = sys.argv[1:] or present()
    command = "python -m tests.tools.test_specs [FAMILY...]"
    note = f"<!-- Written by `{command}`; read the difference before you keep it. -->\n"
    sections = [written(family) if family in renewed else kept(family) for family in present()]
    SNAPSHOT.write_text("\n".join([note, *filter(None, sections)]), encoding="utf-8")
    print(f"Wrote {SNAPSHOT.name}: {', '.join(renewed)}.")
