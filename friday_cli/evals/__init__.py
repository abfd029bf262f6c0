"""Evals: tasks that are tried several times with different settings, and what the results say (docs/eval.md)."""
