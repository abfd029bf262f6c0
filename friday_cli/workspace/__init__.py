"""The workspace on this machine: files, processes, sandbox, checkpoints, worktrees."""
