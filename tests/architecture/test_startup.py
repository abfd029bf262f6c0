"""What a short command does not load: start-up time is a feature."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers.script_player import Reply, named, playing, unnamed

PROJECT = Path(__file__).parents[2]
HEAVY = (
    "textual", "anthropic", "openai", "genai_prices", "pypdf", "html_to_markdown", "jsonschema", "tree_sitter", "yaml",
)  # fmt: skip
"""No quick command loads one of these packages."""
SESSION = "friday_cli.session.session"
ON_DEMAND = tuple(f"friday_cli.{name}" for name in (
    "command_safety", "extensions.commands", "core.protocol.decode", "session.rewind", "session.observer",
    "workspace.checkpoints.file_history", "workspace.checkpoints.restore_plan", "workspace.checkpoints.review",
    "workspace.worktrees", "workspace.sandbox.system_call_filter", "core.text.deceptive", "diagnostics.doctor", "cli",
    "workspace.local_commands", "workspace.process.starter", "tools.search.engine",
    "frontends.tui", "mcp", "lsp", "extensions.hooks", "telemetry", "agents.hooks.setup", "agents.hooks.session_hooks",
    "agents.output_schema", "agents.first_message", "session.language_servers", "core.permissions.suggest", "tools.delegate.profile_search",
    "extensions.instruction_imports", "llm.models.local_servers",
))  # fmt: skip
"""Modules that `friday ask` loads only for a shell command, a rewind, a resumed session, a question, a sub-agent or what a
project has."""
LATER = (
    "commands.slash_commands", "palette", "widgets.agent_panel", "widgets.agent_strip", "widgets.approval_panel", "widgets.choice_dialog",
    "widgets.diff_review", "widgets.markdown", "widgets.number_dialog", "widgets.profile_dialog", "widgets.search_bar",
)  # fmt: skip
"""Modules of the chat that its first picture does not need."""
ANSWER = {
    "messages": named(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Here."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ),
    "chat": unnamed({"choices": [{"index": 0, "delta": {"content": "Here."}, "finish_reason": "stop"}]}, "[DONE]"),
}


def loaded(stderr: str) -> set[str]:
    """The modules that `-X importtime` names."""
    return {match[1] for match in re.finditer(r"^import time:.*\|\s+(\S+)$", stderr, re.M)}


def command(*args: str) -> tuple[Sequence[str], dict[str, str]]:
    return [sys.executable, "-m", "friday_cli", *args], {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}


def assert_not_loaded(modules: set[str], *names: str) -> None:
    """Neither `names` nor the heavy packages are loaded. A name of ours must exist, or the check would show nothing."""
    for name in names:
        path = PROJECT / name.replace(".", "/")
        assert not name.startswith("friday_cli") or path.is_dir() or path.with_suffix(".py").is_file(), name
    assert modules.isdisjoint([*HEAVY, *names]), sorted(modules & {*HEAVY, *names})


def run(*args: str, cwd: Path) -> tuple[str, set[str]]:
    """Standard output of a command, and the modules it loaded."""
    argv, env = command(*args)
    env["PYTHONPATH"] = str(PROJECT)
    ran = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert ran.returncode == 0, ran.stderr[-2000:]
    modules = loaded(ran.stderr)
    assert "friday_cli" in modules
    return ran.stdout, modules


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (["--version"], ["httpx2", "msgspec", "typer", "rich", "asyncio", "friday_cli.core.protocol.events"]),
        (["--help"], ["httpx2", "rich", SESSION]),
        (["ask", "--help"], ["httpx2", "rich", SESSION]),
        (["profiles", "list"], ["httpx2", "pydantic", "asyncio", SESSION]),
        (["profiles", "show", "researcher"], ["httpx2", "asyncio", SESSION]),
        (["sessions", "list"], ["httpx2", "pydantic", SESSION]),
        (["sessions", "list", "--all", "--json"], ["httpx2", "pydantic", SESSION]),
        (["config", "path"], ["httpx2", SESSION]),
        (["config", "show"], ["httpx2", "pydantic", SESSION]),
        (["trust", "--list"], ["httpx2", SESSION]),
        (["map", "status"], ["httpx2", "pydantic", SESSION]),
    ],
    ids=" ".join,
)
def test_quick_commands_load_little(args: list[str], more: list[str], tmp_path: Path) -> None:
    out, modules = run(*args, cwd=tmp_path)
    assert out.strip() or args[0] in ("sessions", "trust")
    assert_not_loaded(modules, *more)


@pytest.mark.parametrize("wire", ANSWER)
async def test_a_piped_question_over_http_loads_no_sdk(wire: str, tmp_path: Path) -> None:
    async with playing(Reply(ANSWER[wire])) as server:
        model, env_name, base = {
            "messages": ("anthropic/claude-sonnet-5-5", "ANTHROPIC", server.url),
            "chat": ("openai/some-model", "OPENAI", f"{server.url}/v1"),
        }[wire]
        argv, env = command("ask", "-m", model, "Where?")
        env |= {f"{env_name}_API_KEY": "no-key", f"{env_name}_BASE_URL": base, "PYTHONPATH": str(PROJECT)}
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=env,
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    modules = loaded(err.decode())
    assert (process.returncode, out.decode()) == (0, "Here.\n"), err.decode()[-2000:]
    assert "h11" in modules
    assert_not_loaded(modules, "httpx2", "typer", "rich", "pydantic", "difflib", "html.entities", *ON_DEMAND)
    out, modules = run("sessions", "list", cwd=tmp_path)
    assert "Where?" in out
    assert_not_loaded(modules, "asyncio", "friday_cli.core.protocol.events", "friday_cli.config", "friday_cli.cli.ask")
    shown, modules = run("sessions", "show", out.splitlines()[1].split()[0], "--agent", "a", cwd=tmp_path)
    assert "Here." in shown
    assert_not_loaded(modules, "httpx2", "pydantic", SESSION, "friday_cli.config")


def test_the_api_loads_nothing_before_it_is_used(tmp_path: Path) -> None:
    code = "import sys, friday_cli.api as friday; print(*sys.modules); friday.run; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    before, after = (set(line.split()) for line in ran.stdout.splitlines())
    assert_not_loaded(
        before, "asyncio", "msgspec", "friday_cli.core", "friday_cli.session", "friday_cli.api.open_session"
    )
    assert "friday_cli.api.open_session" in after
    assert_not_loaded(after, "httpx2", "typer", "rich", "pydantic", *ON_DEMAND)


def test_the_first_screen_of_the_chat_needs_no_model_and_no_settings(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, friday_cli.frontends.tui.app; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    names = (
        "friday_cli.llm",
        "friday_cli.config",
        "friday_cli.core.protocol.decode",
        "friday_cli.command_safety",
        "friday_cli.extensions",
        *(f"friday_cli.frontends.tui.{name}" for name in LATER),
        SESSION,
    )
    modules = set(ran.stdout.split())
    assert "textual" in modules
    assert_not_loaded(modules - {"textual", "tree_sitter"}, *names)  # which its text area loads


def test_what_starts_commands_loads_no_module_that_runs_in_each_fork() -> None:
    """`threading` touches 140 pages of memory in each process that is forked, and a command has two."""
    code = (
        "import sys; sys.path.append(sys.argv[1]); import friday_cli.workspace.process.supervisor; print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(PROJECT)]
    modules = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "friday_cli.workspace.sandbox.call_guard" in modules
    assert_not_loaded(set(modules), "threading", "random", "logging", "asyncio", "concurrent.futures")


def test_every_name_of_the_api_is_there() -> None:
    import friday_cli.api as friday

    assert sorted(friday.__all__) == friday.__all__
    assert all(getattr(friday, name) is not None for name in friday.__all__)
