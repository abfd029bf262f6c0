"""Agents of a session: what each is built from, its tools, prompt, rights, worktree and hooks."""
