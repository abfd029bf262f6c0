"""Hooks: programs that run when something happens in a session. Their files, what they match, and what they answer."""

from .hook import EVENTS, Hook
from .read import HookFiles, hook_files, read_hooks

__all__ = ["EVENTS", "Hook", "HookFiles", "hook_files", "read_hooks"]
