"""Calls in the words of Claude Code, which existing hooks know: names of tools, their input and their response."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.tool import Output, Tool
from friday_cli.core.protocol.tool_info import ASK_USER, SKILL
from friday_cli.core.tool_catalog import BASH, DELEGATE_TASKS, EDIT_FILE, GLOB, READ_FILE, WRITE_FILE

_NAMES = {
    BASH: "Bash", READ_FILE: "Read", EDIT_FILE: "Edit", WRITE_FILE: "Write", GLOB: "Glob", "grep": "Grep",
    "list_dir": "LS", "web_fetch": "WebFetch", "web_search": "WebSearch", "delegate_task": "Agent", DELEGATE_TASKS: "Agent",
    "todo": "TodoWrite", ASK_USER: "AskUserQuestion", "bash_output": "BashOutput", "bash_kill": "KillShell",
    SKILL: "Skill",
}  # fmt: skip
_FIELDS: dict[str, dict[str, str]] = {
    BASH: {"timeout_s": "timeout", "background": "run_in_background"},
    READ_FILE: {"path": "file_path"},
    WRITE_FILE: {"path": "file_path"},
    EDIT_FILE: {"path": "file_path"},
    SKILL: {"name": "skill"},
    "delegate_task": {"profile": "subagent_type", "task": "prompt", "background": "run_in_background"},
    "todo": {"items": "todos"},
}
"""Our fields and theirs, by our name of the tool; others have the same name."""
_EDIT = {"old": "old_string", "new": "new_string", "replace_all": "replace_all"}
_DESCRIPTION_CHARS = 60


def claude_name(tool: str) -> str:
    """The name of a tool in `tool_name`; its own for one that Claude Code does not have, such as that of an MCP server."""
    return _NAMES.get(tool, tool)


def matched_names(tool: str) -> tuple[str, ...]:
    """The names of a tool that matchers can use."""
    more = {EDIT_FILE: ("MultiEdit",), "delegate_task": ("Task",), DELEGATE_TASKS: ("Task",)}
    return tuple(dict.fromkeys((claude_name(tool), tool, *more.get(tool, ()))))


def claude_input(tool: str, arguments: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The arguments of a call, as understood by our tool, in `tool_input`. Files are absolute, times in milliseconds."""
    names = _FIELDS.get(tool, {})
    found = {names.get(name, name): value for name, value in arguments.items()}
    for name in ("file_path", "path"):
        if isinstance(found.get(name), str) and tool in (READ_FILE, WRITE_FILE, EDIT_FILE, GLOB, "grep", "list_dir"):
            found[name] = os.path.normpath(os.path.join(root, found[name]))
    if "timeout" in found:
        found["timeout"] = int(found["timeout"] * 1000)
    if tool == EDIT_FILE:
        edits = [{_EDIT.get(name, name): value for name, value in edit.items()} for edit in found.get("edits", ())]
        if len(edits) == 1:
            del found["edits"]
            found |= {"replace_all": False, **edits[0]}
        else:
            found["edits"] = edits
    if tool == "todo":
        states = {"active": "in_progress", "done": "completed"}
        found["todos"] = [
            {"content": item.get("text", ""), "status": states.get(item.get("status"), item.get("status", "pending"))}
            for item in found.get("todos", ())
        ]
    if tool == DELEGATE_TASKS:
        tasks = [task for task in found.get("tasks", ()) if isinstance(task, dict)]
        found["subagent_type"] = ",".join(dict.fromkeys(str(task.get("profile", "")) for task in tasks))
        found["prompt"] = "\n\n".join(str(task.get("task", "")) for task in tasks)
    if claude_name(tool) == "Agent":
        found["description"] = " ".join(str(found.get("prompt", "")).split())[:_DESCRIPTION_CHARS]
        found.setdefault("run_in_background", False)
    return found


def rewritten_arguments(
    tool: Tool, arguments: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """`arguments` with what differs between `before` and `after`, two inputs in Claude's words; checked by the tool. Fields
    that only our tool has are kept. Raises ToolError."""
    theirs = {their: own for own, their in _FIELDS.get(tool.name, {}).items()}
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    wanted = dict(arguments)
    for name in before.keys() - after.keys():
        wanted.pop(theirs.get(name, name), None)
    if "timeout" in changed and tool.name == BASH:
        changed["timeout_s"] = changed.pop("timeout") / 1000
    if tool.name == EDIT_FILE and changed.keys() & set(_EDIT.values()):
        both = {**before, **changed}
        for name in _EDIT.values():
            changed.pop(name, None)
        wanted["edits"] = [{own: both[their] for own, their in _EDIT.items() if their in both}]
    if claude_name(tool.name) == "Agent":
        changed.pop("description", None)
    wanted |= {theirs.get(name, name): value for name, value in changed.items()}
    understood = tool.understand(wanted).arguments
    tool.parse(understood)
    return understood


def claude_response(tool: str, given: Mapping[str, Any], output: Output) -> Any:
    """The result of a call in `tool_response`."""
    if tool == BASH:
        shown = output.display.output.rstrip("\n") if isinstance(output.display, CommandDisplay) else output.text
        return {"stdout": shown, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
    if tool == READ_FILE:
        return {"type": "text", "file": {"filePath": given.get("file_path", ""), "content": output.text}}
    if tool in (EDIT_FILE, WRITE_FILE):
        return {"filePath": given.get("file_path", ""), "success": not output.error}
    return output.text
