"""The server of `friday mcp serve` with fixture tools, on streamable HTTP at a free port of 127.0.0.1. Prints its address."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import mcp_types as types
import uvicorn

from friday_cli.frontends.mcp_server.options import OPTIONS
from friday_cli.frontends.mcp_server.serve_settings import ServeSettings
from friday_cli.frontends.mcp_server.server import build_server
from friday_cli.frontends.mcp_server.tools import FridayTools
from tests.counterparts.conformance_fixtures import FixtureTools


async def no_prompts(context: Any, params: Any) -> types.ListPromptsResult:
    """The answer to a list that Friday does not have, and a scenario needs."""
    return types.ListPromptsResult(prompts=[])


async def main() -> None:
    """Serve until the process is ended."""
    values = {option.dest: None for option in OPTIONS} | {"model": "demo"}
    host = FridayTools(ServeSettings.read(values))
    served = build_server(FixtureTools(host))
    served.add_request_handler("prompts/list", types.PaginatedRequestParams, no_prompts)
    app = served.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    try:
        await server.serve(sockets=[listening])
    finally:
        await host.delegations.close()


if __name__ == "__main__":
    asyncio.run(main())
