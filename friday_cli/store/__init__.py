"""Sessions, agents, events and memories in one SQLite file."""
