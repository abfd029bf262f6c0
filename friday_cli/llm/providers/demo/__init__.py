"""The offline demo: a script on the scripted provider, no AI model, that drives the real loop, tools and sub-agents."""

from .provider import DemoProvider

__all__ = ["DemoProvider"]
