"""Servers of the Model Context Protocol (MCP) whose tools Friday's agents can use: settings, connections, catalogs."""
