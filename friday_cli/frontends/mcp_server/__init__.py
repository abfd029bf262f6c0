"""`friday mcp serve`: Friday's sub-agents as the tools of an MCP server."""
