"""The event log and what is rebuilt from it."""
