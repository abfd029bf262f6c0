"""Agents whose work another program does: it is started, bounded, counted and observed here, and speaks the Agent Client
Protocol (agentclientprotocol.com, version 1)."""
