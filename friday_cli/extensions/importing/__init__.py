"""Takes over what a person has configured in another assistant: MCP servers, hooks, permission rules, agents and commands."""
