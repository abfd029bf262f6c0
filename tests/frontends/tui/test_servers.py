"""`/mcp` in the chat: the servers of a session, their prompts, and connecting again."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from friday_cli.cli.transcript_text import conversation
from friday_cli.frontends.tui.widgets import approval_panel
from tests.frontends.tui.chat import opened
from tests.servers import mcp_stdio

ONE = {"a": [{"text": "I read: {task}"}]}


def put(home: Path, *words: str) -> None:
    path = home / "friday" / "mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    args = ["-S", "-E", str(mcp_stdio.__file__), *words]
    path.write_text(
        json.dumps(
            {"mcpServers": {"small": {"command": sys.executable, "args": args, "env": {"MY_TOKEN": "a1B2a1B2a1B2"}}}}
        )
    )


async def test_servers_are_shown_reconnected_and_their_prompts_sent(tmp_path: Path, home: Path) -> None:
    put(home, "era=modern")
    async with opened(tmp_path, ONE, size=(200, 60)) as chat:
        pool = chat.session.servers
        assert pool is not None
        await pool.idle()
        await chat.say("/mcp", shows="/mcp__small__greet who")
        chat.has("small", "connected", "17", "search", "small 1", "MY_TOKEN='(hidden)'")
        await chat.say("/mcp reconnect small", shows="Connected to small.")
        await chat.say("/mcp reconnect smal", shows="no MCP server 'smal'")
        await chat.say("/mcp__small__greet", shows="who is missing.")
        await chat.type("/gree", shows="/mcp__small__greet who")
        chat.composer.put("")
        await chat.ask("/mcp__small__greet Bob", shows="+ small·greet · 1 line")
        assert "Greet Bob." in str(chat.state.agents["a"].transcript), "the model read it"


CALLS = {
    "a": [
        *(
            {"calls": [{"name": "mcp_call", "arguments": {"server": server, "tool": tool, "arguments": given}}]}
            for server, tool, given in (
                ("small", "echo", {"text": "hi", "n": 2}),
                ("small", "image", {}),
                ("smal", "ech", {}),
                ("small", "form", {}),
            )
        ),
        {"text": "done"},
    ]
}


async def test_a_call_by_mcp_call_is_shown_as_that_of_the_servers_tool(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)
    put(home, "tools=20")
    async with opened(tmp_path, CALLS, size=(100, 40)) as chat:
        await chat.say("go", shows="Friday wants to use the MCP server small: echo")
        chat.has("text: hi", "n: 2", "small·echo text: hi, n: 2 · waits for you")
        assert "{" not in chat.frame  # the arguments are shown once
        await chat.press("1", shows="small: image")
        await chat.press("1", shows="small: form")
        await chat.press("1", shows="Field 1 of 3, required:")
        chat.has(
            "MCP server small (called by agent a) asks:", "| Which one?", "| name", "❯ 1 Write the answer", "2 Decline"
        )
        await chat.press("1")
        await chat.type("Bob")
        await chat.press("enter", shows="Field 2 of 3, required:")
        await chat.press("2", shows="Field 3 of 3, may be left empty:")
        chat.has("3 Leave empty", "4 Decline")
        await chat.press("3")
        await chat.idle()
        chat.has(
            "✓ small·echo text: hi, n: 2", "✓ small·image · 1 image", "There is no MCP server 'smal'.", "✓ small·form"
        )
        written = ["".join(text for text, _ in line) for line in conversation(chat.state.agents["a"])]
        written = [re.sub(r" · [\d.]+ s$", "", line) for line in written]
    assert [line for line in written if "·" in line and line.startswith("  ")] == [
        "  ✓ small·echo text: hi, n: 2",
        "  ✓ small·image · 1 image",
        "  ✗ smal·ech",
        "  ✓ small·form",
    ]


async def test_the_last_error_is_shown_and_a_chat_without_servers_says_how_to_add_one(
    tmp_path: Path, home: Path
) -> None:
    async with opened(tmp_path, ONE, size=(200, 60)) as chat:
        await chat.say("/mcp", shows="has no MCP servers")
    put(home, "die")
    async with opened(tmp_path, ONE, size=(240, 60)) as chat:
        pool = chat.session.servers
        assert pool is not None
        await pool.idle()
        await chat.say("/mcp")
        await chat.until(lambda: "failed" in chat.frame and "it ended at the start" in chat.frame)
