"""The catalogue of tools: a tool is its file and its row, and no code elsewhere knows its name."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import friday_cli.tools
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import ToolCatalog, ToolEffect, ToolInfo
from friday_cli.core.tool_catalog import CODE, EXTERNAL, TOOLS
from friday_cli.llm import models
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from tests.cli.console import Console
from tests.engine_fixture import Model, Say, call

PACKAGE = Path(friday_cli.__file__).parent
PROGRAMS = (
    "command_safety/",
    "core/permissions/dangerous.py",
    "core/permissions/taint.py",
    "diagnostics/doctor/machine.py",
    "workspace/process/starter.py",
    "agents/hooks/process.py",
    "external_agents/",
)
"""Here `bash` and `grep` are programs."""
EXEMPT = {
    "tools/": "the tools themselves",
    "core/tool_catalog.py": "the rows",
    "core/protocol/tool_info.py": "names that the core itself uses",
    "llm/providers/anthropic_request.py": "`web_search` is a word of this API",
    "llm/providers/openai_responses.py": "`web_search` is a word of this API",
    "llm/providers/demo/": "the script of a model",
    "diagnostics/selftest.py": "the script of a model",
    "frontends/tui/commands/slash_commands.py": "`/todo` is a command of the person",
    "frontends/acp/": "kinds of cards, and the tool whose card is the plan",
    "session/commands.py": "tags of commands",
    "map/": "`glob` is a source of items, `bash` a program",
    "cli/map": "`glob` is a source of items",
    "extensions/importing/opencode.py": "a table of our names and those of OpenCode",
    "extensions/hooks/claude_names.py": "a table of our names and those of Claude Code",
    "frontends/mcp_server/": "tools that Friday serves, in their own words",
    "extensions/profiles/render.py": "the template of a profile in Markdown",
}

WORDS = {CODE, EXTERNAL}
"""Tools whose names are words of many other things; they are looked for in no text."""

FILE = """
import msgspec

from friday_cli.core.protocol.tool import Output, Tool
from friday_cli.core.tool_catalog import TOOLS


class Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


async def _shout(ctx, args):
    return Output(args.text.upper())


def tools():
    return [Tool(_shout, TOOLS["shout"], args=Args, description="Say it louder.", subjects=lambda args, workspace: (args.text,))]
