"""Plugins: folders with skills, MCP servers, agents and commands, as Agent Plugins 1.0.0 and Claude Code define them."""
