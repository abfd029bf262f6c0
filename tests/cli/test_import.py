"""`friday import`: what another assistant has is shown first and then written; what the person has is not changed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Console

CLAUDE_AGENT = """---
name: Code Reviewer
description: Reviews: finds bugs.
tools: Read, Grep, Bash(git diff:*)
model: sonnet
color: red
---
You review.
"""
HOOK = {"type": "command", "command": "guard --token sk-ant-api03-" + "x" * 80}
FILES: dict[str, dict[str, Any]] = {
    "claude": {
        ".claude.json": {
            "mcpServers": {"files": {"command": "npx", "args": ["server"], "env": {"API_KEY": "hidden-value-1"}}, "bad": {}},
            "projects": {"PROJECT": {"mcpServers": {"local": {"type": "http", "url": "https://example.org/mcp"}}}},
        },
        ".claude/settings.json": {
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [HOOK, {"type": "prompt", "prompt": "x"}]}]},
            "permissions": {"allow": ["Bash(npm run:*)", "Read(//etc/**)"], "deny": ["WebFetch"], "ask": ["Nope(x)"]},
        },
        ".claude/agents/sub/reviewer.md": CLAUDE_AGENT,
        ".claude/commands/git/commit.md": "---\nallowed-tools: Bash(git add:*), Read\nmodel: opus\n---\nCommit $1: !`git status`\n",
        ".claude/CLAUDE.md": "Be brief.",
    },
    "codex": {
        ".codex/config.toml": '[mcp_servers.docs]\nurl = "https://example.org/mcp"\nbearer_token_env_var = "DOCS_TOKEN"\nscopes = ["a"]\n'
        '[mcp_servers.run]\ncommand = "run"\nargs = ["-x"]\nstartup_timeout_sec = 5\nenabled = false\n',
        ".codex/hooks.json": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "done.sh"}]}]}},
        ".codex/rules/default.rules": 'prefix_rule(pattern = ["git", ["push", "fetch"]], decision = "forbidden")\n'
        'prefix_rule(pattern=["ls"])\nhost_executable(name="x")\nprefix_rule(pattern=open("x"))\n',
        ".codex/agents/checker.toml": 'name = "checker"\ndescription = "Checks."\ndeveloper_instructions = "Check it."\n'
        'model_reasoning_effort = "high"\nsandbox_mode = "read-only"\nweb_search = "live"\n',
        ".codex/prompts/draft.md": "Draft $ARGUMENTS",
        ".codex/AGENTS.md": "Be exact.",
    },
    "opencode": {
        ".config/opencode/opencode.json": '{ // mine\n"mcp": {"gh": {"type": "local", "command": ["gh-mcp", "stdio"], "environment": '
        '{"GH": "{env:GH_TOKEN}"}}, "far": {"type": "remote", "url": "https://example.org/mcp//x", "oauth": {}},},\n'
        '"permission": {"edit": "ask", "bash": {"*": "ask", "git push *": "deny", "ls *": "allow"}, "lsp": "allow"},\n'
        '"command": {"test": {"template": "Run $ARGUMENTS", "agent": "build"}}}',
        ".config/opencode/agent/plan-it.md": "---\ndescription: Plans.\nmode: primary\ntools:\n  write: false\n  bash: false\n"
        "model: anthropic/claude-sonnet-5\ntop_p: 0.5\n---\nPlan.",
        ".config/opencode/plugin/x.ts": "export const X = 1",
    },
}  # fmt: skip


@pytest.fixture(params=sorted(FILES))
def assistant(request: pytest.FixtureRequest, console: Console, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an assistant whose files are in the home folder."""
    monkeypatch.setenv("HOME", str(console.home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, content in FILES[request.param].items():
        path = console.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content).replace("PROJECT", str(console.project))
        path.write_text(text, encoding="utf-8")
    return str(request.param)


EXPECTED = {
    "claude": {
        ("server", "files"), ("server", "local"), ("hook", "PreToolUse Bash"), ("rule", "bash(npm run *)"),
        ("rule", "read_file(/etc/**)"), ("rule", "web_fetch"), ("agent", "code-reviewer"),
        ("command", "/git:commit"), ("instructions", "AGENTS.md"),
    },
    "codex": {
        ("server", "docs"), ("server", "run"), ("hook", "Stop"), ("rule", "bash(git push *)"), ("rule", "bash(git fetch *)"),
        ("rule", "bash(ls *)"), ("agent", "checker"), ("command", "/draft"), ("instructions", "AGENTS.md"),
    },
    "opencode": {
        ("server", "gh"), ("server", "far"), ("rule", "edit_file"), ("rule", "write_file"), ("rule", "bash(git push *)"),
        ("rule", "bash(ls *)"), ("agent", "plan-it"), ("command", "/test"),
    },
}  # fmt: skip
LEFT = {
    "claude": (
        "the server bad",
        "'prompt' are not supported",
        "Nope",
        "color has no effect",
        "model has no effect",
        "not run",
    ),
    "codex": ("scopes has no effect", "rule in line 4 cannot be read", "web_search has no effect"),
    "opencode": (
        "oauth has no effect",
        "the mode decides",
        "permission.lsp",
        "agent has no effect",
        "a primary agent there",
        "top_p has no effect",
        "is code of OpenCode",
    ),
}


def test_everything_is_shown_and_nothing_is_written_without_a_yes(console: Console, assistant: str) -> None:
    listed = console("import", assistant, "--json").document
    assert {(row["kind"], row["name"]) for row in listed["found"]} == EXPECTED[assistant]
    for part in LEFT[assistant]:
        assert any(part in line for line in listed["left"]), part
    before = sorted(console.friday_home.rglob("*"))
    asked = console("import", assistant)
    assert asked.code == 2
    assert "Nothing was written" in asked.err
    assert all(line.count("not taken over") < 2 for line in asked.err.splitlines())
    assert sorted(console.friday_home.rglob("*")) == before
    assert "hidden-value-1" not in asked.out + asked.err
    assert "x" * 80 not in asked.out + asked.err
    assert ("env.API_KEY in plain text" in asked.err) is (assistant == "claude")


def test_it_is_taken_over_once_and_works(console: Console, assistant: str) -> None:
    home = console.friday_home
    home.mkdir(exist_ok=True)
    (home / "AGENTS.md").write_text("mine", encoding="utf-8")
    (home / "mcp.json").write_text('{"mcpServers": {"gh": {"command": "mine"}}}', encoding="utf-8")
    assert console("import", assistant, "--yes").code == 0
    assert (home / "AGENTS.md").read_text(encoding="utf-8") == "mine"
    servers = json.loads((home / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    assert servers["gh"] == {"command": "mine"}
    assert {name for kind, name in EXPECTED[assistant] if kind == "server"} <= servers.keys()
    assert all(row["state"] for row in console("import", assistant, "--json").document["found"])
    assert "nothing new" in console("import", assistant).err
    assert console("profiles", "check").code == 0
    agents = {name for kind, name in EXPECTED[assistant] if kind == "agent"}
    profiles = {row["name"]: row for row in console("profiles", "list", "--json").document["profiles"]}
    rules = tomllib.loads(console.config.read_text(encoding="utf-8"))["permissions"]
    if assistant == "claude":
        assert (home / "mcp.json").stat().st_mode & 0o077 == 0
        assert {row["event"] for row in console("hooks", "list", "--json").document["hooks"]} == {"PreToolUse"}
        assert profiles["code-reviewer"]["only"] == ["bash(git diff *)"]
        assert "grep" in profiles["code-reviewer"]["tools"]
        assert rules["deny"] == ["web_fetch"]
        text = (home / "commands/git/commit.md").read_text(encoding="utf-8")
        assert '"bash(git add *)"' in text
    if assistant == "codex":
        assert servers["docs"]["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}
        assert (servers["run"]["startup_timeout_s"], servers["run"]["enabled"]) == (5, False)
        assert (profiles["checker"]["mode"], profiles["checker"]["effort"]) == ("plan", "high")
        assert rules == {"deny": ["bash(git push *)", "bash(git fetch *)"], "allow": ["bash(ls *)"]}
    if assistant == "opencode":
        assert servers["far"]["url"] == "https://example.org/mcp//x"
        assert not {"write_file", "bash"} & set(profiles["plan-it"]["tools"])
        assert rules == {"ask": ["edit_file", "write_file"], "deny": ["bash(git push *)"], "allow": ["bash(ls *)"]}
    assert agents <= profiles.keys()


def test_a_folder_without_anything_says_so(console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "nothing new to import" in console("import", "codex").err
