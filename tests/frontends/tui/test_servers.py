"""`/mcp` in the chat: the servers of a session, their prompts, and connecting again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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
        await chat.say("/mcp__small__greet Bob", shows="Greet Bob.")


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
