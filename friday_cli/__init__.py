"""Friday: a terminal coding assistant whose sub-agents are first-class."""

__version__ = "0.1.0"
