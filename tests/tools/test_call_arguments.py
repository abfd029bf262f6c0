"""Arguments as models of other programs send them: understood, left out and reported, or refused. Never misread."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.call_arguments import DESCRIPTIONS
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import PermissionAsked
from friday_cli.tools import shell
from tests.delegation.harness import Harness, harness, until
from tests.engine_fixture import Say, call
from tests.tools.test_specs import FAMILIES

__all__ = ["harness"]

TOOLS = {tool.name: tool for tools in FAMILIES.values() for tool in tools}
TOOLS["bash in a sandbox"] = shell.tools(confined=True)[0]
AB = [{"old": "a", "new": "b"}]
X = {"task": "x"}


def row(tool: str, sent: dict[str, Any], meant: dict[str, Any] | str, *left_out: str) -> Any:
    """A call, and what it means or words of the refusal; `left_out` are the fields that the result names."""
    return pytest.param(tool, sent, meant, left_out, id=f"{tool} {', '.join(sent)}"[:80])


CALLS = [
    # Claude Code
    row("read_file", {"file_path": "a.py"}, {"path": "a.py"}),
    row("read_file", {"file_path": "a.py", "offset": 10, "limit": 5}, {"path": "a.py", "offset": 10, "limit": 5}),
    row("read_file", {"file_path": "a.py", "offset": 0}, {"path": "a.py"}),
    row("read_file", {"file_path": "a.pdf", "pages": "1-5"}, {"path": "a.pdf"}, "pages"),
    row("read_file", {"notebook_path": "a.ipynb"}, {"path": "a.ipynb"}),
    row("edit_file", {"file_path": "f", "old_string": "a", "new_string": "b"}, {"path": "f", "edits": AB}),
    row("edit_file", {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": True},
        {"path": "f", "edits": [{**AB[0], "replace_all": True}]}),
    row("edit_file", {"file_path": "f", "edits": [{"old_string": "a", "new_string": "b"}]}, {"path": "f", "edits": AB}),
    row("edit_file", {"file_path": "f", "edits": '[{"old_string": "a", "new_string": "b"}]'}, {"path": "f", "edits": AB}),
    row("edit_file", {"notebook_path": "f", "cell_id": "3", "new_source": "x"}, "no argument `cell_id`. The arguments are: path, edits."),
    row("edit_file", {"file_path": "f", "old_string": "a"}, "missing required field `new`"),
    row("write_file", {"file_path": "f", "content": "[1]"}, {"path": "f", "content": "[1]"}),
    row("bash", {"command": "ls", "description": "List files"}, {"command": "ls"}, "description"),
    row("bash", {"command": "make", "timeout": 120_000}, {"command": "make", "timeout_s": 120}),
    row("bash", {"command": "make", "timeout": 120}, "bash: `timeout` = 120 has no unit. Give `timeout_s`, in seconds."),
    row("bash", {"command": "make", "timeout": 5000}, "has no unit"),
    row("bash", {"command": "make", "run_in_background": True}, {"command": "make", "background": True}),
    row("bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "no argument `dangerously_disable_sandbox`"),
    row("bash in a sandbox", {"command": "ls", "dangerouslyDisableSandbox": True}, {"command": "ls", "outside": True}),
    row("bash", {"command": "rm -r x", "dry_run": True}, "no argument `dry_run`. The arguments are: command, timeout_s, background."),
    row("bash_output", {"bash_id": "job-1", "filter": "err"}, {"id": "job-1"}, "filter"),
    row("bash_output", {"task_id": "job-1", "block": True, "timeout": 30_000}, {"id": "job-1"}, "block", "timeout"),
    row("bash_kill", {"shell_id": "job-1"}, {"id": "job-1"}),
    row("bash_kill", {"id": "job-1", "signal": "INT"}, "no argument `signal`. The arguments are: id."),
    row("grep", {"pattern": "x", "output_mode": "files_with_matches", "glob": "*.py"}, {"pattern": "x", "mode": "files", "glob": "*.py"}),
    row("grep", {"pattern": "x", "-i": True, "-n": True, "-A": 2, "-B": 3}, {"pattern": "x", "ignore_case": True, "context": 3}),
    row("grep", {"pattern": "x", "-C": 4, "output_mode": "content", "head_limit": 20}, {"pattern": "x", "context": 4, "limit": 20}),
    row("grep", {"pattern": "x", "head_limit": 0}, {"pattern": "x", "limit": 2000}),
    row("grep", {"pattern": "x", "type": "py"}, {"pattern": "x", "glob": "*.py"}),
    row("grep", {"pattern": "x", "type": "cobol", "multiline": True}, {"pattern": "x"}, "type", "multiline"),
    row("glob", {"pattern": "*.py", "path": None}, {"pattern": "*.py"}),
    row("list_dir", {"path": "src", "ignore": ["*.pyc"]}, {"path": "src"}, "ignore"),
    row("web_fetch", {"url": "https://x.org", "prompt": "Sum up"}, {"url": "https://x.org"}, "prompt"),
    row("web_search", {"query": "x", "allowed_domains": ["x.org"]}, {"query": "x"}, "allowed_domains"),
    row("todo", {"todos": [{"content": "a", "status": "in_progress", "activeForm": "doing a"}, {"content": "b", "status": "completed"}]},
        {"items": [{"text": "a", "status": "active"}, {"text": "b", "status": "done"}]}, "items.active_form"),
    row("todo", {"todos": '[{"content": "a", "status": "pending"}]'}, {"items": [{"text": "a"}]}),
    row("todo", {"todos": [{"content": "a", "status": "cancelled"}]}, "Invalid enum value 'cancelled'"),
    row("ask_user", {"questions": [{"question": "Q?", "header": "H", "multiSelect": False, "options": [{"label": "A", "description": "first"}, {"label": "B"}]}]},
        {"question": "Q?", "choices": ["A: first", "B"]}, "header", "multiSelect"),
    row("ask_user", {"questions": [{"question": "Q?"}, {"question": "R?"}]}, "ask_user: one call has one question."),
    row("delegate_task", {"description": "short", "prompt": "x", "subagent_type": "coder"}, {**X, "profile": "coder"}, "description"),
    row("delegate_task", {"prompt": "x", "subagent_type": "coder", "run_in_background": True, "max_turns": 3},
        {**X, "profile": "coder", "background": True, "max_iterations": 3}),
    row("delegate_task", {"prompt": "x", "model": "haiku"}, "no argument `model`. The arguments are: profile, task,"),
    # Codex
    row("bash", {"command": ["bash", "-lc", "ls | wc -l"], "workdir": ".", "timeout_ms": 1500}, {"command": "ls | wc -l", "timeout_s": 1.5}),
    row("bash", {"command": ["git", "log", "--grep", "a b"]}, {"command": "git log --grep 'a b'"}),
    row("bash", {"command": ["zsh", "-c", "ls"]}, {"command": "zsh -c ls"}),
    row("bash", {"cmd": "ls # all", "workdir": "my dir"}, {"command": "cd 'my dir' || exit; ls # all"}),
    row("bash", {"command": "ls", "workdir": "-"}, {"command": "cd ./- || exit; ls"}),
    row("bash", {"command": "make", "timeout_ms": 500}, "Expected `float` >= 1"),
    row("bash in a sandbox", {"cmd": "ls", "with_escalated_permissions": True, "justification": "why"},
        {"command": "ls", "outside": True, "reason": "why"}),
    row("bash", {"command": "ls", "timeout_ms": 9000, "timeout_s": 5}, "no argument `timeout_ms`"),
    row("grep", {"pattern": "x", "include": "*.rs", "path": "src", "limit": 100}, {"pattern": "x", "glob": "*.rs", "path": "src", "limit": 100}),
    row("list_dir", {"dir_path": "/ws", "depth": 2}, {"path": "/ws"}, "depth"),
    row("todo", {"explanation": "why", "plan": [{"step": "a", "status": "in_progress"}]}, {"items": [{"text": "a", "status": "active"}]}, "explanation"),
    row("delegate_task", {"message": "x", "agent_type": "coder"}, {**X, "profile": "coder"}),
    row("message_sub_agent", {"agent_id": "a.1", "message": "go on"}, {"id": "a.1", "text": "go on"}),
    row("message_sub_agent", {"id": "a.1", "text": "go on", "interrupt": True}, "no argument `interrupt`"),
    # Gemini CLI, Cursor and others
    row("read_file", {"absolute_path": "/ws/a", "offset": 10, "limit": 5}, {"path": "/ws/a", "offset": 11, "limit": 5}),
    row("read_file", {"file_path": "a", "start_line": 5, "end_line": 9}, {"path": "a", "offset": 5, "limit": 5}),
    row("read_file", {"path": "a", "view_range": [5, -1]}, {"path": "a", "offset": 5}),
    row("read_file", {"path": "a", "view_range": [9, 5]}, {"path": "a"}, "view_range"),
    row("edit_file", {"file_path": "f", "old_string": "a", "new_string": "b", "instruction": "rename", "expected_replacements": 1}, {"path": "f", "edits": AB}, "instruction"),
    row("edit_file", {"file_path": "f", "old_string": "a", "new_string": "b", "expected_replacements": 3}, "no argument `expected_replacements`"),
    row("edit_file", {"path": "f", "edits": {"old_str": "a", "new_str": "b"}}, {"path": "f", "edits": AB}),
    row("bash", {"command": "ls", "description": "List", "directory": "src", "is_background": False}, {"command": "cd src || exit; ls"}, "description"),
    row("grep", {"pattern": "x", "dir_path": "src", "include": "*.py", "case_sensitive": False, "fixed_strings": True, "after": 2},
        {"pattern": "x", "path": "src", "glob": "*.py", "ignore_case": True, "literal": True, "context": 2}),
    row("grep", {"pattern": "x", "names_only": True, "total_max_matches": 5}, {"pattern": "x", "mode": "files", "limit": 5}),
    row("glob", {"pattern": "*", "case_sensitive": True, "respect_git_ignore": False}, {"pattern": "*"}, "case_sensitive", "respect_git_ignore"),
    row("glob", {"glob_pattern": "*.c", "target_directory": "src"}, {"pattern": "*.c", "path": "src"}),
    row("web_fetch", {"prompt": "Sum up https://x.org"}, "missing required field `url`"),
    row("web_fetch", {"url": "https://x.org", "max_length": 500, "start_index": 7, "raw": True}, {"url": "https://x.org", "limit": 500, "offset": 7}, "raw"),
    row("web_search", {"search_term": "x", "explanation": "why"}, {"query": "x"}, "explanation"),
    row("memory_save", {"fact": "x"}, {"text": "x"}),
    row("memory_save", {"text": "x", "tags": '["a", "b"]', "ttl_days": 3}, "no argument `ttl_days`"),
    row("memory_save", {"text": "x", "tags": '["a", "b"]'}, {"text": "x", "tags": ["a", "b"]}),
    row("memory_load", {"q": "x", "tags": "a, b"}, "Expected `array`, got `str`"),
    row("todo", {"todos": [{"description": "a", "status": "completed"}]}, {"items": [{"text": "a", "status": "done"}]}),
    # forms, nulls, and names given twice
    row("read_file", {"filePath": "a", "limit": "5"}, {"path": "a", "limit": 5}),
    row("read_file", {"path": "a", "file_path": "a"}, {"path": "a"}),
    row("read_file", {"path": "a", "file_path": "b"}, "read_file: `path` is given twice, with different values."),
    row("write_file", {"path": "a", "filename": "b", "content": ""}, "`path` is given twice"),
    row("write_file", {"path": "a", "content": "x", "mode": "append"}, "no argument `mode`. The arguments are: path, content."),
    row("write_file", {"path": "a", "content": "x", "encoding": None}, {"path": "a", "content": "x"}),
    row("read_file", {"path": "a", "offset": None, "no\nsuch": 1}, {"path": "a"}, "no\nsuch"),
    row("delegate_task", {"task": "x", "schema": '{"type": "object"}', "timeout": 300_000, "profile": ""}, {**X, "schema": {"type": "object"}, "timeout_s": 300}),
    row("delegate_task", {"task": "x", "timeout": 300}, "delegate_task: `timeout` = 300 has no unit."),
    row("delegate_task", {"task": "x", "maxTokenBudget": 9000, "maxDepth": 1}, {**X, "max_tokens": 9000, "max_depth": 1}),
    row("delegate_task", {"task": "x", "instructions": "y"}, "`task` is given twice"),
    row("delegate_tasks", {"tasks": '[{"prompt": "x", "subagent_type": "coder"}]'}, {"tasks": [{**X, "profile": "coder"}]}),
    row("delegate_tasks", {"tasks": [{"prompt": "x", "description": "d"}, {"prompt": "x", "description": "d"}]}, {"tasks": [X, X]}, "tasks.description"),
    row("delegate_tasks", {"tasks": [{"prompt": "x", "tools": ["bash"]}]}, "no argument `tasks.tools`. The arguments of `tasks` are: profile,"),
    row("get_delegation_result", {"task_id": "a.1", "block": True}, {"id": "a.1"}, "block"),
    row("list_sub_agents", {"status": "running"}, {}, "status"),
    row("cancel_sub_agent", {"agent_id": "a.1", "after_s": 60}, "no argument `after_s`"),
    row("discard_delegation", {"id": "a.1", "dry_run": True}, "no argument `dry_run`"),
    row("apply_delegation", {"delegation_id": "a.1", "reason": "it is right"}, {"id": "a.1"}, "reason"),
    row("task_result", {"answer": "x", "success": False}, {"result": "x", "status": "error"}),
    row("task_result", {"result": "x", "status": "completed", "findings": '[{"claim": "c", "evidence": "e"}]'},
        {"result": "x", "findings": [{"claim": "c", "evidence": "e"}]}),
    row("task_result", {"result": "x", "explanation": "the better half"}, "no argument `explanation`"),
    row("document_query", {"file_path": "a.pdf", "question": "why"}, {"path": "a.pdf", "query": "why"}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "sent", "meant", "left_out"), CALLS)
def test_a_call_is_understood_or_refused(
    tool: str, sent: dict[str, Any], meant: dict[str, Any] | str, left_out: tuple[str, ...]
) -> None:
    before = msgspec.json.encode(sent)
    if isinstance(meant, str):
        with pytest.raises(ToolError) as refused:
            TOOLS[tool].parse(TOOLS[tool].understand(sent).arguments)
        assert meant in str(refused.value)
        assert str(refused.value).startswith(TOOLS[tool].name)
    else:
        understood = TOOLS[tool].understand(sent)
        assert TOOLS[tool].parse(understood.arguments) == TOOLS[tool].parse(meant)
        assert understood.left_out == left_out
        assert ("\n" in understood.note, bool(understood.note)) == (False, bool(left_out)), "one line, only when needed"
    assert msgspec.json.encode(sent) == before, "the call in the history stays as it was sent"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["{}", "[]", '[{"old": "a"}]', '{"x": [1]}', "[[[", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
FOREIGN = sorted(
    {name for one in CALLS for name in one.values[1]} | DESCRIPTIONS | {"tasks", "edits", "items", "findings"}
)


@given(
    st.sampled_from(sorted(TOOLS)), st.dictionaries(st.sampled_from(FOREIGN) | st.text(max_size=4), JSON, max_size=5)
)
def test_any_arguments_are_understood_refused_or_reported(tool: str, sent: dict[str, Any]) -> None:
    """Nothing vanishes without a word where a call writes or runs, and what is understood is understood again."""
    one = TOOLS[tool]
    try:
        understood = one.understand(sent)
        one.parse(understood.arguments)
    except ToolError:
        return
    again = one.understand(understood.arguments)
    assert (again.arguments, again.left_out) == (understood.arguments, ())
    if one.unknown_fields == "refused":
        assert not understood.left_out
    elif one.unknown_fields == "descriptions left out":
        assert {name.rpartition(".")[2] for name in understood.left_out} <= DESCRIPTIONS


UNDERSTOOD = [(one.values[0], one.values[2]) for one in CALLS if isinstance(one.values[2], dict)]
TEXTS = st.sampled_from(["[]", "{}", '["a"]', '[{"old": "a", "new": "b"}]', '{"path": "b"}', "null", "1", "true", ""])


@given(st.data(), st.sampled_from(UNDERSTOOD))
def test_our_own_spelling_keeps_its_meaning(data: st.DataObject, one: tuple[str, dict[str, Any]]) -> None:
    """What a tool takes as it is means the same after it was understood, also a text that looks like JSON."""
    tool, meant = TOOLS[one[0]], one[1]
    texts = [name for name, node in tool.spec.schema["properties"].items() if node.get("type") == "string"]
    sent = meant | data.draw(st.dictionaries(st.sampled_from(texts), TEXTS)) if texts else meant
    try:
        args = tool.parse(sent)
    except ToolError:
        return
    if one[0].startswith("delegate_task") and not sent.get("profile", "x"):
        args = msgspec.structs.replace(args, profile="general")
    assert tool.parse(tool.understand(sent).arguments) == args


async def test_a_session_with_the_calls_of_other_programs(harness: Harness) -> None:
    harness.file("f.txt", "one\ntwo\n")
    calls = [
        call("read_file", file_path="f.txt", pages="1"),
        call("edit_file", file_path="f.txt", old_string="two", new_string="2", instruction="Use a digit."),
        call("bash", command=["bash", "-lc", "cat f.txt"], description="Show the file", timeout_ms=30_000),
        call("bash", command="rm f.txt", dry_run=True),
    ]
    s = await harness.ran({"a": [Say("", [one]) for one in calls]})
    read, edited, shown, refused = s.results()
    assert read == "ok: 1\tone\n2\ttwo\n[Left out, not an argument of this tool: pages]"
    assert edited.endswith("+1 -1 lines.\n[Left out, not an argument of this tool: instruction]")
    assert shown.startswith("ok: one\n2\n[exit 0")
    assert shown.endswith("\n[Left out, not an argument of this tool: description]")
    assert refused == "error: bash: there is no argument `dry_run`. The arguments are: command, timeout_s, background."
    assert (harness.project / "f.txt").read_text(encoding="utf-8") == "one\n2\n"
    assert s.record("a").receipt.commands[0].command == "cat f.txt"


async def test_rules_and_people_see_what_a_call_means(harness: Harness) -> None:
    """A deny rule holds in every spelling, and a person is asked about the arguments as they are understood."""
    calls = [
        call("write_file", file_path="no.txt", content="x"),
        call("bash", cmd=["git", "push"]),
        call("bash", command="make", workdir="src"),
    ]
    harness.file("src/Makefile", "all:\n")
    async with harness.open(
        {"a": [Say("", calls)]},
        mode="ask",
        attended=True,
        deny=("write_file(no.txt)", "bash(git push *)", "bash(git push)"),
    ) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.of(PermissionAsked))
        (asked,) = s.of(PermissionAsked)
        await s.session.answer(asked.id, ApprovalAnswer("deny"))
        await asking
        assert [result.split(":")[0] for result in s.results()] == ["denied"] * 3
        assert (asked.subject, asked.arguments) == ("cd src || exit; make", {"command": "cd src || exit; make"})