"""
ROW = ToolInfo("shout", "net", "shouting", effects=(), aliases=("Shout",), prompt_hint="`shout` sparingly.")
PROFILE = "---\nname: crier\ndescription: Cries out loud.\nallowedTools: [shout]\n---\nCry."


@pytest.fixture
def shout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tool more: one file and one row."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "shouting.py").write_text(FILE, encoding="utf-8")
    monkeypatch.setattr(friday_cli.tools, "__path__", [*friday_cli.tools.__path__, str(folder)])
    monkeypatch.setitem(TOOLS.rows, ROW.name, ROW)
    yield
    sys.modules.pop("friday_cli.tools.shouting", None)


@pytest.mark.usefixtures("shout")
async def test_a_tool_is_its_file_and_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Request] = []

    def play(request: Request, count: int) -> Say:
        seen.append(request)
        return Say(calls=[call("shout", text="hello")]) if count == 0 else Say("done")

    monkeypatch.setattr(models, "create_provider", lambda *args, **more: Model(play))
    env = {"FRIDAY_HOME": str(tmp_path / "home"), "ANTHROPIC_API_KEY": "sk-0123456789"}
    session = await Session.open(Options(tmp_path, model="anthropic/x", allow=("Shout(hello)",)), env=env)
    try:
        assert (await session.prompt("go")).status == "completed"
    finally:
        await session.close()
    assert "shout" in {spec.name for spec in seen[0].tools}
    assert ROW.prompt_hint in seen[0].system
    assert [r.text for message in seen[1].messages for r in message.results] == ["HELLO"]


@pytest.mark.usefixtures("shout")
def test_a_profile_and_permissions_explain_know_it_by_its_row(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    console = Console(tmp_path, home, capsys)
    folder = console.friday_home / "profiles"
    folder.mkdir(parents=True)
    (folder / "crier.md").write_text(PROFILE, encoding="utf-8")
    assert "tools shout" in " ".join(console("profiles", "show", "crier").out.split())
    for profile, decision in (("crier", "ask"), ("coder", "deny")):
        explained = console("permissions", "explain", "shout: hello", "--profile", profile, "--json").document
        assert (explained["tool"], explained["decision"]) == ("shout", decision)
    console.config.write_text('[permissions]\nallow = ["Shout(hello)"]\n', encoding="utf-8")
    assert console("permissions", "explain", "shout: hello", "--json").document["rule"] == "shout(hello)"


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        ("Bash", ("bash", "bash_output", "bash_kill")), ("webfetch", ()), ("WEBFETCH", ("web_fetch",)), ("replace", ("edit_file",)),
        ("Agent", ("delegate_task",)), ("bash", ()), ("nothing", ()),
    ],
)  # fmt: skip
def test_aliases(alias: str, names: tuple[str, ...]) -> None:
    assert TOOLS.named(alias) == names


def test_a_rule_in_the_spelling_of_others_needs_the_catalogue() -> None:
    assert str(parse_rule("Bash(git log:*)", "allow", TOOLS)) == "bash(git log *)"
    assert str(parse_rule("Bash(git log:*)", "allow")) == "Bash(git log:*)"


def test_what_the_rows_grant() -> None:
    """A row that grants too much, or takes evidence away, must be noticed."""
    assert {row.effect for row in TOOLS if row.by_default} == {"read", "own"}, (
        "a profile without a list changes nothing"
    )
    assert {row.name for row in TOOLS if not row.verifies} == {
        "todo",
        "skill",
        "ask_user",
        "task_result",
        "list_sub_agents",
        "search_profiles",
    }
    spelled = {row.name: row.spelling for row in TOOLS if row.spelling}
    assert spelled == {
        **dict.fromkeys(("read_file", "edit_file", "write_file", "bash", "web_fetch", "delegate_task"), "always"),
        **dict.fromkeys(("delegate_tasks", "map_tasks"), "with a pattern"),
    }
    assert TOOLS.granted_by("harness") == {"task_result", "external"}
    assert {row.effect for row in TOOLS if row.grant == "profile"} == {"read", "write", "run", "net", "save", "own"}


WHAT_RULES_NAME = re.compile(r"(?:^|_)(?:path|paths|file|files|folder|url|urls|host|profile|profiles|command)$")


def test_what_a_tool_does_is_declared_before_it_can_be_used() -> None:
    """A tool that no rule could meet by its effect is not accepted."""
    with pytest.raises(ValueError, match="does not say which effects these tools have: peek"):
        ToolCatalog((ToolInfo("peek", "read", "files"),))
    row = ToolInfo("peek", "read", "files", effects=(ToolEffect("read", "path"),))
    with pytest.raises(ValueError, match="peek has the argument 'path', but it does not"):
        Tool(_peek, row, args=ToolArguments, description="Peek.")


def test_every_argument_that_names_a_file_a_host_or_a_profile_is_declared() -> None:
    """The tools for delegation, skills and worktrees are made by a session; their rows are checked when they are made."""
    made = [tool for group in TOOLS.groups("profile") for tool in _made(group)]
    assert len(made) > 12
    for tool in made:
        declared = {one.argument.partition(".")[0] for one in tool.info.effects or ()}
        named = {name for name in tool.args.__struct_fields__ if WHAT_RULES_NAME.search(name)}
        assert named <= declared, tool.name


async def _peek(context: ToolContext, args: ToolArguments) -> Output:
    return Output("")


def _made(group: str) -> list[Tool]:
    module = importlib.import_module(f"friday_cli.tools.{group}")
    given: dict[str, Any] = {
        "memory": {"memory": None},
        "web": {"private": False, "pdf": None, "search": None},
        "ask_user": {"attended": True},
        "code": {"servers": None},
    }
    return list(module.tools(**given.get(group, {})))


# ---- names -----------------------------------------------------------------------------


def strings(file: Path) -> Iterator[tuple[int, str]]:
    """Every string in a file that is not a docstring or a comment: line and text."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def test_no_tool_is_named_by_a_literal_outside_the_catalogue() -> None:
    """Neither alone nor, where it cannot be another word, within a text."""
    exact = TOOLS.names - WORDS
    within = re.compile(r"\b(?:" + "|".join(sorted(name for name in exact if "_" in name)) + r")\b")
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if name.startswith(tuple(EXEMPT)):
            continue
        words = exact - {"skill", "code"} - ({"bash", "grep"} if name.startswith(PROGRAMS) else set())  # words, too
        found += [f"{name}:{at}: {text[:60]!r}" for at, text in strings(file) if text in words or within.search(text)]
    assert not found, "use a constant of core/tool_catalog.py"
