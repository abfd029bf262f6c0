"""Git worktrees for isolated agents: created from the working tree as it is, applied completely or not at all."""
