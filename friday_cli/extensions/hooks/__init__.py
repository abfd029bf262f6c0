"""Hooks: programs that run when something happens in a session. Their files, what they match, and what they answer."""
